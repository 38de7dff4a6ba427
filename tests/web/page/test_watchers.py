"""Watchers get the same bytes, skip what they do not take, and are limited in number."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tests.harness.bodies import BODY
from tests.harness.eventually import eventually_here
from tests.harness.page_site import change
from tests.harness.patience import PATIENCE_SECONDS
from worker.events import FacetSummary, Message, Ratings, SummarySentence
from worker.events.json_codec import encode
from worker.events.outputs import FacetsChanged
from worker.stream.feed import ChangeFeed
from worker.stream.surroundings import Threads
from worker.web.page import watchers as module
from worker.web.page.watchers import SKIPPED, TooManyWatchers, Watcher, Watchers


def events(frame: bytes) -> list[tuple[str, Any]]:
    """The names and data of what is in a frame."""
    found = []
    for block in frame.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.fixture
def feed() -> ChangeFeed:
    return ChangeFeed("out", "facets", Threads())


async def test_who_comes_later_gets_the_latest_changes_first(feed: ChangeFeed) -> None:
    feed.committed([change("a"), change("c")])
    with Watchers(feed).one_more(None) as late:
        frame = await late.next(PATIENCE_SECONDS)
    assert frame is not None
    ((name, news),) = events(frame)
    assert (name, news["count"]) == ("changes", 0)
    assert [each["entity_id"] for each in news["changes"]] == ["a", "c"]


async def test_everything_in_short_and_an_entity_in_full(feed: ChangeFeed) -> None:
    watchers = Watchers(feed)
    with (
        watchers.one_more(None) as all_of_it,
        watchers.one_more(b"a") as watcher,
        watchers.one_more(b"b") as other,
    ):
        feed.committed([change("a"), change("c"), Message("out", 0, b"a", None, [])])
        frame = await all_of_it.next(PATIENCE_SECONDS)
        assert frame is not None
        ((name, news),) = events(frame)
        assert (name, news["count"]) == ("changes", 3)
        assert [(each["entity_id"], each["deleted"]) for each in news["changes"]] == [
            ("a", False),
            ("c", False),
            ("a", True),
        ]
        assert news["changes"][0]["text"] in [sentence.text for sentence in BODY.sentences]
        assert news["changes"][0]["subject"] == ""
        frame = await watcher.next(PATIENCE_SECONDS)
        assert frame is not None
        assert events(frame) == [("change", json.loads(encode(BODY))), ("change", None)]
        assert await other.next(0.01) == b""
    assert len(watchers) == 0


async def test_with_facets_everything_in_short_is_by_subject() -> None:
    """Of the changed facets that which quotes the new review; without any, all of them."""
    quiet, loud = (
        SummarySentence(
            rank=0,
            sentence_id=f"{review}#0",
            review_id=review,
            text=text,
            rating=None,
            distance=0.1,
            support=1,
        )
        for review, text in (("r8", "It was quiet."), ("r9", "It was loud." * 99))
    )
    facets = [
        FacetSummary(name, 3, 1, 1, Ratings(0, None), [sentence])
        for name, sentence in (("parking", loud), ("noise", loud), ("wifi", quiet))
    ]
    cause = msgspec.structs.replace(BODY.cause, review_id="r9")
    changed = ["noise", "wifi"]
    body = FacetsChanged("a", 1, 9, 3, changed, 872, 2600, facets, cause, None, "m")
    gone = msgspec.structs.replace(body, sequence=10, changed=["wifi"])
    feed = ChangeFeed("out", "facets", Threads(), has_facets=True)
    news = [Message("facets", 0, b"a", encode(one), []) for one in (body, gone)]
    feed.committed([change("c"), *news])  # the ranking of `c` is none of it
    with Watchers(feed).one_more(None) as watcher:
        frame = await watcher.next(PATIENCE_SECONDS)
    assert frame is not None
    ((_, short),) = events(frame)
    assert [(change["subject"], change["text"]) for change in short["changes"]] == [
        ("noise", loud.text[: module.SHOWN_CHARACTERS]),
        ("wifi", None),
    ]
    assert [change["review_count"] for change in short["changes"]] == [872, 872]


async def test_facets_of_an_entity_are_events_of_their_own(feed: ChangeFeed) -> None:
    """Who follows everything hears of summaries alone."""
    with Watchers(feed).one_more(b"a") as watcher:
        news = [Message("facets", 0, b"a", value, []) for value in (b'{"n":1}', None)]
        feed.committed([*news, change("a")])
        frame = await watcher.next(PATIENCE_SECONDS)
    assert frame is not None
    assert events(frame) == [
        ("change", json.loads(encode(BODY))),
        ("facets", {"n": 1}),
        ("facets", None),
    ]


async def test_who_does_not_take_a_frame_loses_it_and_is_told_so() -> None:
    watcher = Watcher(b"a")
    for number in range(100):
        watcher.offer(b"%d" % number)
    assert await watcher.next(1) == SKIPPED + b"99"
    watcher.offer(b"next")
    assert await watcher.next(1) == b"next"
    watcher.offer(b"last")
    watcher.end()
    assert await watcher.next(1) is None


async def test_more_changes_of_an_entity_than_are_kept_are_skipped_ones(feed: ChangeFeed) -> None:
    with Watchers(feed).one_more(b"a") as watcher:
        feed.committed([change("a")] * 50)
        frame = await watcher.next(PATIENCE_SECONDS)
    assert frame is not None
    assert [name for name, _ in events(frame)] == ["skipped", "change", "change", "change"]


async def test_there_are_no_more_than_so_many(
    feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WATCHERS", 2)
    watchers = Watchers(feed)
    with watchers.one_more(None):
        with watchers.one_more(b"a"), pytest.raises(TooManyWatchers), watchers.one_more(b"b"):
            raise AssertionError("one more than may")
        with watchers.one_more(b"b") as third:
            watchers.close()
            assert await third.next(1) is None


async def test_when_nobody_is_left_nothing_goes_on(
    feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    watchers = Watchers(feed)
    with watchers.one_more(None):
        pass
    feed.committed([change("a")])
    assert feed.take().changes == 0
    with watchers.one_more(None) as watcher:
        feed.committed([change("a")])
        assert await watcher.next(PATIENCE_SECONDS)
    await eventually_here(lambda: len(asyncio.all_tasks()) == 1)  # this test
