"""When each sentence was in the summary, against the summaries themselves."""

from hypothesis import given
from hypothesis import strategies as st

from tests.view.timeline.steps import steps_of
from worker.view.timeline.chart import Life, sentences_of

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
