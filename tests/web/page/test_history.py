"""Readers of the same history share one reading, and only so many wait; how it is read:
test_page_history.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from tests.harness.eventually import eventually_here
from tests.harness.patience import PATIENCE_SECONDS
from worker.events.publishing import FACETS, OutputTopic
from worker.processing.entity_view import NoFacets
from worker.stream.surroundings import Threads
from worker.web.page import history as module
from worker.web.page.history import ChangeHistory, NoHistory, RecentHistory


class Readings(RecentHistory):
    """Each reading waits until it may go on, and tells which one it is."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None), "out", None, "group", Threads().in_order("history"))
        self.begun: list[tuple[str, int | None]] = []
        self.go_on = threading.Semaphore(0)

    def _read(self, entity_id: str, before: int | None, kind: OutputTopic) -> ChangeHistory:
        self.begun.append((entity_id, before))
        number = len(self.begun)
        assert self.go_on.acquire(timeout=PATIENCE_SECONDS)
        if entity_id == "broken":
            raise NoHistory("why")
        return ChangeHistory([], None, number)


async def begun(readings: Readings, count: int) -> None:
    await eventually_here(lambda: len(readings.begun) >= count)


async def test_those_who_wait_share_one_reading_and_none_that_has_begun() -> None:
    readings = Readings()
    first = asyncio.ensure_future(readings.read("a", None))
    await begun(readings, 1)
    waiting = [asyncio.ensure_future(readings.read("a", None)) for _ in range(3)]
    other = asyncio.ensure_future(readings.read("a", 5))
    await asyncio.sleep(0)
    waiting[0].cancel()  # the others wait on
    readings.go_on.release(3)
    assert (await first).looked_at == 1
    assert [(await reading).looked_at for reading in waiting[1:]] == [2, 2]
    assert (await other).looked_at == 3
    assert readings.begun == [("a", None), ("a", None), ("a", 5)]


async def test_a_reading_that_fails_fails_for_who_waited_and_nobody_after() -> None:
    readings = Readings()
    waiting = [asyncio.ensure_future(readings.read("broken", None)) for _ in range(2)]
    await begun(readings, 1)
    readings.go_on.release(3)
    for reading in waiting:
        with pytest.raises(NoHistory):
            await reading
    again = asyncio.ensure_future(readings.read("broken", None))
    with pytest.raises(NoHistory):
        await again


async def test_not_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    readings = Readings()
    taken = [asyncio.ensure_future(readings.read("a", None))]
    await begun(readings, 1)
    taken += [asyncio.ensure_future(readings.read("b", before)) for before in (1, 2)]
    await asyncio.sleep(0)
    with pytest.raises(NoHistory, match="too many requests"):
        await readings.read("b", 3)
    readings.go_on.release(3)
    assert [(await reading).looked_at for reading in taken] == [1, 2, 3]


async def test_without_facets_there_is_no_history_of_them() -> None:
    recent = RecentHistory(cast(Any, None), "out", None, "group", Threads().in_order("history"))
    with pytest.raises(NoFacets):
        await recent.read("a", None, FACETS)
