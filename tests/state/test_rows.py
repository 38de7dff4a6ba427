"""Row values: what is written is read; what was not written is refused with the row's name."""

from contextlib import suppress
from functools import partial, reduce

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from worker.events import ReviewDetails
from worker.events.publishing import FACETS, SUMMARIES, TOPICS
from worker.events.ratings import NO_RATINGS, RatingCounts
from worker.state import rows
from worker.state.errors import CorruptRow, StateError, UnknownFormat
from worker.state.keys import IncarnationKeys, header_key
from worker.state.rows import Applied, Header, Output, PublishedSets, ReviewRow

KEY = header_key(b"hotel")
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
texts = st.lists(st.tuples(u32, st.text(max_size=20)), max_size=5).map(tuple)
reviews = st.builds(
    ReviewRow,
    u64,
    st.booleans(),
    st.builds(
        ReviewDetails,
        st.none() | st.floats(allow_nan=False),
        st.none() | st.text(min_size=1, max_size=60),
        st.none() | st.text(min_size=1, max_size=35),
        st.none() | st.booleans(),
        st.none() | st.text(min_size=1, max_size=48),
        st.none() | st.text(min_size=1, max_size=128),
    ),
    st.booleans(),
    u32,
    u32,
    texts,
    st.dictionaries(u32, u64, max_size=3),
    st.sampled_from(["", "und", "en"]),
    st.just(0) | u64,
)
digests = st.dictionaries(st.binary(max_size=10), st.binary(min_size=16, max_size=16), max_size=5)


def decode_vectors(key, value):
    return rows.decode_vectors(key, value, 3)


def one_of_topic(decode, topic, key, value):
    return decode(key, topic, value)


DECODERS = [
    rows.decode_header,
    rows.decode_review,
    rows.decode_text_chunk,
    decode_vectors,
    rows.decode_applied,
    rows.decode_output,
    rows.decode_fingerprint,
    rows.decode_criteria,
    *(
        partial(one_of_topic, decode, topic)
        for decode in (rows.decode_published, rows.decode_last_change)
        for topic in TOPICS
    ),
]


ratings = st.lists(
    st.sampled_from([0.0, 4.5, 10.0]) | st.floats(allow_nan=False, allow_infinity=False)
).map(lambda found: reduce(RatingCounts.plus, found, NO_RATINGS))


@given(st.builds(Header, u64, u64, u64, ratings))
def test_header(header):
    assert rows.decode_header(KEY, rows.encode_header(KEY, header)) == header


@given(u64, st.lists(digests, max_size=3))
def test_published_sets_keep_rank_order(sequence, sets):
    for topic, own in [(SUMMARIES, [{}, *sets][-1:]), (FACETS, sets)]:
        published = PublishedSets(sequence, own)
        value = rows.encode_published(KEY, topic, published)
        read = rows.decode_published(KEY, topic, value)
        assert read == published
        assert [list(ranked) for ranked in read.sets] == [list(ranked) for ranked in own]


@given(reviews)
def test_review(review):
    assert rows.decode_review(KEY, rows.encode_review(KEY, review)) == review


@given(texts)
def test_texts(chunk):
    value = rows.encode_text_chunk(KEY, chunk)
    assert rows.decode_text_chunk(KEY, value) == chunk
    for ordinal in {0, *(place for place, _ in chunk)}:
        first = next(((place, text) for place, text in chunk if place == ordinal), None)
        assert rows.decode_text_chunk(KEY, value, ordinal) == (() if first is None else (first,))


@given(
    st.lists(st.tuples(u32, st.tuples(*[st.integers(-32768, 32767)] * 3)), min_size=1, max_size=5)
)
def test_vectors(chunk):
    ordinals = tuple(ordinal for ordinal, _ in chunk)
    vectors = [np.array(vector, np.int16) for _, vector in chunk]
    read, data = decode_vectors(KEY, rows.encode_vectors(KEY, ordinals, vectors))
    assert read == ordinals
    assert np.array_equal(rows.as_matrix([data], 3), np.stack(vectors))


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=22)


@given(u64, names, names)
def test_applied(offset, topic, topic_id):
    applied = Applied(offset, topic, topic_id)
    assert rows.decode_applied(KEY, rows.encode_applied(KEY, applied)) == applied


@given(u32, st.text(max_size=10), st.text(max_size=22))
def test_output(epoch, topic, topic_id):
    output = Output(epoch, topic, topic_id)
    assert rows.decode_output(KEY, rows.encode_output(KEY, output)) == output


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5))
def test_fingerprint(fields):
    read = rows.decode_fingerprint(KEY, rows.encode_fingerprint(KEY, fields))
    assert list(read.items()) == list(fields.items())


@pytest.mark.parametrize("decode", DECODERS)
@given(value=st.binary(max_size=60))
def test_any_bytes_are_refused_or_read(decode, value):
    with pytest.raises((CorruptRow, UnknownFormat)):
        decode(KEY, value)


@pytest.mark.parametrize("decode", DECODERS)
@given(payload=st.binary(max_size=60), format=st.integers(1, 4))
@example(payload=b"\xdc\x00\n\x00\xa1\x80", format=1)  # a text that is not UTF-8
def test_any_payload_under_a_right_checksum_is_refused_or_read(decode, payload, format):
    """What a checksum cannot notice still raises nothing but a StateError."""
    with suppress(StateError):
        decode(KEY, rows.seal(KEY, payload, format))


@given(reviews, st.data())
def test_every_flipped_bit_is_noticed(review, data):
    value = bytearray(rows.encode_review(KEY, review))
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    value[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StateError):
        rows.decode_review(KEY, bytes(value))


@given(reviews, st.data())
def test_every_truncation_is_noticed(review, data):
    value = rows.encode_review(KEY, review)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(CorruptRow):
        rows.decode_review(KEY, value[:cut])


@given(reviews, st.binary(max_size=8))
def test_a_value_under_another_key_is_noticed(review, other):
    assume(other != KEY)
    with pytest.raises(CorruptRow):
        rows.decode_review(other, rows.encode_review(KEY, review))


def test_corruption_names_the_row_and_the_remedy():
    key = IncarnationKeys("caf\u00e9".encode(), 12).vector_chunk(b"r\0", 3)
    with pytest.raises(CorruptRow) as raised:
        rows.decode_vectors(key, b"", 3)
    message = str(raised.value)
    assert "vectors 'r\\x00', chunk 3 of entity 'café', incarnation 12" in message
    assert "coversumm-worker reset --local" in message
    assert raised.value.exit_code == 2


def test_wrong_dimension_is_corrupt():
    value = rows.encode_vectors(KEY, [0], [np.zeros(4, np.int16)])
    with pytest.raises(CorruptRow, match="not 1 vectors of dimension 3"):
        decode_vectors(KEY, value)
