"""`entities`: of the workers of a group, paged, searched, and honest about what is not in
the list.
"""

import json
from contextlib import ExitStack, contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.events import sample
from tests.cli.stored import rows_after
from tests.harness.http_server import Handler, HttpServer
from worker.state import MemoryRows
from worker.state.listing import EntitySearch, order, read_page

IDS = [*(f"B{number:03}" for number in range(40)), "long-id-of-a-stay", "é/1"]


@pytest.fixture(scope="module")
def partitions():
    """Rows of two partitions, as a worker stores them: every third entity in the second."""
    events = [{**event, "entity_id": IDS[i]} for i, event in enumerate(sample(len(IDS)))]
    return {
        0: rows_after([event for i, event in enumerate(events) if i % 3], 0),
        1: rows_after(events[::3], 1),
    }


@contextmanager
def served(mine, others):
    """A worker's `/entities` over these rows; `others` is what it tells of them."""

    class Entities(Handler):
        def do_GET(self):
            asked = parse_qs(urlsplit(self.path).query)
            given = {
                name: asked[name][0] for name in ("prefix", "contains", "after") if name in asked
            }
            page = read_page(mine, EntitySearch(**given), min(7, int(asked["limit"][0])))
            entities = [
                {name: getattr(entity, name) for name in entity.__slots__}
                for entity in page.entities
            ]
            body = {"entities": entities, "after": page.after, "searched": page.searched}
            body |= {"partitions": list(mine), "others": others}
            self.reply(200, json.dumps(body).encode())

    with HttpServer(Entities) as server:
        yield server.url


@pytest.fixture
def group(partitions):
    """The address of one of two workers."""
    with ExitStack() as stack:
        second = stack.enter_context(served({1: MemoryRows(partitions[1])}, {}))
        yield stack.enter_context(served({0: MemoryRows(partitions[0])}, {second: [1]}))


def listed(ended):
    assert ended.code == 0, ended
    return [json.loads(line)["entity_id"] for line in ended.out.splitlines()]


def test_searched_and_paged(run, group):
    source = ["--url", group]
    assert listed(run("entities", "B00", *source)) == IDS[:10]
    assert listed(run("entities", "--contains", "-id-", *source)) == ["long-id-of-a-stay"]
    assert listed(run("entities", "B", "--contains", "5", "--limit", "2", *source)) == [
        "B005",
        "B015",
    ]
    assert listed(run("entities", "--after", "B036", "--limit", "3", *source)) == [
        "B037",
        "B038",
        "B039",
    ]
    assert listed(run("entities", "nothing", *source)) == []


def test_the_workers_of_a_group_are_one_list(run, group):
    """Their pages end at different ids; each entity is there once, in order."""
    ended = run("entities", "--url", group)
    assert (listed(ended), ended.err) == (sorted(IDS, key=order), "")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_worker_that_is_not_reached_is_named(run, partitions, is_there):
    """One that does not answer, or whose address is here that of another worker: the list says what
    is not in it.
    """
    rows = {number: MemoryRows(found) for number, found in partitions.items()}
    with ExitStack() as stack:
        other = stack.enter_context(served({3: rows[1]}, {})) if is_there else "http://127.0.0.1:9"
        url = stack.enter_context(served({0: rows[0]}, {other: [1]}))
        ended = run("entities", "--url", url)
    assert listed(ended) == sorted(
        (identifier for i, identifier in enumerate(IDS) if i % 3), key=order
    )
    assert ended.err.startswith(f"not listed: the worker at {other} with partitions 1 (")
    assert ended.err.count("\n") == 1


def test_nobody_there(run):
    ended = run("entities", "--url", "http://127.0.0.1:9")
    assert (ended.code, ended.out) == (2, "")
    assert "no worker answers at http://127.0.0.1:9" in ended.err
