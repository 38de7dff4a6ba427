"""The order of the bodies of a replay in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events import Record
from worker.kafka.reader import Stored
from worker.registry.lookup import AsJson
from worker.replay import file
from worker.settings import Settings


class Reader:
    """A topic with these timestamps and sequences by partition; there is one reader of it."""

    def __init__(self, name: str, messages: list[list[tuple[int, int]]]) -> None:
        self.partitions = range(len(messages))
        self.name, self._messages = name, messages

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, partition: int) -> Iterator[Stored]:
        """See `TopicReader`; every fifth offset is a tombstone."""
        for offset, (time_ms, sequence) in enumerate(self._messages[partition]):
            body = {"of": self.name, "partition": partition, "sequence": sequence}
            value = None if offset % 5 == 4 else json.dumps(body).encode()
            entity = f"entity {sequence % 3}".encode()
            yield Stored(Record(self.name, partition, offset, time_ms, entity, value), {})


Body = dict[str, Any]
Order = Callable[[Any, list[str], AsJson], Iterator[bytes]]


def written(in_order: Order, *readers: Reader) -> list[Body]:
    """The bodies as a file has them."""
    by_name = {reader.name: reader for reader in readers}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "TopicReader", lambda _, topic, __: by_name[topic])
        return [json.loads(body) for body in in_order(None, [*by_name], AsJson(Settings()))]


@given(times_ms=st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4))
def test_bodies_come_in_the_order_of_writing(times_ms: list[list[int]]) -> None:
    """As a merge of the partitions: by time, and never before one that was written earlier in its
    partition.
    """
    reader = Reader(
        "out", [[(time_ms, at) for at, time_ms in enumerate(times)] for times in times_ms]
    )

    def when(stored: Stored) -> tuple[int, int, int]:
        return stored.record.timestamp_ms, stored.record.partition, stored.record.offset

    merged = merge(*(reader.read(partition) for partition in reader.partitions), key=when)
    expected = [stored.record.value for stored in merged if stored.record.value is not None]
    assert written(file.in_order_of_commits, reader) == [json.loads(line) for line in expected]


def test_the_facets_of_an_event_follow_its_summary() -> None:
    """Also if the facets were written later than other summaries, or the event changed only one."""
    summaries = Reader("out", [[(1, 0), (2, 1), (9, 5)], [(4, 7)]])
    facets = Reader("facets", [[(3, 1), (3, 4)], [(4, 7)]])
    found = [
        (body["partition"], body["sequence"], body["of"])
        for body in written(file.in_order_of_commits, summaries, facets)
    ]
    assert found == [
        (0, 0, "out"),
        (0, 1, "out"),
        (0, 1, "facets"),
        (0, 4, "facets"),
        (1, 7, "out"),
        (1, 7, "facets"),
        (0, 5, "out"),
    ]


def test_the_last_facets_of_an_entity_follow_its_last_summary() -> None:
    summaries = Reader("out", [[(1, 1), (1, 3)], [(1, 2)]])
    facets = Reader("facets", [[(1, 1)], []])
    found = written(file.in_order_of_entities, summaries, facets)
    assert [(body["sequence"], body["of"]) for body in found] == [
        (3, "out"),
        (1, "out"),
        (1, "facets"),
        (2, "out"),
    ]
