"""Recent changes reach each subscriber once, in bounded numbers, and are buffered for nobody
else.
"""

from __future__ import annotations

from worker.events import Message
from worker.stream.feed import RECENT_CHANGES, RECENT_PER_ENTITY, ChangeFeed
from worker.stream.surroundings import Threads


def change(key: str, number: int = 0, topic: str = "out") -> Message:
    return Message(topic, 0, key.encode(), b"%d" % number, [])


def feed() -> ChangeFeed:
    return ChangeFeed("out", "facets", Threads())


def test_nothing_is_kept_while_nobody_looks_on() -> None:
    changes_feed = feed()
    changes_feed.committed([change("a")])
    assert changes_feed.take() == (0, [], {}, {})
    changes_feed.subscribe([])
    changes_feed.committed([change("a")])
    changes_feed.subscribe(None)
    changes_feed.subscribe([])
    assert changes_feed.take() == (0, [], {}, {})


def test_the_last_few_are_kept_for_who_comes_later() -> None:
    changes_feed = feed()
    changes = [change("a", number) for number in range(RECENT_CHANGES + 5)]
    changes_feed.committed([*changes, change("a", topic="dlq")])
    assert changes_feed.latest() == changes[-RECENT_CHANGES:]
    changes_feed.subscribe([])
    changes_feed.committed([change("b")])
    assert changes_feed.take().last == [change("b")]
    assert changes_feed.latest()[-2:] == [changes[-1], change("b")], "also after they were taken"


def test_what_is_published_is_reported_once_and_dead_letters_are_not() -> None:
    changes_feed = feed()
    changes_feed.subscribe([b"b"])
    changes = [change("a"), change("b", 1), change("b", 2)]
    changes_feed.committed([*changes, change("b", topic="dlq")])
    assert changes_feed.take() == (3, changes, {b"b": (2, changes[1:])}, {})
    assert changes_feed.take() == (0, [], {}, {})


def test_however_much_changes_a_few_are_kept_and_all_are_counted() -> None:
    changes_feed = feed()
    changes_feed.subscribe([b"b", b"c"])
    for number in range(1000):
        changes_feed.committed([change("b", number), change("a", number)])
    lately = changes_feed.take()
    assert lately.changes == 2000
    assert lately.last == [
        change(key, number) for number in range(1000 - RECENT_CHANGES // 2, 1000) for key in "ba"
    ]
    assert lately.watched == {
        b"b": (1000, [change("b", number) for number in range(1000 - RECENT_PER_ENTITY, 1000)])
    }


def test_messages_of_facets_are_kept_of_watched_entities_alone() -> None:
    changes_feed = feed()
    changes_feed.subscribe([b"b"])
    changes = [change("b", number, "facets") for number in range(9)]
    changes_feed.committed([change("a", topic="facets"), *changes, change("b")])
    assert changes_feed.take() == (
        1,
        [change("b")],
        {b"b": (1, [change("b")])},
        {b"b": (9, changes[-RECENT_PER_ENTITY:])},
    )
    assert changes_feed.latest() == [change("b")]
    assert changes_feed.take().facets == {}
