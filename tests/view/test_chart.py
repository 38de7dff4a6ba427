"""When each sentence was in the summary, against the summaries themselves; and axes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.view.steps import steps_of
from worker.view.chart import MOST_TICKS, ROOM, Life, sentences_of, step_axis, time_axis, times

GOOD, BAD = "Good.", "Bad."
summaries = st.lists(
    st.none()
    | st.dictionaries(
        st.sampled_from(["a#0", "b#0", "c#0", "d#0"]), st.sampled_from([GOOD, BAD]), max_size=3
    ),
    min_size=1,
    max_size=12,
)


@given(summaries)
def test_a_step_has_the_sentences_whose_lives_it_lies_in(shown):
    steps = steps_of(*shown)
    sentences = sentences_of(steps)
    for i, step in enumerate(steps):
        alive = {
            (one.latest.sentence_id, one.latest.text)
            for one in sentences
            for life in one.lives
            if life.first <= i and (life.last is None or i < life.last)
        }
        assert alive == {(one.sentence_id, one.text) for one in step.sentences}


@given(summaries)
def test_lives_of_a_sentence_follow_one_another_and_all_is_known(shown):
    for one in sentences_of(steps_of(*shown)):
        for before, after in zip(one.lives, one.lives[1:], strict=False):
            assert before.first < before.last < after.first
        assert all(life.is_start_known and life.is_end_known for life in one.lives)


def test_the_present_summary_comes_first_then_who_left_last():
    sentences = sentences_of(
        steps_of({"a#0": GOOD, "b#0": GOOD}, {"b#0": GOOD, "c#0": GOOD}, {"d#0": GOOD, "c#0": GOOD})
    )
    assert [one.latest.sentence_id for one in sentences] == ["d#0", "c#0", "b#0", "a#0"]


def test_what_is_edited_is_another_sentence():
    sentences = sentences_of(steps_of({"a#0": GOOD}, {"a#0": BAD}))
    assert [(one.latest.text, one.lives) for one in sentences] == [
        (BAD, [Life(1, None, True, True)]),
        (GOOD, [Life(0, 1, True, True)]),
    ]


def test_what_is_not_here_is_not_known():
    """Of three changes the one between is gone: by it `b` came; `a` left by it or by the last."""
    first, _, last = steps_of(
        {"a#0": GOOD, "x#0": GOOD}, {"b#0": GOOD, "x#0": GOOD}, {"b#0": GOOD, "c#0": GOOD}
    )
    lives = {
        one.latest.sentence_id: one.lives
        for one in sentences_of([first, last._replace(incomplete=True)])
    }
    assert lives == {
        "a#0": [Life(0, 1, True, False)],
        "x#0": [Life(0, 1, True, True)],
        "b#0": [Life(1, None, False, True)],
        "c#0": [Life(1, None, True, True)],
    }


def test_what_was_there_before_the_first_step_began_earlier():
    _, last = steps_of({"a#0": GOOD}, {"a#0": GOOD, "b#0": GOOD})
    assert [one.lives for one in sentences_of([last])] == [
        [Life(0, None, False, True)],
        [Life(0, None, True, True)],
    ]


FIRST, LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) for year in (1, 9999))


def check(axis, count):
    assert len(axis.at) == count
    assert axis.at == sorted(axis.at)
    assert axis.at[0] == 0
    assert axis.at[-1] == (ROOM if count > 1 else 0)
    assert len(axis.ticks) <= MOST_TICKS + 1
    assert all(0 <= tick.at <= ROOM for tick in axis.ticks)
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks)
    assert [tick.at for tick in axis.ticks] == sorted(tick.at for tick in axis.ticks)


@given(st.lists(st.integers(FIRST, LAST), min_size=2, max_size=5, unique=True))
def test_any_times(moments):
    check(time_axis(sorted(moments)), len(moments))


@given(st.integers(FIRST, LAST - 2**40), st.integers(1, 40))
def test_any_length_of_time(first, power):
    check(time_axis([first, first + 2**power]), 2)


@given(st.integers(1, 3000))
def test_any_number_of_steps(count):
    axis = step_axis(count)
    check(axis, count)
    assert axis.ticks[0].label == "1"


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        ("2026-11-20T12:00:00", "2026-11-20T12:00:12", ["12:00:00", "12:00:05", "12:00:10"]),
        ("2026-11-20T11:30:00", "2026-11-20T14:10:00",
         ["11-20 12:00", "11-20 13:00", "11-20 14:00"]),
        ("2026-11-19T23:00:00", "2026-11-20T11:30:00",
         ["11-20 00:00", "11-20 03:00", "11-20 06:00", "11-20 09:00"]),
        ("2026-01-05T00:00:00", "2026-06-01T00:00:00",
         ["2026-02", "2026-03", "2026-04", "2026-05", "2026-06"]),
        ("2019-05-05T00:00:00", "2025-06-01T00:00:00",
         ["2020", "2021", "2022", "2023", "2024", "2025"]),
    ],
)  # fmt: skip
def test_marks_of_calendars(first, last, labels):
    ends = [int(datetime.fromisoformat(f"{one}Z").timestamp() * 1000) for one in (first, last)]
    assert [tick.label for tick in time_axis(ends).ticks] == labels


SUMMARIES = [{"a#0": "One."}, {"b#0": "Two."}, {"c#0": "Three."}]
DAYS = ["2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", "2026-11-02T00:00:00Z"]
DAY_MS = 24 * 3600 * 1000


def test_the_time_of_the_events_ascending():
    clock, moments = times(steps_of(*SUMMARIES, occurred_at=DAYS))
    assert (clock, [one - moments[0] for one in moments]) == (
        "occurred",
        [0, 2 * DAY_MS, 2 * DAY_MS],
    )


def test_one_without_a_time_has_that_of_the_one_before_it():
    for days, wanted in (
        ([DAYS[0], None, DAYS[1]], [0, 0, 2]),
        ([None, DAYS[0], DAYS[2]], [0, 0, 1]),
    ):
        _, moments = times(steps_of(*SUMMARIES, occurred_at=days))
        assert [(one - moments[0]) // DAY_MS for one in moments] == wanted


def test_else_the_time_of_publication_if_it_tells_them_apart():
    steps = steps_of(*SUMMARIES, occurred_at=[DAYS[0], None, None])
    assert times(steps) is None
    stamped = [
        step._replace(publication=step.publication._replace(published_ms=1000 * i))
        for i, step in enumerate(steps)
    ]
    assert times(stamped) == ("published", [0, 1000, 2000])
    assert times(steps_of(*SUMMARIES, stamp=7)) is None
    assert times(steps_of(SUMMARIES[0], occurred_at=DAYS[0])) is None
