"""Sentence ids: built, and read back whatever the review id holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.state.keys import parse_sentence_id, review_of, sentence_id


@given(st.binary(), st.integers(0, 10**6))
def test_sentence_ids(review_id, ordinal):
    made = sentence_id(review_id, ordinal)
    assert parse_sentence_id(made) == (review_id, ordinal)
    assert review_of(made) == review_id


@pytest.mark.parametrize(
    "identifier", [b"r", b"", b"r#", b"r#01", b"r#-1", b"r#+1", b"r# 1", b"r#1 ", b"r#\xd9\xa1"]
)
def test_no_worker_makes_such_an_id(identifier):
    assert parse_sentence_id(identifier) is None
