"""The order of the bodies of a replay in a file."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events import Record
from worker.kafka.reader import Stored
from worker.registry.as_json import AsJson
from worker.replay import run
from worker.settings import Settings


class Reader:
    """A topic with these timestamps by partition; there is one reader of it."""

    def __init__(self, times_ms: list[list[int]]) -> None:
        self.partitions = range(len(times_ms))
        self._times_ms = times_ms

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, partition: int) -> Iterator[Stored]:
        """See `TopicReader`; every fifth offset is a tombstone."""
        for offset, time_ms in enumerate(self._times_ms[partition]):
            value = None if offset % 5 == 4 else f"{partition}:{offset}".encode()
            yield Stored(Record("out", partition, offset, time_ms, b"key", value), {})


@given(times_ms=st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4))
def test_bodies_come_in_the_order_of_writing(times_ms: list[list[int]]) -> None:
    """As a merge of the partitions: by time, and never before one that was written earlier in its
    partition.
    """
    reader = Reader(times_ms)

    def when(stored: Stored) -> tuple[int, int, int]:
        return stored.record.timestamp_ms, stored.record.partition, stored.record.offset

    merged = merge(*(reader.read(partition) for partition in reader.partitions), key=when)
    expected = [stored.record.value for stored in merged if stored.record.value is not None]
    clients: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "TopicReader", lambda *_: reader)
        assert list(run.in_order_of_commits(clients, "out", AsJson(Settings()))) == expected
