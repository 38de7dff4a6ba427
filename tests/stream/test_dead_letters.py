"""Dead letters in the log: counted by reason, told now and then, never one by one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from worker.processing.stats import Stats
from worker.stream import dead_letters as module
from worker.stream.dead_letters import DeadLetterLog
from worker.stream.surroundings import RealThreads


def stats(**letters: int) -> Stats:
    outcomes = {("unreadable", f"dead_letter:{reason}"): count for reason, count in letters.items()}
    return Stats(outcomes=Counter(outcomes | {("review.upserted", "applied"): 9}))


def test_one_line_for_many_letters_and_none_for_none(caplog: pytest.LogCaptureFixture) -> None:
    log = DeadLetterLog(RealThreads())
    log.tell()
    log.count(stats())
    log.tell()
    assert caplog.records == []
    log.count(stats(bad_json=2, no_key=1))
    log.count(stats(bad_json=3))
    assert caplog.records == []
    log.tell()
    log.tell()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "dead letters in the last minute: 5 bad_json, 1 no_key; `coversumm-worker dlq list` shows them"
    )
    assert record.facts == {"dead_letters": {"bad_json": 5, "no_key": 1}}  # type: ignore[attr-defined]


def test_it_tells_by_itself(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.TELL_SECONDS == 60
    monkeypatch.setattr(module, "TELL_SECONDS", 0.01)
    log = DeadLetterLog(RealThreads())
    log.count(stats(no_key=1))

    async def run() -> None:
        telling = asyncio.ensure_future(log.tell_now_and_then())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not caplog.records:
                await asyncio.sleep(0.01)
        telling.cancel()

    asyncio.run(run())
    assert len(caplog.records) == 1
