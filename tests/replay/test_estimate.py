"""What a replay will take, by a sample: right where all records are alike, soon known, and no
faster than is allowed.
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.harness.drive import config, record
from tests.harness.long import one_of
from tests.processing.slow import SlowEngine
from worker.processing.pace import FIRST_CHARACTERS
from worker.replay.estimate import SAMPLE_SECONDS, START_SECONDS, WINDOWS, estimate
from worker.replay.ranges import Range
from worker.stream.run_bounds import RateThrottle

CHARACTERS = 44


def reading(asked):
    """Reads reviews of one new text each, and notes where it was asked to."""

    def read(partition, start, end):
        asked.append((partition, start))
        for offset in range(start, end):
            text = f"{partition} {offset}".ljust(CHARACTERS, ".")
            body = {"type": "review.upserted", "review_id": f"r{offset}", "text": text}
            yield record(offset, f"e{offset % 7}", body)._replace(partition=partition)

    return read


def estimated(ranges, engine, throttle=None, vectors=None):
    asked = []
    throttle = throttle or RateThrottle(None, None, engine)
    found = estimate(reading(asked), ranges, config(), engine, vectors, throttle, engine)
    return found, asked


@pytest.mark.parametrize("seconds_a_character", one_of([0.005, 0.001, 0.00001], short=2))
def test_texts_that_are_alike_take_what_one_takes(seconds_a_character):
    """However slow the engine is, it is asked for a few of them, at every place."""
    engine = SlowEngine(seconds_a_character)
    begun = engine.now
    ranges = {0: Range(0, 30_000, 0), 1: Range(500, 20_500, 500)}
    found, asked = estimated(ranges, engine)
    of_one = seconds_a_character * (CHARACTERS + 20)
    assert found.records == 50_000
    assert found.seconds == pytest.approx(START_SECONDS + 50_000 * of_one, rel=0.01)
    assert found.seconds_at_most == pytest.approx(2 * found.seconds - START_SECONDS)
    assert len(asked) == WINDOWS
    assert {partition for partition, _ in asked} == {0, 1}
    first_tries = 2 * FIRST_CHARACTERS * seconds_a_character
    assert engine.now - begun < 2 * SAMPLE_SECONDS + first_tries + WINDOWS * of_one
    assert found.sampled_embedded >= WINDOWS


@pytest.mark.parametrize(("events_per_s", "size_per_s"), [(100, None), (None, 10_000), (5, 1e9)])
def test_it_goes_no_faster_than_is_allowed(events_per_s, size_per_s):
    engine = SlowEngine(0.0)
    found, _ = estimated(
        {0: Range(0, 1000, 0)}, engine, RateThrottle(events_per_s, size_per_s, engine)
    )
    at_least = max(
        1000 / events_per_s if events_per_s else 0, found.size / size_per_s if size_per_s else 0
    )
    assert found.seconds == found.seconds_at_most == pytest.approx(START_SECONDS + at_least)


def test_records_are_read_no_further_than_they_are_wanted():
    """A place is a few hundred records, also where the partition goes on for long."""
    taken = []

    def read(partition, start, end):
        for each in islice(reading([])(partition, start, end), end - start):
            taken.append(each)
            yield each

    engine = SlowEngine(0.0)
    estimate(
        read,
        {0: Range(0, 10**9, 0)},
        config(),
        engine,
        None,
        RateThrottle(None, None, engine),
        engine,
    )
    assert len(taken) <= WINDOWS * 601
