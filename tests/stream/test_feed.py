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
    one = feed()
    one.committed([change("a")])
    assert one.take() == (0, [], {}, {})
    one.subscribe([])
    one.committed([change("a")])
    one.subscribe(None)
    one.subscribe([])
    assert one.take() == (0, [], {}, {})


def test_the_last_few_are_kept_for_who_comes_later() -> None:
    one = feed()
    changes = [change("a", number) for number in range(RECENT_CHANGES + 5)]
    one.committed([*changes, change("a", topic="dlq")])
    assert one.latest() == changes[-RECENT_CHANGES:]
    one.subscribe([])
    one.committed([change("b")])
    assert one.take().last == [change("b")]
    assert one.latest()[-2:] == [changes[-1], change("b")], "also after they were taken"


def test_what_is_published_is_reported_once_and_dead_letters_are_not() -> None:
    one = feed()
    one.subscribe([b"b"])
    changes = [change("a"), change("b", 1), change("b", 2)]
    one.committed([*changes, change("b", topic="dlq")])
    assert one.take() == (3, changes, {b"b": (2, changes[1:])}, {})
    assert one.take() == (0, [], {}, {})


def test_however_much_changes_a_few_are_kept_and_all_are_counted() -> None:
    one = feed()
    one.subscribe([b"b", b"c"])
    for number in range(1000):
        one.committed([change("b", number), change("a", number)])
    lately = one.take()
    assert lately.changes == 2000
    assert lately.last == [
        change(key, number) for number in range(1000 - RECENT_CHANGES // 2, 1000) for key in "ba"
    ]
    assert lately.watched == {
        b"b": (1000, [change("b", number) for number in range(1000 - RECENT_PER_ENTITY, 1000)])
    }


def test_who_comes_or_goes_takes_nothing_from_the_others() -> None:
    one = feed()
    one.subscribe([b"b"])
    one.committed([change("b", 1), change("c", 1)])
    one.subscribe([b"b", b"c"])
    one.committed([change("c", 2)])
    assert one.take().watched == {b"b": (1, [change("b", 1)]), b"c": (1, [change("c", 2)])}
    one.committed([change("b", 3)])
    one.subscribe([b"c"])
    assert one.take().watched == {}


def test_messages_of_facets_are_kept_of_watched_entities_alone() -> None:
    one = feed()
    one.subscribe([b"b"])
    changes = [change("b", number, "facets") for number in range(9)]
    one.committed([change("a", topic="facets"), *changes, change("b")])
    assert one.take() == (
        1,
        [change("b")],
        {b"b": (1, [change("b")])},
        {b"b": (9, changes[-RECENT_PER_ENTITY:])},
    )
    assert one.latest() == [change("b")]
    assert one.take().facets == {}
