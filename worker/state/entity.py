"""One entity's rows: header, published set, reviews, and vectors as blocks for a refill."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from worker.events import ReviewDetails
from worker.events.inputs import NO_DETAILS
from worker.events.publishing import OutputTopic
from worker.state import rows as formats
from worker.state.errors import CorruptRow
from worker.state.keys import IncarnationKeys, describe, header_key, parse_sentence_id, sentence_id
from worker.state.rows import Header, PublishedSets, ReviewFacts, ReviewRow
from worker.state.store import Pending, Rows

BLOCK_SENTENCES = 2048


@dataclass(slots=True)
class Sentence:
    """A live sentence; `vector` (dimension,) int16 is None until it is embedded or read."""

    ordinal: int
    id: bytes
    text: str
    vector: NDArray[np.int16] | None = None
    label_bits: int = 0  # facets that take one of its labels, a bit for each
    phrase_bits: int | None = None  # facets of its nearest phrases, once they are looked for
    sign: int = 0  # of its direction, once `phrase_bits` are known, if facets have sides


@dataclass(slots=True)
class Review:
    """A review from its rows. `chunks` counts its stored text and vector chunks, (0, 0) if not
    stored.
    """

    version: int
    deleted: bool = False
    details: ReviewDetails = NO_DETAILS
    embedded: bool = False
    sentences: list[Sentence] = field(default_factory=list)
    chunks: tuple[int, int] = (0, 0)
    language: str = ""  # as it was found for the facets; empty if none depends on it
    mentions: int = 0  # the facets whose words its sentences have, a bit for each
    is_future: bool = False  # its date counts as unknown, in facets that depend on it

    @property
    def date(self) -> str | None:
        """See `date_of`."""
        return formats.date_of(self.details, self.is_future)


class VectorBlock:
    """Some of an entity's live sentences: `vectors` (m, dimension) int16, ids made on demand."""

    __slots__ = ("_ordinals", "reviews", "vectors")

    def __init__(
        self, vectors: NDArray[np.int16], reviews: list[bytes], ordinals: list[int]
    ) -> None:
        self.vectors = vectors
        self.reviews = reviews  # of each row; those of a review are adjacent, also across blocks
        self._ordinals = ordinals

    def id(self, i: int) -> bytes:
        """Sentence id of row `i`."""
        return sentence_id(self.reviews[i], self._ordinals[i])

    @property
    def places(self) -> Iterator[tuple[bytes, int]]:
        """Review id and ordinal of each row."""
        return zip(self.reviews, self._ordinals, strict=True)

    def __len__(self) -> int:
        return len(self._ordinals)


class EntityRows:
    """Typed access to the rows of one incarnation of an entity."""

    __slots__ = ("dimension", "entity", "header_key", "incarnation", "keys", "rows")

    def __init__(self, rows: Rows, entity: bytes, incarnation: int, dimension: int) -> None:
        self.rows = rows
        self.entity = entity
        self.incarnation = incarnation
        self.dimension = dimension
        self.header_key = header_key(entity)
        self.keys = IncarnationKeys(entity, incarnation)

    def published(self, topic: OutputTopic) -> PublishedSets | None:
        """The sets last published on the topic, None before the first."""
        key = self.keys.published[topic]
        value = self.rows.get(key)
        return None if value is None else formats.decode_published(key, topic, value)

    def review_facts(self) -> Iterator[tuple[bytes, ReviewFacts]]:
        """The facts of all reviews, deleted ones too, by id."""
        start = len(self.keys.reviews)
        for key, value in self.rows.scan(self.keys.reviews):
            yield key[start:], formats.decode_review_facts(key, value)

    def review(self, review_id: bytes) -> Review | None:
        """The review with its texts, without vectors; None if it was never seen."""
        key = self.keys.review(review_id)
        value = self.rows.get(key)
        if value is None:
            return None
        row = formats.decode_review(key, value)
        texts = list(row.texts)
        for chunk in range(1, row.text_chunks):
            chunk_key = self.keys.text_chunk(review_id, chunk)
            texts += formats.decode_text_chunk(chunk_key, self._required(chunk_key))
        sentences = [
            Sentence(ordinal, sentence_id(review_id, ordinal), text) for ordinal, text in texts
        ]
        for sentence in sentences if row.label_bits else ():
            sentence.label_bits = row.label_bits.get(sentence.ordinal, 0)
        return Review(
            row.version,
            row.deleted,
            row.details,
            row.embedded,
            sentences,
            (row.text_chunks, row.vector_chunks),
            row.language,
            row.mentions,
            row.is_future,
        )

    def text_and_details(self, identifier: bytes) -> tuple[str, ReviewDetails]:
        """Text of a stored sentence, details of its review. Raises CorruptRow without one."""
        parsed = parse_sentence_id(identifier)
        assert parsed is not None
        review_id, ordinal = parsed
        key = self.keys.review(review_id)
        value = self.rows.get(key)
        if value is not None:
            row = formats.decode_review(key, value, ordinal)
            texts, chunk = row.texts, 1
            while not texts and chunk < row.text_chunks:
                chunk_key = self.keys.text_chunk(review_id, chunk)
                texts = formats.decode_text_chunk(chunk_key, self._required(chunk_key), ordinal)
                chunk += 1
            if texts:
                return texts[0][1], row.details
        raise CorruptRow(describe(key), f"no sentence {ordinal}")

    def load_vectors(self, review_id: bytes, review: Review) -> None:
        """Fill in the vectors of a stored review."""
        at = 0
        for chunk in range(review.chunks[1]):
            key = self.keys.vector_chunk(review_id, chunk)
            ordinals, data = formats.decode_vectors(key, self._required(key), self.dimension)
            owners = review.sentences[at : at + len(ordinals)]
            if tuple(sentence.ordinal for sentence in owners) != ordinals:
                raise CorruptRow(describe(key), "not the sentences of its review")
            for sentence, vector in zip(
                owners, formats.as_matrix([data], self.dimension), strict=True
            ):
                sentence.vector = vector
            at += len(ordinals)
        if at != len(review.sentences):
            raise CorruptRow(describe(self.keys.review(review_id)), "more texts than vectors")

    def blocks(self) -> Iterator[VectorBlock]:
        """All live sentences, read from the vector rows alone."""
        decode, dimension, keys = formats.decode_vectors, self.dimension, self.keys
        parts: list[bytes] = []
        reviews: list[bytes] = []
        ordinals: list[int] = []
        for key, value in self.rows.scan(keys.vectors):
            numbers, data = decode(key, value, dimension)
            review = keys.review_of_vector_key(key)
            parts.append(data)
            if len(numbers) == 1:
                reviews.append(review)
                ordinals.append(numbers[0])
            else:
                reviews += [review] * len(numbers)
                ordinals += numbers
            if len(ordinals) >= BLOCK_SENTENCES:
                yield VectorBlock(formats.as_matrix(parts, dimension), reviews, ordinals)
                parts, reviews, ordinals = [], [], []
        if parts:
            yield VectorBlock(formats.as_matrix(parts, dimension), reviews, ordinals)

    def put_header(self, pending: Pending, header: Header) -> None:
        """Write the entity's header."""
        pending[self.header_key] = formats.encode_header(self.header_key, header)

    def put_published(self, pending: Pending, topic: OutputTopic, published: PublishedSets) -> None:
        """Write the sets published on the topic."""
        key = self.keys.published[topic]
        pending[key] = formats.encode_published(key, topic, published)

    def put_review(self, pending: Pending, review_id: bytes, review: Review) -> int:
        """Write the review's rows, remove surplus chunks, and update `review.chunks`; returns the
        format of its row.
        """
        keys, sentences, chunks = self.keys, review.sentences, review.chunks
        texts = _cut_texts([(sentence.ordinal, sentence.text) for sentence in sentences])
        per_chunk = max(1, formats.CHUNK_BYTES // (4 + 2 * self.dimension))
        vectors = [sentences[at : at + per_chunk] for at in range(0, len(sentences), per_chunk)]
        review.chunks = len(texts), len(vectors)
        key, first = keys.review(review_id), texts[0] if texts else ()
        row = ReviewRow(
            review.version,
            review.deleted,
            review.details,
            review.embedded,
            *review.chunks,
            first,
            {row.ordinal: row.label_bits for row in sentences if row.label_bits},
            review.language,
            review.mentions,
            review.is_future,
        )
        pending[key] = value = formats.encode_review(key, row)
        for number, part in enumerate(vectors):
            key = keys.vector_chunk(review_id, number)
            pending[key] = formats.encode_vectors(
                key, [s.ordinal for s in part], [vector_of(s) for s in part]
            )
        if len(texts) > 1:
            for number, chunk in enumerate(texts[1:], 1):
                key = keys.text_chunk(review_id, number)
                pending[key] = formats.encode_text_chunk(key, chunk)
        if chunks not in ((0, 0), review.chunks):
            self._remove_chunks(pending, review_id, review.chunks, chunks)
        return value[0]

    def _remove_chunks(
        self, pending: Pending, review_id: bytes, now: tuple[int, int], before: tuple[int, int]
    ) -> None:
        for number in range(max(1, now[0]), before[0]):
            pending[self.keys.text_chunk(review_id, number)] = None
        for number in range(now[1], before[1]):
            pending[self.keys.vector_chunk(review_id, number)] = None

    def _required(self, key: bytes) -> bytes:
        value = self.rows.get(key)
        if value is None:
            raise CorruptRow(describe(key), "missing")
        return value


def read_header(rows: Rows, entity: bytes) -> Header | None:
    """The entity's header, or None for an entity without rows."""
    key = header_key(entity)
    value = rows.get(key)
    return None if value is None else formats.decode_header(key, value)


def _cut_texts(texts: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Texts in order, in chunks of at most `CHUNK_BYTES`; a longer text is a chunk of its own."""
    # A character is at most four bytes.
    if 4 * sum([len(text) + 2 for _, text in texts]) <= formats.CHUNK_BYTES:
        return [texts] if texts else []
    chunks: list[list[tuple[int, str]]] = []
    room = 0
    for item in texts:
        size = 8 + 4 * len(item[1])
        if size > room or not chunks:
            chunks.append([])
            room = formats.CHUNK_BYTES
        chunks[-1].append(item)
        room -= size
    return chunks


def vector_of(sentence: Sentence) -> NDArray[np.int16]:
    """The vector of a sentence that has one."""
    assert sentence.vector is not None
    return sentence.vector
