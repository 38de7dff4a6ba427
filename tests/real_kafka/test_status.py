"""`status` and `entities` on a real Kafka: two workers, one stopped, then none; and a group that
never was.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import LARGE_MESSAGES, SETTINGS, events, feed, good_review
from tests.harness.topics import producer
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, run_command
from worker import build
from worker.state.listing import order

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name, with a standby for each partition."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    settings = {
        **SETTINGS,
        "COVERSUMM_STANDBY_REPLICAS": "1",
        "COVERSUMM_SESSION_TIMEOUT_MS": "30000",
    }
    with pipeline(kafka, name, tmp_path, settings=settings, input_config=LARGE_MESSAGES) as made:
        yield made


def tool(site: Pipeline, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command beside the workers, without a data directory of theirs."""
    own = {"COVERSUMM_DATA_DIR": str(site.directory / "none"), **settings}
    return run_command(*arguments, environment={**site.environment, **own})


def status(site: Pipeline, code: int = 0) -> dict[str, Any]:
    """What `status` prints."""
    ended = tool(site, "status")
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    found: dict[str, Any] = json.loads(ended.stdout)
    assert ended.stderr.splitlines() == [
        f"coversumm-worker: error: {problem}" for problem in found["problems"]
    ]
    return found


def test_a_worker_at_an_ipv6_address(site: Pipeline) -> None:
    worker = site.worker(web_bind="[::1]").start()
    url = f"http://[::1]:{worker.web_port}"

    def is_known() -> bool:
        found = json.loads(tool(site, "status").stdout)
        return [(worker["url"], worker["ready"]) for worker in found["workers"]] == [(url, True)]

    eventually(is_known, worker.log_end, every_s=0.5)
    own = {"COVERSUMM_WEB_PORT": str(worker.web_port), "COVERSUMM_WEB_BIND": "::1"}
    assert tool(site, "inspect", "nobody", **own).returncode == 1
    other = tool(site, "inspect", "nobody", **own, COVERSUMM_APP_ID="other")
    assert (other.returncode, "is of the group" in other.stderr) == (2, True)


def settled(site: Pipeline, workers: int) -> dict[str, Any]:
    """`status` once so many workers share all partitions, nothing is wrong and nothing
    left to do.
    """
    last = None

    def is_settled() -> bool:
        nonlocal last
        last = tool(site, "status")
        if last.returncode:
            return False
        found = json.loads(last.stdout)
        return len(found["workers"]) == workers and not sum(
            partition["lag"] for partition in found["partitions"]
        )

    eventually(is_settled, lambda: f"{last}\n{site.logs()}", every_s=3)
    return status(site)


def listed(site: Pipeline, *arguments: str) -> list[dict[str, Any]]:
    """What `entities` prints; nothing is missing."""
    ended = tool(site, "entities", *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def histories(site: Pipeline, entity: dict[str, Any]) -> None:
    """`inspect --history`: each change has the texts of what came and what went, and they lead to
    the next.
    """
    ended = tool(site, "inspect", entity["entity_id"], "--history", "1000")
    assert (ended.returncode, ended.stderr) == (0, "")
    changes = [json.loads(line) for line in ended.stdout.splitlines()]
    assert changes[-1]["sequence"] == entity["sequence"]
    assert not any(change["incomplete"] for change in changes)
    shown: dict[str, str] = {}
    for change in changes:
        assert list(change["added_texts"]) == change["added"]
        assert change["removed_texts"] == {
            identifier: shown.pop(identifier) for identifier in change["removed"]
        }
        shown |= change["added_texts"]
        assert len(shown) == change["sentences"]
    last = json.loads(tool(site, "inspect", entity["entity_id"], "--history", "1").stdout)
    assert last == changes[-1], "the texts of what went are in the change before, shown or not"


def url(worker: WorkerProcess) -> str:
    """Its web address."""
    return f"http://127.0.0.1:{worker.web_port}"


@pytest.mark.long
def test_two_workers_one_stopped_then_none(site: Pipeline) -> None:
    """Who owns what, lag, readiness and addresses, each from where it is known."""
    before = status(site, code=1)
    assert before["state"] == "unknown"
    assert (before["workers"], before["problems"]) == (
        [],
        [f"no worker runs in the group {site.name}"],
    )
    assert [partition["lag"] for partition in before["partitions"]] == [0] * site.partitions

    first, second = site.start(2)
    load = events(300)
    feed(site, load)
    site.wait_caught_up()
    both = settled(site, 2)
    assert (both["state"], both["topic"]) == ("stable", site.input_topic)
    assert {worker["url"] for worker in both["workers"]} == {url(first), url(second)}
    assert all(
        worker["ready"] is True and worker["version"] == build() for worker in both["workers"]
    )
    given = [worker["partitions"] for worker in both["workers"]]
    assert sorted(chain.from_iterable(given)) == list(range(site.partitions))
    assert sorted(worker["standbys"] for worker in both["workers"]) == sorted(given), (
        "each is the other's standby"
    )
    owner = {p: worker["name"] for worker in both["workers"] for p in worker["partitions"]}
    assert {
        partition["partition"]: partition["worker"] for partition in both["partitions"]
    } == owner

    found = listed(site, "--url", url(first))
    assert found == listed(site, "--url", url(second)), "either tells of both"
    assert [entity["entity_id"] for entity in found] == sorted(
        (entity["entity_id"] for entity in found), key=order
    )
    assert all({entity["partition"] for entity in found} & set(share) for share in given)
    busiest = max(found, key=lambda entity: entity["reviews"])
    prefix = busiest["entity_id"][:-1]
    some = listed(site, prefix, "--contains", busiest["entity_id"][-1], "--url", url(first))
    assert busiest in some
    histories(site, busiest)

    second.pause()
    frozen = status(site)
    (away,) = (worker for worker in frozen["workers"] if worker["url"] == url(second))
    (there,) = (worker for worker in frozen["workers"] if worker["url"] == url(first))
    assert (away["ready"], away["version"]) == (None, None)
    assert away["reason"].startswith("no answer from here: ")
    assert there["ready"] is True
    second.resume()

    second.terminate()
    alone = settled(site, 1)
    assert alone["workers"][0]["partitions"] == list(range(site.partitions))

    first.terminate()
    feed(site, load[:40])
    expected = status(site, code=1)  # until its session is over: it may come back
    assert (expected["state"], [worker["ready"] for worker in expected["workers"]]) == (
        "stable",
        [None],
    )
    assert expected["problems"][0].startswith("no worker answers from here, so they may be down: ")
    found = [
        (partition["lag"], partition["end"] - (partition["committed"] or 0))
        for partition in expected["partitions"]
    ]
    assert all(lag == between for lag, between in found)
    eventually(
        lambda: status(site, code=1)["state"] == "empty",
        lambda: str(status(site, code=1)),
        every_s=3,
    )
    none = status(site, code=1)
    assert none["state"] == "empty"
    assert (none["workers"], none["problems"]) == ([], [f"no worker runs in the group {site.name}"])
    assert sum(partition["lag"] for partition in none["partitions"]) == 40
    assert all(partition["committed"] for partition in none["partitions"] if partition["end"])


@pytest.mark.long
def test_the_oldest_record_that_is_not_committed(site: Pipeline) -> None:
    """It waits by its own timestamp while an open transaction of the changelog holds up a restore,
    and no more once it is committed.
    """
    worker = site.worker().start()
    worker.wait_ready()
    feed(site, [good_review(0)])
    site.wait_caught_up()
    assert worker.terminate() == 0
    servers, (partition,) = site.broker.bootstrap_servers, site.targets()
    options = {"transactional.id": f"{site.name}-writer", "transaction.timeout.ms": 600_000}
    holding = producer(servers, **options)
    holding.init_transactions(PATIENCE_SECONDS)
    holding.begin_transaction()
    holding.produce(site.changelog_topic, b"", b"x", partition)
    assert holding.flush(PATIENCE_SECONDS) == 0
    sent_at, upstream = time.time(), producer(servers)
    for number, age in ((1, 1000), (2, 500)):
        key, value = good_review(number)[:2]
        upstream.produce(site.input_topic, value, key, timestamp=int((sent_at - age) * 1000))
    assert upstream.flush(PATIENCE_SECONDS) == 0
    worker.start()
    start, end = "coversumm_oldest_unprocessed_seconds{partition=", f',topic="{site.input_topic}"}}'

    def oldest() -> dict[str, float]:
        try:
            return {
                name.removeprefix(start).removesuffix(end): seconds
                for name, seconds in worker.metrics().items()
                if name.startswith(start)
            }
        except OSError:
            return {}  # it does not serve yet

    eventually(oldest, worker.log_end)
    asked_at = time.time()
    assert 999 + asked_at - sent_at < oldest()[f'"{partition}"'] < 1001 + time.time() - sent_at
    assert not worker.ready()
    holding.abort_transaction(PATIENCE_SECONDS)
    site.wait_caught_up()
    expected = {f'"{partition}"': 0.0 for partition in range(site.partitions)}
    eventually(lambda: oldest() == expected, lambda: str(oldest()))
    found, labels = worker.metrics(), f'{{path="{worker.data_dir}"}}'
    free, size = (
        found[f"coversumm_data_volume_{figure}_bytes{labels}"] for figure in ("free", "size")
    )
    assert 0 < free < size


def test_what_is_not_there(site: Pipeline) -> None:
    """No topic and no broker: one line, exit code 2."""
    for setting, value, message in (
        ("COVERSUMM_INPUT_TOPIC", "nothing.here", "the input topic nothing.here does not exist"),
        (
            "KAFKA_BOOTSTRAP_SERVERS",
            "127.0.0.1:9",
            "no answer from KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9",
        ),
    ):
        ended = tool(site, "status", **{setting: value})
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(f"coversumm-worker: error: {message}")
        assert ended.stderr.count("\n") == 1
