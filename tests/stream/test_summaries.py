"""A running worker answers queries of summaries beside the stream, if need be with an error. It
crashes only at damage.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness.drive import Driver, FakeEngine, upsert
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import End, die
from worker.processing.ask import Question
from worker.processing.config import ProcessorConfig
from worker.processing.entities import EntityKey
from worker.processing.entity_view import EntityView, ShortView, SummaryView
from worker.state import CorruptRow, MemoryRows, Rows
from worker.state.keys import header_key
from worker.storage.rows import NotOpen
from worker.stream import queries
from worker.stream.queries import NotHere, ViewReader
from worker.stream.surroundings import ProcessorThread, Threads


class Blocking(FakeEngine):
    """Embeds a text with "wait" only after `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting, self.go = threading.Event(), threading.Event()

    def embed(self, texts: Any) -> Any:
        if "wait" in texts:
            self.waiting.set()
            assert self.go.wait(PATIENCE_SECONDS)
        return super().embed(texts)


class Site:
    """A processor in its thread, and a reader of its summaries."""

    def __init__(self, settings: ProcessorConfig | None = None) -> None:
        self.engine = Blocking()
        self.driver = Driver(settings, self.engine)
        self.open = {0}
        self.rows: dict[int, Rows] = dict(self.driver.rows)
        threads = Threads()
        self.thread = ProcessorThread(self.driver.processor, threads.in_order("processing"))
        databases: Any = self
        begun, config = self.driver.processor.begun, self.driver.config
        self.reader = ViewReader(begun, databases, threads, die, config, self.engine)

    @contextmanager
    def look(self, partition: int, within: bytes) -> Iterator[Rows]:
        if partition not in self.open:
            raise NotOpen
        yield self.rows[partition]


@pytest.fixture
def site() -> Site:
    made = Site()
    made.driver.processor.begin(0)
    made.driver.run(
        upsert(0, "r0", "one", "three"),
        upsert(1, "r1", *(str(i) for i in range(9)), entity_id="big"),
    )
    return made


async def test_it_is_served_while_a_micro_batch_is_under_way(site: Site) -> None:
    """Provably: the processor's thread is inside the engine until the test lets it continue."""
    records = [upsert(2, "r2", "wait"), upsert(3, "r3", "five", entity_id="new")]
    under_way = asyncio.ensure_future(site.thread.run(lambda processor: processor.process(records)))
    assert await asyncio.to_thread(site.engine.waiting.wait, PATIENCE_SECONDS)
    view = await site.reader.read(0, "e", SummaryView)
    assert view is not None
    assert [sentence.sentence_id for sentence in view.sentences] == ["r0#0", "r0#1"]
    assert (view.sentence_count, view.next_offset) == (2, 2)
    assert await site.reader.read(0, "new", SummaryView) is None
    assert not under_way.done()
    site.engine.go.set()
    batch = await under_way
    assert await site.reader.read(0, "e", SummaryView) == view  # it is not committed
    site.driver.rows[0].write(batch.rows[0])
    await site.thread.run(lambda processor: processor.committed(batch))
    view = await site.reader.read(0, "e", SummaryView)
    assert view is not None
    assert (view.sentence_count, view.next_offset) == (3, 4)


async def test_a_partition_that_is_not_here_or_goes_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotHere):
        await site.reader.read(1, "e", SummaryView)

    def goes(*_: Any, **__: Any) -> None:
        raise NotOpen

    monkeypatch.setattr(queries, "read_view", goes)
    with pytest.raises(NotHere):
        await site.reader.read(0, "e", SummaryView)


async def test_a_late_report_of_a_commit_makes_followed_rows_no_summary(site: Site) -> None:
    batch = await site.thread.run(lambda processor: processor.process([upsert(2, "r2", "two")]))
    await site.thread.run(lambda processor: processor.forget([0]))
    site.driver.processor.committed(batch)
    site.rows[0] = MemoryRows({header_key(b"e"): b"half of a transaction"})
    with pytest.raises(NotHere):
        await site.reader.read(0, "e", SummaryView)


@pytest.mark.parametrize("was_held", [True, False])
async def test_rows_of_before_the_end_of_a_restore_are_no_summary(
    site: Site, monkeypatch: pytest.MonkeyPatch, was_held: bool
) -> None:
    """Whoever has looked at them by then has half of a transaction, whatever the processor holds
    meanwhile.
    """
    processor, look = site.driver.processor, site.look
    if not was_held:
        processor.forget([0])

    @contextmanager
    def at_the_end_of_a_restore(partition: int, within: bytes) -> Iterator[Rows]:
        with look(partition, within):
            processor.forget([0])
            half = MemoryRows({header_key(b"e"): b"half of a transaction"})
            processor.begin(0)
            yield half

    monkeypatch.setattr(site, "look", at_the_end_of_a_restore)
    with pytest.raises(NotHere):
        await site.reader.read(0, "e", SummaryView)
    monkeypatch.setattr(site, "look", look)
    assert await site.reader.read(0, "e", SummaryView) is not None


async def test_an_entity_of_a_partition_without_rows_is_unknown_and_the_partition_is_here(
    site: Site,
) -> None:
    site.open.add(1)
    with pytest.raises(NotHere):
        await site.reader.read(1, "e", SummaryView)
    await site.thread.run(lambda processor: processor.begin(1))
    assert await site.reader.read(1, "e", SummaryView) is None


async def test_a_damaged_row_that_a_look_meets_ends_the_worker(site: Site) -> None:
    class Damaged:
        def get(self, key: bytes) -> bytes | None:
            return b"damaged"

    site.rows[0] = Damaged()  # type: ignore[assignment]
    with pytest.raises(End) as end:
        await site.reader.read(0, "unknown", SummaryView)
    assert isinstance(end.value.cause, CorruptRow)


@pytest.mark.parametrize("asks", [False, True])
async def test_an_entity_that_takes_long_to_read_keeps_no_other_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    def read(entity_id: str) -> Coroutine[Any, Any, EntityView | None]:
        if asks:
            return site.reader.ask(0, entity_id, Question("one?"), None)
        return site.reader.read(0, entity_id, SummaryView)

    monkeypatch.setattr(queries, "LARGE", 5)
    reads, reading, go = queries.read_view, threading.Event(), threading.Event()

    def slowly(rows: Rows, key: EntityKey, *more: Any) -> Any:
        if key.entity_id == "big":
            reading.set()
            assert go.wait(PATIENCE_SECONDS)
        return reads(rows, key, *more)

    monkeypatch.setattr(queries, "read_view", slowly)
    large = asyncio.ensure_future(read("big"))
    assert await asyncio.to_thread(reading.wait, PATIENCE_SECONDS)
    view = await read("e")
    assert view is not None
    assert view.sentence_count == 2
    assert not large.done()
    go.set()
    view = await large
    assert view is not None
    assert view.sentence_count == 9


@pytest.mark.parametrize("large", [0, 500])
async def test_a_short_view_is_reported_beside_the_stream(
    site: Site, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """Of a large entity in the thread of the large ones, so that the others need not wait."""
    monkeypatch.setattr(queries, "LARGE", large)
    records = [upsert(2, "r2", "wait")]
    under_way = asyncio.ensure_future(site.thread.run(lambda processor: processor.process(records)))
    assert await asyncio.to_thread(site.engine.waiting.wait, PATIENCE_SECONDS)
    names: list[str] = []
    reads = queries.read_view

    def noted(*asked: Any) -> Any:
        names.append(threading.current_thread().name)
        return reads(*asked)

    monkeypatch.setattr(queries, "read_view", noted)
    view = await site.reader.read(0, "e", ShortView)
    assert view is not None
    assert (view.sentence_count, view.next_offset) == (2, 2)
    assert {sentence.sentence_id for sentence in view.sentences} <= {"r0#0", "r0#1"}
    assert [name.rpartition("_")[0] for name in names] == [
        "summaries" if large else "large summaries"
    ]
    assert await site.reader.read(0, "nobody", ShortView) is None
    assert not under_way.done()
    site.engine.go.set()
    await under_way
    with pytest.raises(NotHere):
        await site.reader.read(1, "e", ShortView)


async def test_a_question_that_cannot_be_answered_ends_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnicodeEncodeError):
        await site.reader.read(0, "\udcff", SummaryView)

    def fails(*_: Any) -> Any:
        raise RuntimeError("not about the state")

    monkeypatch.setattr(queries, "read_view", fails)
    with pytest.raises(RuntimeError):
        await site.reader.read(0, "e", ShortView)
