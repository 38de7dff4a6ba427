"""One entity's rows: reviews of any size come back as they were, and nothing of a former state
stays.
"""

import numpy as np
import pytest

from worker.events import ReviewDetails
from worker.state import CorruptRow, MemoryRows
from worker.state.entity import EntityRows, Review, Sentence
from worker.state.keys import sentence_id
from worker.state.rows import CHUNK_BYTES

DIMENSION = 384
RANDOM = np.random.default_rng(5)


def entity(rows=None, incarnation=4):
    return EntityRows(MemoryRows() if rows is None else rows, b"hotel", incarnation, DIMENSION)


def review(count, version=1, text="Fine.", review_id=b"r", **fields):
    vectors = RANDOM.integers(-3000, 3000, (count, DIMENSION)).astype(np.int16)
    sentences = [
        Sentence(2 * i, sentence_id(review_id, 2 * i), f"{text} {i}", v)
        for i, v in enumerate(vectors)
    ]
    return Review(version, sentences=sentences, **fields)


def stored(rows, entity_rows, review_id, written):
    changes = {}
    entity_rows.put_review(changes, review_id, written)
    rows.write(changes)
    return changes


def same(entity, other):
    def plain(review):
        return [(s.ordinal, s.id, s.text, s.vector.tobytes()) for s in review.sentences]

    facts = ("version", "deleted", "details", "embedded", "chunks")
    return plain(entity) == plain(other) and all(
        getattr(entity, f) == getattr(other, f) for f in facts
    )


def read(entity_rows, review_id):
    review = entity_rows.review(review_id)
    entity_rows.load_vectors(review_id, review)
    return review


@pytest.mark.parametrize("count", [0, 1, 2, 169, 170, 1000])
@pytest.mark.parametrize("text", ["Fine.", "é" * 2000])
def test_a_review_is_read_as_written(count, text):
    rows = MemoryRows()
    known = ReviewDetails(4.5, "2026-11-20T12:00:00Z", "en", False, "NL", "u" * 128)
    written = review(count, text=text, details=known, embedded=True)
    changes = stored(rows, entity(rows), b"r", written)
    assert same(read(entity(rows), b"r"), written)
    assert all(len(value) < 2 * CHUNK_BYTES for value in changes.values())
    ids = [block.id(i) for block in entity(rows).blocks() for i in range(len(block))]
    assert sorted(ids) == sorted(s.id for s in written.sentences)
    for sentence in written.sentences:
        text, details = entity(rows).text_and_details(sentence.id)
        assert (text, details) == (sentence.text, known)
    for ordinal in (1, 2 * count):  # between two and after the last
        with pytest.raises(CorruptRow, match=f"no sentence {ordinal}"):
            entity(rows).text_and_details(sentence_id(b"r", ordinal))


def test_a_smaller_review_leaves_nothing_of_the_larger():
    rows = MemoryRows()
    large = review(1000, text="x" * 500)
    stored(rows, entity(rows), b"r", large)
    assert len(rows) > 8
    deleted = Review(2, deleted=True, chunks=read(entity(rows), b"r").chunks)
    stored(rows, entity(rows), b"r", deleted)
    assert len(rows) == 1
    assert entity(rows).review(b"r") == Review(2, deleted=True)


def test_blocks_are_the_live_sentences():
    rows = MemoryRows()
    expected = {}
    for number in range(700):
        written = review(1 + number % 7, review_id=b"r%d" % number)
        stored(rows, entity(rows), b"r%d" % number, written)
        expected |= {s.id: s.vector.tobytes() for s in written.sentences}
    stored(rows, entity(rows, incarnation=3), b"r1", review(1))
    blocks = list(entity(rows).blocks())
    found = {b.id(i): b.vectors[i].tobytes() for b in blocks for i in range(len(b))}
    assert len(blocks) > 1
    assert found == expected


def test_missing_vectors_are_noticed():
    rows = MemoryRows()
    stored(rows, entity(rows), b"r", review(2))
    rows.write({entity().keys.vector_chunk(b"r", 0): None})
    with pytest.raises(CorruptRow, match=r"vectors 'r', chunk 0 .* missing"):
        read(entity(rows), b"r")


def test_vectors_of_other_sentences_are_noticed():
    rows = MemoryRows()
    stored(rows, entity(rows), b"r", review(2))
    other = MemoryRows()
    stored(other, entity(other), b"r", review(3))
    key = entity().keys.vector_chunk(b"r", 0)
    rows.write({key: other.get(key)})
    with pytest.raises(CorruptRow, match="not the sentences of its review"):
        read(entity(rows), b"r")
