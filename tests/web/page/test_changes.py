"""What the page makes of changes, by its own script in a real Chromium: each once, whichever way it
came, and what they tell.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from msgspec import structs

from tests.harness.bodies import BODY
from tests.harness.browser import Browser, Tab
from tests.harness.page_site import Site
from worker.events import Message
from worker.events.json_codec import encode
from worker.state.listing import Page

pytestmark = pytest.mark.chromium


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module")
def tab(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """The page of a worker."""
    loop, server = asyncio.new_event_loop(), TestServer(site.application())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start_server(), loop).result(30)
    with Browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser.open(str(server.make_url("/")))
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)


def change(
    sequence: int, added: dict[str, str], removed: tuple[str, ...] = (), **facts: Any
) -> dict[str, Any]:
    """As the history tells it."""
    return {
        "tombstone": False,
        "sequence": sequence,
        "occurred_at": f"2026-01-{sequence:02}T00:00:00Z",
        "cause": {"type": "review.upserted", "review_id": f"r{sequence}"},
        "added": list(added),
        "removed": list(removed),
        "added_texts": added,
        "removed_texts": dict.fromkeys(removed),
    } | facts


TOMBSTONE = change(0, {}) | {
    "tombstone": True,
    "sequence": None,
    "cause": None,
    "occurred_at": None,
}


def evaluated(tab: Tab, expression: str, *values: Any) -> Any:
    """What an expression of changes.js, `it`, comes to; the values are `a`, `b`, ..."""
    names = ", ".join("abc"[: len(values)])
    return tab.evaluate(
        f"import('/page/changes.js').then((it) => (({names}) => "
        f"{expression})(...{json.dumps(values)}))"
    )


def test_what_came_while_the_history_was_read_is_there_once(tab: Tab) -> None:
    read = [change(1, {"a": "x"}), change(3, {"b": "y"})]
    live = [change(number, {}) | {"isLive": True} for number in (2, 3, 4, 5)]
    assert evaluated(tab, "it.joined(a, b).map((one) => one.sequence)", read, live) == [1, 3, 4, 5]
    assert evaluated(tab, "it.joined(a, b).length", [*read, TOMBSTONE], [live[1]]) == 3
    assert evaluated(tab, "it.joined(a, b).map((one) => one.sequence)", [], live) == [2, 3, 4, 5]


def test_a_live_change_has_the_texts_that_left(tab: Tab) -> None:
    body = {
        "sequence": 9,
        "occurred_at": None,
        "cause": {"type": "review.deleted", "review_id": "r"},
        "sentences": [{"sentence_id": "new", "text": "come"}],
        "added": ["new"],
        "removed": ["shown", "earlier", "never seen"],
    }
    shown, changes = (
        [{"sentence_id": "shown", "text": "of now"}],
        [change(1, {"earlier": "of then"})],
    )
    made = evaluated(tab, "it.asChange(a, b, c)", body, shown, changes)
    assert made["added_texts"] == {"new": "come"}
    assert made["removed_texts"] == {"shown": "of now", "earlier": "of then", "never seen": None}
    assert "sentences" not in made  # a page that stays open keeps what it shows


def test_since_when_a_sentence_is_there(tab: Tab) -> None:
    changes = [
        change(1, {"a": "x", "b": "y"}),
        change(2, {}, ("a",)),
        change(3, {"a": "x"}, ("b",)),
    ]
    since = "Object.fromEntries([...it.cameWith(a)].map(([id, one]) => [id, one.sequence]))"
    assert evaluated(tab, since, changes) == {"a": 3}
    assert evaluated(tab, since, [*changes, TOMBSTONE]) == {}
    assert evaluated(tab, since, [*changes, TOMBSTONE, change(7, {"b": "y"})]) == {"b": 7}


def test_a_date_is_that_of_the_review_or_none(tab: Tab) -> None:
    mine = {"sentence_id": "r1#0", "review_id": "r1", "text": "x"}
    own, by_other = change(1, {"r1#0": "x"}), change(5, {"r1#0": "x"})
    date = own["occurred_at"]
    assert evaluated(tab, "it.dateOf(a, b)", mine, [own]) == date
    assert (
        evaluated(tab, "it.dateOf(a, b)", mine, [own, change(2, {}, ("r1#0",)), by_other]) == date
    )
    assert evaluated(tab, "it.dateOf(a, b)", mine, [by_other]) is None
    assert evaluated(tab, "it.dateOf(a, b)", mine | {"text": "edited since"}, [own]) is None
    for other in ({"occurred_at": None}, {"cause": {"type": "review.deleted", "review_id": "r1"}}):
        assert evaluated(tab, "it.dateOf(a, b)", mine, [own | other]) is None
    assert evaluated(tab, "it.dateOf(a, b)", mine, [TOMBSTONE]) is None


def test_an_entity_that_changes_all_the_time_does_not_keep_the_worker_reading(
    site: Site, tab: Tab
) -> None:
    """More changes than are sent one by one: the summary follows, its history is read again now
    and then.
    """
    tab.evaluate("location.hash = '#/entity/x?view=ranking'")
    tab.wait("document.querySelector('.state')?.textContent === 'live'")
    tab.evaluate(
        "window.skips = 0; const source = new EventSource('/page/entities/x/changes'); "
        "source.addEventListener('skipped', () => window.skips += 1)"
    )
    text, number = "", 0
    while tab.evaluate("window.skips") < 4:
        for _ in range(20):
            number += 1
            sentence = structs.replace(BODY.sentences[0], text=f"number {number}")
            body = structs.replace(BODY, sequence=1000 + number, sentences=[sentence])
            site.feed.committed([Message("out", 0, b"x", encode(body), [])])
        text = f"number {number}"
    tab.wait(f"document.querySelector('.sentences p')?.textContent === {json.dumps(text)}")
    assert len(site.history.asked) == 1
    assert site.state.asked.count("x") <= 2
    assert tab.complaints == []


def test_a_page_that_is_open_before_there_is_anything_shows_what_comes(
    site: Site, tab: Tab
) -> None:
    """As that of a demo, or of a worker that is not ready yet."""
    ids = "[...document.querySelectorAll('#found a')].map((one) => one.dataset.id).join()"
    entities = site.state.entities

    async def none(*_: Any) -> Page:
        return Page([], None, 0)

    site.state.entities, site.state.is_ready = none, False
    tab.evaluate("location.hash = '#/'")
    tab.type("#contains", "")
    tab.evaluate("document.querySelector('#search').requestSubmit()")
    tab.wait("document.querySelector('#notice').textContent === ''")
    site.state.is_ready = True
    tab.wait("document.querySelector('#notice').textContent === 'No entity yet.'")  # asked again
    site.feed.committed(
        [Message("out", 0, name.encode(), encode(BODY), []) for name in ("new", "newer", "new")]
    )
    tab.wait(f"{ids} === 'new,newer'")
    assert tab.text("#notice") == ""
    more = structs.replace(BODY, sequence=BODY.sequence + 1, review_count=4321)
    site.feed.committed([Message("out", 0, b"newer", encode(more), [])])
    tab.wait(
        "document.querySelector('#found li:first-child small').textContent === "
        f"{json.dumps('4,321')}"
    )
    assert tab.evaluate("document.querySelector('#more').hidden")
    site.state.entities = entities
    assert tab.complaints == []


def test_who_may_not_look_on_is_told_why(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.web.page.routes.MOST_WATCHERS", 0)
    monkeypatch.setattr("worker.web.page.watchers.MOST_WATCHERS", 0)
    for path in ("#/entity/y", "#/"):
        tab.evaluate(f"location.hash = '{path}'")
        tab.wait(
            "document.querySelector('.state').textContent.endsWith(': 0 pages are open already: "
            "close one')"
        )
    monkeypatch.undo()
    tab.wait("document.querySelector('.state').textContent === 'live'")
    tab.evaluate("location.hash = '#/entity/x'")
    tab.wait("document.querySelector('.state').textContent === 'live'")
