"""Dead letters in the log: counted by reason, logged now and then, never one by one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from tests.harness.eventually import eventually_here
from worker.events.notes import EMPTY, FILLED, LEFT_OUT
from worker.processing.stats import Coordinates, Stats
from worker.stream import journal as module
from worker.stream.journal import DeadLetterLog
from worker.stream.surroundings import Threads


def stats(first_offset: int = 0, **letters: int) -> Stats:
    """Of a micro-batch with so many letters by reason; the first of each was at this offset."""
    outcomes = {("unreadable", f"dead_letter:{reason}"): count for reason, count in letters.items()}
    places = {reason: Coordinates("reviews", 3, first_offset) for reason in letters}
    return Stats(Counter(outcomes | {("review.upserted", "applied"): 9}), places)


def test_one_line_for_many_letters_and_none_for_none(caplog: pytest.LogCaptureFixture) -> None:
    log = DeadLetterLog(Threads())
    log.log_counts()
    log.count(stats())
    log.log_counts()
    assert caplog.records == []
    log.count(stats(7, bad_json=2))
    log.count(stats(11, bad_json=3, no_key=1))
    assert caplog.records == []
    log.log_counts()
    log.log_counts()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "dead letters in the last minute: 5 bad_json, 1 no_key; `coversumm-worker dlq list` shows "
        "them"
    )
    assert record.facts == {  # type: ignore[attr-defined]
        "dead_letters": {"bad_json": 5, "no_key": 1},
        "first": {
            "bad_json": {"topic": "reviews", "partition": 3, "offset": 7},
            "no_key": {"topic": "reviews", "partition": 3, "offset": 11},
        },
    }
    log.count(stats(20, bad_json=1))
    log.log_counts()
    assert caplog.records[-1].facts["first"]["bad_json"]["offset"] == 20  # type: ignore[attr-defined]


def test_the_command_reads_the_topic_of_a_replay(caplog: pytest.LogCaptureFixture) -> None:
    """Without the variable it would list the live worker's."""
    log = DeadLetterLog(Threads(), "reviews.dlq.replay-june")
    log.count(stats(bad_json=2))
    log.log_counts()
    assert (
        caplog.records[-1]
        .getMessage()
        .endswith(
            "; `COVERSUMM_DLQ_TOPIC=reviews.dlq.replay-june coversumm-worker dlq list` shows them"
        )
    )


def test_it_tells_by_itself(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.INTERVAL_SECONDS == 60
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.01)
    log = DeadLetterLog(Threads())
    log.count(stats(no_key=1))

    async def run() -> None:
        telling = asyncio.ensure_future(log.log_every_minute())
        await eventually_here(lambda: caplog.records)
        telling.cancel()

    asyncio.run(run())
    assert len(caplog.records) == 1


def test_sentences_that_the_model_does_not_read_are_told_while_they_grow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = DeadLetterLog(Threads(), None, ("en",))
    log.count(Stats(read_by_model=Counter(yes=96, no=4), unread=Counter(fr=4)))
    log.log_counts()
    assert (log.unread, caplog.records) == (None, [])  # less than 5 %
    log.count(Stats(read_by_model=Counter(no=2), unread=Counter(de=2)))
    assert log.unread == "6 of 102 sentences are in fr, de; the model reads en"
    for _ in range(2):
        log.log_counts()
    (told,) = caplog.records
    assert told.getMessage() == f"since the start {log.unread}: facets miss most of them"


def test_a_worker_that_uses_none_of_its_first_records_says_so_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = DeadLetterLog(Threads())
    unused = Counter(
        {("unreadable", "dead_letter:bad_field"): 60, ("none", "ignored:by_mapping"): 3}
    )
    log.count(Stats(unused))
    assert caplog.records == []
    log.count(Stats(unused))
    log.count(Stats(unused))
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "none of the first 126 records was used: is COVERSUMM_INPUT_TOPIC the right topic, and "
        "COVERSUMM_MAPPING the file that says"
    )
    caplog.clear()
    log = DeadLetterLog(Threads())
    log.count(Stats(Counter({("review.deleted", "ignored:not_newer"): 1})))
    log.count(Stats(unused + unused))
    assert caplog.records == []


def test_values_that_a_mapping_left_out_are_counted_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = DeadLetterLog(Threads())
    log.count(Stats(mapping_notes=Counter({(LEFT_OUT, "rating"): 1, (LEFT_OUT, "language"): 2})))
    log.count(Stats(mapping_notes=Counter({(LEFT_OUT, "rating"): 4})))
    log.log_counts()
    log.log_counts()
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "values that the mapping could not read in the last minute: 5 rating, 2 language; events "
    )


@pytest.mark.parametrize("filled", [None, 0, 1, 2])
def test_a_list_of_which_a_rule_takes_nothing_is_named_once(
    caplog: pytest.LogCaptureFixture, filled: int | None
) -> None:
    log = DeadLetterLog(Threads())
    for number in range(3):
        log.count(Stats(mapping_notes=Counter({(EMPTY, "rule 'order'"): 50})))
        if number == filled:
            log.count(Stats(mapping_notes=Counter({(FILLED, "rule 'order'"): 1})))
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == (filled != 0)
    assert all(
        line.startswith("rule 'order' took no member of the lists of 100") for line in warned
    )
