"""What was sent of a partition: the set, its walk over the letters, and the string that remembers
it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.operations.letter_sending import (
    MAX_METADATA_CHARS,
    Sent,
    Tally,
    TooScattered,
    UnknownMetadata,
)

# Letters of a partition: offsets with gaps, as transaction markers leave them.
LETTERS = st.lists(st.integers(1, 300), max_size=60).map(
    lambda steps: [sum(steps[:number]) for number in range(1, len(steps) + 1)]
)


def walked(letters, before, chosen, stop=None):
    """One run: it sends what is chosen and not sent yet, up to `stop` letters on its walk."""
    tally = Tally(before)
    for offset in letters[:stop]:
        tally.passed(offset, offset in before or offset in chosen)
    return tally.now()


def is_canonical(sent):
    edges = [sent.first_unsent, *(edge for part in sent.beyond for edge in (part.start, part.stop))]
    return edges == sorted(set(edges))


@given(letters=LETTERS, data=st.data())
def test_runs_of_any_choice_cut_off_anywhere(letters, data):
    """After each run exactly those letters are in the set that some run has sent, and its string
    remembers it.
    """
    sent, state = set(), Sent()
    for _ in range(data.draw(st.integers(1, 5))):
        chosen = data.draw(st.sets(st.sampled_from(letters))) if letters else set()
        stop = data.draw(st.integers(0, len(letters)))
        begin = data.draw(st.integers(0, sum(offset < state.first_unsent for offset in letters)))
        state = walked(letters[begin:], state, chosen, stop)
        sent |= {offset for offset in letters[begin:][:stop] if offset in chosen}
        assert {offset for offset in letters if offset in state} == sent
        assert is_canonical(state)
        assert state.first_unsent <= min((o for o in letters if o not in sent), default=10**9)
        assert Sent.parse(state.first_unsent, state.metadata()) == state


@given(letters=LETTERS)
def test_everything_sent_is_one_offset(letters):
    state = walked(letters, Sent(), set(letters))
    assert state == Sent(max(letters, default=-1) + 1)
    assert state.metadata() == ""


def test_markers_between_letters_do_not_scatter():
    """Every other offset is a transaction's marker: a run of letters is one piece all the same."""
    letters = list(range(0, 10_000, 2))
    state = walked(letters, Sent(), set(letters[1:]))
    assert state == Sent(0, (range(2, letters[-1] + 1),))


def test_what_lies_ahead_of_the_walk_is_kept():
    before = Sent(5, (range(8, 10), range(20, 30)))
    tally = Tally(before)
    for offset in (5, 6, 8):
        tally.passed(offset, offset != 5)
    assert tally.now() == Sent(5, (range(6, 10), range(20, 30)))


def test_letters_lost_to_retention_do_not_hold_back():
    """5 was never sent; the topic begins at 20 by now."""
    tally = Tally(Sent(5, (range(21, 22),)))
    for offset, sent in ((20, True), (21, True), (22, False)):
        tally.passed(offset, sent)
    assert tally.now() == Sent(22)


def test_too_scattered_is_refused_and_a_thousand_pieces_are_not():
    state = Sent(0, tuple(range(at, at + 1) for at in range(1, 2000, 2)))
    assert len(state.metadata()) <= MAX_METADATA_CHARS
    with pytest.raises(TooScattered, match="pieces"):
        Sent(0, tuple(range(at, at + 1) for at in range(1, 20_000, 2))).metadata()


@pytest.mark.parametrize(
    "text", ["2:AAAA", "something", "1:***", "1:gA==", "1:AA==", "1:AQ==", "1:AQA="]
)
def test_a_string_of_somebody_else_is_refused(text):
    with pytest.raises(UnknownMetadata):
        Sent.parse(7, text)


@given(st.text())
def test_any_string_is_read_or_refused(text):
    try:
        state = Sent.parse(3, text)
    except UnknownMetadata:
        return
    assert is_canonical(state)
