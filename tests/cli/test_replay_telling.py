"""What a replay says of the time that is left, for programs."""

from __future__ import annotations

import pytest

from worker.cli.replay.telling import LINE_SECONDS, _Course
from worker.replay.ledger import Account
from worker.replay.run import Standing


def line(course, now, done):
    return course.line(now, Standing(done, 10_000, Account(read=done)))


def test_while_it_starts_nothing_is_foretold():
    course = _Course(100.0, 500)
    for now in (100.0, 101.0, 107.0):
        told = line(course, now, 500)
        assert (told["offsets_per_s"], told["seconds_left"]) == (0.0, None)
    assert told["seconds"] == 7.0


def test_how_long_it_took_to_start_does_not_count():
    """Neither does what was done before it was started again."""
    course = _Course(100.0, 500)
    line(course, 120.0, 500)
    assert line(course, 121.0, 600)["seconds_left"] is None
    for seconds in range(1, 10):
        told = line(course, 121.0 + seconds, 600 + 50 * seconds)
        assert told["offsets_per_s"] == 50.0
        assert told["seconds_left"] == pytest.approx((10_000 - told["offsets"]) / 50)


def test_the_rate_is_that_of_the_later_half():
    """After a slow start, what is left is soon foretold by how fast it has become."""
    course, done = _Course(0.0, 0), 0
    for second in range(1, 41):
        done += 10 if second <= 10 else 100
        told = line(course, float(second), done)
    assert told["offsets_per_s"] == 100.0


def test_the_first_lines_come_soon_and_later_ones_seldom():
    course, now, told = _Course(0.0, 0), 0.0, []
    while now < 600:
        told.append(now)
        line(course, now, 0)
        now += course.pause()
    assert sum(1 for at in told if at <= 10) >= 5
    assert told[-1] - told[-2] == LINE_SECONDS
