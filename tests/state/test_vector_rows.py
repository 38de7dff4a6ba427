"""A vector is found for the very text and engine it was made for, bit for bit, and for no other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from worker.state.vector_rows import DIGEST_BYTES, VectorRows, engine_of

DIMENSION = 5
ENGINES = st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)
TEXTS = st.text(st.characters())  # lone surrogates too
VECTORS = arrays(np.int16, DIMENSION)


@given(ENGINES, TEXTS, VECTORS)
def test_what_is_put_is_got(engine, text, vector):
    rows = VectorRows(engine, DIMENSION)
    found = rows.decode(text, rows.encode(text, vector))
    assert found.dtype == np.int16
    assert found.tolist() == vector.tolist()
    assert engine_of(rows.key(text)) == engine_of(rows.engine_key) == engine


@given(ENGINES, ENGINES, TEXTS, VECTORS)
def test_another_engine_has_another_key_and_does_not_take_the_row(engine, other, text, vector):
    rows, others = VectorRows(engine, DIMENSION), VectorRows(other, DIMENSION)
    is_same = engine == other
    assert (rows.key(text) == others.key(text)) == is_same
    assert (others.decode(text, rows.encode(text, vector)) is not None) == is_same


@given(ENGINES, TEXTS, TEXTS, VECTORS)
def test_another_text_does_not_take_the_row(engine, text, other, vector):
    """Not even if the keys were the same."""
    rows = VectorRows(engine, DIMENSION)
    is_same = text == other
    assert (rows.key(text) == rows.key(other)) == is_same
    assert (rows.decode(other, rows.encode(text, vector)) is not None) == is_same


@given(ENGINES, TEXTS, VECTORS, st.data())
def test_a_damaged_row_is_none(engine, text, vector, data):
    rows = VectorRows(engine, DIMENSION)
    value = bytearray(rows.encode(text, vector))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    assert rows.decode(text, bytes(value)) is None


@given(ENGINES, TEXTS, VECTORS, st.data())
def test_a_row_of_another_length_is_none(engine, text, vector, data):
    rows = VectorRows(engine, DIMENSION)
    value = rows.encode(text, vector)
    assert rows.decode(text, value[: data.draw(st.integers(0, len(value) - 1))]) is None
    assert rows.decode(text, value + data.draw(st.binary(min_size=1))) is None
    assert VectorRows(engine, DIMENSION + 1).decode(text, value) is None


def test_rows_are_read_in_other_versions_of_the_worker():
    """The bytes of format 1."""
    rows = VectorRows(bytes(range(16)), 2)
    text, vector = "Très calme.", np.array([32767, -2], np.int16)
    assert (
        rows.key(text).hex() == "56000102030405060708090a0b0c0d0e0f7f23779160b3870cdfce69dc724bd507"
    )
    assert rows.encode(text, vector).hex() == "01a0df349e90835d295ff9da980fb76b2eff7ffeff"
