"""Values of rows: binary, with a format version and a checksum.

Every value is `format u8 | crc32 u32 | payload`, little-endian throughout; that frame is the same
in every format. The checksum covers key and payload, so a value under a wrong key is noticed too.
Decoders raise only `CorruptRow` (naming the row) or `UnknownFormat`.

Each kind of row has formats of its own, and a format that this build does not write is refused.
All are at 1 unless noted.

    header 2      reviews u64 | sentences u64 | incarnation u64 | its ratings: count u8
                  | count * (double of the rating u8 | reviews u64) | reviews with other ratings u64
                  | exponent u16 | the sum of these ratings times 2 ** exponent, signed, in as many
                  bytes as it needs
    published     sequence u64 | count u32 | count * len u32 | the sentence ids
                  | count * digest 16, by rank
    facet sets    sequence u64 | count u32 | count * (len u32 | a set as after a published sequence)
    facet sets 2  as facet sets, then count * the reviews that mention the facet u64
    review 1      version u64 | flags u8 | rating f64 | text chunks u32 | vector chunks u32 | texts
    review 2      as 1, with before the texts: len u8 | its date | len u8 | its language
                  | count u32 | count * (ordinal u32 | facets by labels u64)
    review 3      as 2, with before the texts: len u16 | len u8 | verified u8 (1 unknown, 2 no,
                  3 yes) | its author | its country
    review 4      as 3, with before the texts: the facets it mentions u64 | len u8 | the language
                  that was found for it
    flags         1 deleted, 2 with a rating, 4 as `ReviewRow.embedded`, 8 as `ReviewRow.is_future`
    texts         count u32 | count * (ordinal u32 | len u32) | the texts in UTF-8
    vectors       count u32 | count * ordinal u32 | count * dimension * int16
    applied 2     next offset u64 | len u32 | topic | topic id (empty if the broker gave none)
    applied 3     next offset u64 | len u32 | topic | len u32 | topic id
                  | the newest format of each kind of row, like a fingerprint
    output        epoch u32 | len u32 | topic in UTF-8 | topic id (empty if the broker gave none)
    fingerprint   count u32 | count * (len u32 | name | len u32 | value)
    garbage       (empty)
    min changes   the highest COVERSUMM_EMIT_MIN_CHANGES so far u32
    facets        len u32 | definitions in JSON | dimension u32 | phrases * dimension * int16
    last change   `LastSummary` as an array of MessagePack
    last facets   `LastFacets` likewise
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from worker.events.inputs import ReviewDetails
from worker.events.outputs import LastFacets, LastSummary
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.events.ratings import HALVES, NO_RATINGS, RatingCounts
from worker.facets.definitions import Definitions
from worker.facets.membership import FacetCriteria
from worker.state.errors import CorruptRow, NewerFormats, UnknownFormat
from worker.state.keys import describe

FORMAT, APPLIED_FORMAT, REVIEW_FORMAT, HEADER_FORMAT, PUBLISHED_FORMAT = 1, 2, 4, 2, 2
"""The newest format of every kind but the next four, of the applied row, of reviews, headers and
facet sets.

A review is written in the oldest format that has room for its details and labels.
"""
FORMATS: Final = {
    "applied offset": APPLIED_FORMAT,
    "header": HEADER_FORMAT,
    "review": REVIEW_FORMAT,
    "other rows": FORMAT,
}
UNRECORDED: Final = {"applied offset": 2, "header": 2, "review": 2, "other rows": 1}
"""The formats that the applied row of format 2 stands for; the one of format 3 names others, so
that an older worker is refused when it takes the partition over, and not at some row of it. That of
reviews is the newest that the partition has had.
"""
RECORDED_FORMAT: Final = 3
DIGEST_BYTES = 16
MAX_SUM_EXPONENT, MAX_SUM_BYTES = 1074, 272
"""Of a sum of ratings: every float64 is an integer / 2**1074 below 2**1024, and there are below
2**64.
"""

_SEAL = struct.Struct("<BI")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_APPLIED = struct.Struct("<QI")
_OUTPUT = struct.Struct("<II")
_HEADER = struct.Struct("<QQQ")
_RATING = struct.Struct("<BQ")
_OTHER_RATINGS = struct.Struct("<QH")
_PUBLISHED = struct.Struct("<QI")
_REVIEW = struct.Struct("<QBdII")
_LABELS = struct.Struct("<IQ")
_MORE = struct.Struct("<HBB")  # read as the count of texts of format 2 it is impossible
_FOUND = struct.Struct("<QB")
_ONE_TEXT = struct.Struct("<III")
_ONE_VECTOR = struct.Struct("<II")

_DELETED, _RATED, _EMBEDDED, _FUTURE = 1, 2, 4, 8
_VERIFIED: Final = {1: None, 2: False, 3: True}

# Texts and vectors are cut so that no row comes near Kafka's 1 MB; a single text may exceed it only
# as far as the text cap allows.
CHUNK_BYTES = 128 * 1024

_VECTOR_DTYPE = np.dtype("<i2")

Texts = Sequence[tuple[int, str]]  # (ordinal, text), ordinals ascending


class Header(NamedTuple):
    """An entity: live reviews, live sentences, the source offset that created it, and the ratings
    of its live reviews.
    """

    reviews: int
    sentences: int
    incarnation: int
    ratings: RatingCounts = NO_RATINGS


class PublishedSets(NamedTuple):
    """The sets of a topic last published, each as `{sentence id: text digest}` in rank order.

    The summary is one set; facets are in the order of their definitions, without hidden ones.
    """

    sequence: int  # source offset of that change
    sets: Sequence[Mapping[bytes, bytes]]
    mentions: Sequence[int] = ()
    """Of each facet, the reviews that mention it; empty without COVERSUMM_EMIT_MENTIONS."""


class ReviewRow(NamedTuple):
    """A review, the number of its text and vector chunks, and the first chunk of its texts."""

    version: int
    deleted: bool
    details: ReviewDetails
    embedded: bool  # every vector is the engine's own: an equal text may take it over
    text_chunks: int
    vector_chunks: int
    texts: Texts
    label_bits: Mapping[int, int] = {}
    """By ordinal: the facets that take one of the sentence's labels, a bit for each."""
    language: str = ""  # as it was found for the facets; empty if none depends on it
    mentions: int = 0  # the facets whose words its sentences have, a bit for each
    is_future: bool = False  # its date counts as unknown, in facets that depend on it


class ReviewFacts(NamedTuple):
    """The part of a review that facets and counts depend on besides its sentences."""

    deleted: bool
    details: ReviewDetails
    label_bits: Mapping[int, int]
    language: str
    mentions: int
    is_future: bool


class Applied(NamedTuple):
    """Everything below `next_offset` of this partition of `topic` is in the rows."""

    next_offset: int
    topic: str
    topic_id: str = ""  # distinguishes topics of one name; empty if unknown
    review_format: int = UNRECORDED["review"]  # the newest of its reviews so far


class Output(NamedTuple):
    """The summaries of this partition are published as this epoch, to `topic`."""

    epoch: int
    topic: str
    topic_id: str = ""  # as that of the input


LastChange = LastSummary | LastFacets
_decode_last_change: dict[OutputTopic, Callable[[bytes], LastChange]] = {
    SUMMARIES: msgspec.msgpack.Decoder(LastSummary).decode,
    FACETS: msgspec.msgpack.Decoder(LastFacets).decode,
}


def text_digest(text: str) -> bytes:
    """Represents a published sentence's text in the published row."""
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def seal(key: bytes, payload: bytes, version: int = FORMAT) -> bytes:
    """The row's value: payload under format version and checksum."""
    return _SEAL.pack(version, crc32(payload, crc32(key))) + payload


def unseal(key: bytes, value: bytes, newest: int = FORMAT, oldest: int = 1) -> bytes:
    """The payload of a value in any format from `oldest` to `newest`.

    Raises UnknownFormat, CorruptRow.
    """
    if len(value) < _SEAL.size:
        raise CorruptRow(describe(key), "shorter than its frame")
    version, checksum = _SEAL.unpack_from(value)
    payload = value[_SEAL.size :]
    if crc32(payload, crc32(key)) != checksum:
        raise CorruptRow(describe(key), "checksum does not match")
    if not oldest <= version <= newest:
        raise UnknownFormat(describe(key), version, newest)
    return payload


def encode_header(key: bytes, header: Header) -> bytes:
    """Value of an entity header."""
    *counts, ratings = header
    halves, others, total = ratings
    numbers = [number for half in sorted(halves.items()) for number in half]
    layout = f"<QQQB{'BQ' * len(halves)}QH"
    if not others:
        return seal(key, struct.pack(layout, *counts, len(halves), *numbers, 0, 0), HEADER_FORMAT)
    numerator, exponent = total.numerator, total.denominator.bit_length() - 1
    fixed = struct.pack(layout, *counts, len(halves), *numbers, others, exponent)
    sum_bytes = numerator.to_bytes(numerator.bit_length() // 8 + 1, "little", signed=True)
    return seal(key, fixed + sum_bytes, HEADER_FORMAT)


def decode_header(key: bytes, value: bytes) -> Header:
    """Inverse of `encode_header`."""
    payload = unseal(key, value, HEADER_FORMAT, HEADER_FORMAT)
    try:
        reviews, sentences, incarnation = _HEADER.unpack_from(payload)
        ratings = _decode_ratings(payload, _HEADER.size)
        return Header(reviews, sentences, incarnation, ratings)
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def _decode_ratings(payload: bytes, at: int) -> RatingCounts:
    """Read the ratings from here to the end. Raises struct.error, ValueError, IndexError."""
    start = at + 1
    end = start + payload[at] * _RATING.size
    if end > len(payload):
        raise ValueError("impossible count")
    halves = dict(_RATING.iter_unpack(payload[start:end]))
    if sorted(halves) != list(halves) or any(half >= len(HALVES) for half in halves):
        raise ValueError("impossible ratings")
    others, exponent = _OTHER_RATINGS.unpack_from(payload, end)
    sum_bytes = payload[end + _OTHER_RATINGS.size :]
    is_sum = len(sum_bytes) <= MAX_SUM_BYTES and exponent <= MAX_SUM_EXPONENT
    if not is_sum or bool(others) != bool(sum_bytes):
        raise ValueError("impossible sum of ratings")
    total = Fraction(int.from_bytes(sum_bytes, "little", signed=True), 2**exponent)
    return RatingCounts(halves, others, total)


def encode_published(key: bytes, topic: OutputTopic, published: PublishedSets) -> bytes:
    """Value of the row with a topic's published sets."""
    sequence, sets, mentions = published
    if topic is SUMMARIES:
        (digests,) = sets
        return seal(key, _U64.pack(sequence) + _encode_set(digests))
    parts = [_encode_set(digests) for digests in sets]
    lengths = [_U32.pack(len(part)) + part for part in parts]
    payload = _PUBLISHED.pack(sequence, len(parts)) + b"".join(lengths)
    if not mentions:
        return seal(key, payload)
    return seal(key, payload + struct.pack(f"<{len(mentions)}Q", *mentions), PUBLISHED_FORMAT)


def decode_published(key: bytes, topic: OutputTopic, value: bytes) -> PublishedSets:
    """Inverse of `encode_published`."""
    payload = unseal(key, value, FORMAT if topic is SUMMARIES else PUBLISHED_FORMAT)
    try:
        if topic is SUMMARIES:
            (sequence,) = _U64.unpack_from(payload)
            return PublishedSets(sequence, [_decode_set(payload, _U64.size, len(payload))])
        sequence, count = _PUBLISHED.unpack_from(payload)
        sets = []
        at = _PUBLISHED.size
        for _ in range(count):
            (length,) = _U32.unpack_from(payload, at)
            start, at = at + _U32.size, at + _U32.size + length
            sets.append(_decode_set(payload, start, at))
        mentions = struct.unpack(f"<{count if value[0] == PUBLISHED_FORMAT else 0}Q", payload[at:])
        return PublishedSets(sequence, sets, mentions)
    except (struct.error, ValueError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def _encode_set(digests: Mapping[bytes, bytes]) -> bytes:
    ids, count = digests.keys(), len(digests)
    head = struct.pack(f"<{count + 1}I", count, *map(len, ids))
    return b"".join((head, *ids, *digests.values()))


def _decode_set(payload: bytes, start: int, end: int) -> dict[bytes, bytes]:
    """The set between these positions. Raises struct.error, ValueError."""
    (count,) = _U32.unpack_from(payload, start)
    if count > len(payload):
        raise ValueError("impossible count")
    at = start + _U32.size
    lengths = struct.unpack_from(f"<{count}I", payload, at)
    at += _U32.size * count
    digest_at = at + sum(lengths)
    if digest_at + DIGEST_BYTES * count != end:
        raise ValueError("wrong length")
    digests: dict[bytes, bytes] = {}
    for length in lengths:
        digests[payload[at : at + length]] = payload[digest_at : digest_at + DIGEST_BYTES]
        at += length
        digest_at += DIGEST_BYTES
    if len(digests) != count:
        raise ValueError("a sentence appears twice")
    return digests


def encode_texts(texts: Texts) -> bytes:
    """A texts section (not sealed): ordinals and texts."""
    if len(texts) == 1:
        ordinal, text = texts[0]
        encoded = text.encode()
        return _ONE_TEXT.pack(1, ordinal, len(encoded)) + encoded
    parts = [text.encode() for _, text in texts]
    numbers = [
        number
        for (ordinal, _), part in zip(texts, parts, strict=True)
        for number in (ordinal, len(part))
    ]
    return struct.pack(f"<{len(numbers) + 1}I", len(parts), *numbers) + b"".join(parts)


def _decode_texts(payload: bytes, start: int, only: int | None = None) -> Texts:
    """The texts section from `start` to the end, or `only` the text of this ordinal, if it is
    there. Raises struct.error, UnicodeDecodeError, ValueError.
    """
    (count,) = _U32.unpack_from(payload, start)
    if count > len(payload):
        raise ValueError("impossible count")
    numbers = struct.unpack_from(f"<{2 * count}I", payload, start + 4)
    ordinals, lengths, at = numbers[::2], numbers[1::2], start + 4 + 8 * count
    if at + sum(lengths) != len(payload):
        raise ValueError("wrong length")
    if only is not None:  # a long review has hundreds
        place = ordinals.index(only) if only in ordinals else count
        at += sum(lengths[:place])
        ordinals, lengths = ordinals[place : place + 1], lengths[place : place + 1]
    texts = []
    for ordinal, length in zip(ordinals, lengths, strict=True):
        texts.append((ordinal, payload[at : at + length].decode()))
        at += length
    return tuple(texts)


def encode_text_chunk(key: bytes, texts: Texts) -> bytes:
    """Value of a texts row."""
    return seal(key, encode_texts(texts))


def decode_text_chunk(key: bytes, value: bytes, only: int | None = None) -> Texts:
    """Inverse of `encode_text_chunk`; or `only` the text of this ordinal, if it is there."""
    payload = unseal(key, value)
    try:
        return _decode_texts(payload, 0, only)
    except (struct.error, ValueError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def encode_review(key: bytes, row: ReviewRow) -> bytes:
    """Value of a review row."""
    details = row.details
    flags = (
        (_DELETED if row.deleted else 0)
        | (_RATED if details.rating is not None else 0)
        | (_EMBEDDED if row.embedded else 0)
        | (_FUTURE if row.is_future else 0)
    )
    # not `or`: -0.0 is another text in a message than 0.0
    rating = 0.0 if details.rating is None else details.rating
    fixed = _REVIEW.pack(row.version, flags, rating, row.text_chunks, row.vector_chunks)
    texts = encode_texts(row.texts)
    has_found = bool(row.language or row.mentions)
    has_more = has_found or details.has_more
    if not (has_more or details.occurred_at or details.language or row.label_bits):
        return seal(key, fixed + texts)
    date, language = (details.occurred_at or "").encode(), (details.language or "").encode()
    facts = b"%c%b%c%b" % (len(date), date, len(language), language)
    labels = _U32.pack(len(row.label_bits))
    if row.label_bits:
        labels += b"".join([_LABELS.pack(*item) for item in row.label_bits.items()])
    if not has_more:
        return seal(key, fixed + facts + labels + texts, 2)
    author, country = (details.author_id or "").encode(), (details.country or "").encode()
    verified = 1 if details.verified is None else 2 + details.verified
    more = _MORE.pack(len(author), len(country), verified) + author + country
    if not has_found:
        return seal(key, fixed + facts + labels + more + texts, 3)
    found = _FOUND.pack(row.mentions, len(row.language)) + row.language.encode()
    return seal(key, fixed + facts + labels + more + found + texts, REVIEW_FORMAT)


def decode_review(key: bytes, value: bytes, only: int | None = None) -> ReviewRow:
    """Inverse of `encode_review`; or with `only` the text of this ordinal, if it is there."""
    payload = unseal(key, value, REVIEW_FORMAT)
    try:
        version, flags, _, text_chunks, vector_chunks = _REVIEW.unpack_from(payload)
        at, facts = _decode_facts(payload, value[0])
        texts = _decode_texts(payload, at, only)
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise CorruptRow(describe(key), str(error)) from error
    return ReviewRow(
        version,
        facts.deleted,
        facts.details,
        bool(flags & _EMBEDDED),
        text_chunks,
        vector_chunks,
        texts,
        facts.label_bits,
        facts.language,
        facts.mentions,
        facts.is_future,
    )


def text_chunks(value: bytes) -> int:
    """The number of text chunks of a review, from its value; unchecked."""
    chunks: int = _REVIEW.unpack_from(value, _SEAL.size)[3]
    return chunks


def decode_review_facts(key: bytes, value: bytes) -> ReviewFacts:
    """The facts of a review's row, without its texts."""
    payload = unseal(key, value, REVIEW_FORMAT)
    try:
        return _decode_facts(payload, value[0])[1]
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def _decode_facts(payload: bytes, version: int) -> tuple[int, ReviewFacts]:
    """Where the texts begin, and the facts of the review. Raises struct.error, ValueError,
    IndexError, KeyError.
    """
    _, flags, number, _, _ = _REVIEW.unpack_from(payload)
    deleted, is_future = bool(flags & _DELETED), bool(flags & _FUTURE)
    at, rating = _REVIEW.size, number if flags & _RATED else None
    if version == 1:
        return at, ReviewFacts(deleted, ReviewDetails(rating), {}, "", 0, is_future)
    date_end = at + 1 + payload[at]
    end = date_end + 1 + payload[date_end]
    (count,) = _U32.unpack_from(payload, end)
    begin = end + _U32.size
    stop = begin + count * _LABELS.size
    if stop > len(payload):
        raise ValueError("impossible count")
    occurred_at = payload[at + 1 : date_end].decode() or None
    tag = payload[date_end + 1 : end].decode() or None
    label_bits = dict(_LABELS.iter_unpack(payload[begin:stop])) if count else {}
    if version == 2:
        return stop, ReviewFacts(
            deleted, ReviewDetails(rating, occurred_at, tag), label_bits, "", 0, is_future
        )
    author_bytes, country_bytes, verified = _MORE.unpack_from(payload, stop)
    author_end = stop + _MORE.size + author_bytes
    stop = author_end + country_bytes
    author = payload[author_end - author_bytes : author_end].decode() or None
    country = payload[author_end:stop].decode() or None
    details = ReviewDetails(rating, occurred_at, tag, _VERIFIED[verified], country, author)
    if version == 3:
        return stop, ReviewFacts(deleted, details, label_bits, "", 0, is_future)
    mentions, length = _FOUND.unpack_from(payload, stop)
    begin_texts = stop + _FOUND.size + length
    language = payload[stop + _FOUND.size : begin_texts].decode()
    return begin_texts, ReviewFacts(deleted, details, label_bits, language, mentions, is_future)


def date_of(details: ReviewDetails, is_future: bool) -> str | None:
    """The date of a review for facets that depend on it, None if it counts as unknown."""
    return None if is_future else details.occurred_at


def encode_vectors(
    key: bytes, ordinals: Sequence[int], vectors: Sequence[NDArray[np.int16]]
) -> bytes:
    """Value of a vectors row: one (dimension,) int16 array per ordinal."""
    parts = [vector.astype(_VECTOR_DTYPE, copy=False).tobytes() for vector in vectors]
    assert len(parts) == len(ordinals)
    if len(parts) == 1:
        return seal(key, _ONE_VECTOR.pack(1, ordinals[0]) + parts[0])
    return seal(key, struct.pack(f"<{len(parts) + 1}I", len(parts), *ordinals) + b"".join(parts))


def decode_vectors(key: bytes, value: bytes, dimension: int) -> tuple[tuple[int, ...], bytes]:
    """Ordinals, and the bytes of their (count, dimension) matrix for `as_matrix`."""
    payload = unseal(key, value)
    width = _VECTOR_DTYPE.itemsize * dimension
    if len(payload) == _ONE_VECTOR.size + width:
        count, ordinal = _ONE_VECTOR.unpack_from(payload)
        if count == 1:
            return (ordinal,), payload[_ONE_VECTOR.size :]
    try:
        (count,) = _U32.unpack_from(payload)
        if len(payload) != 4 + count * (4 + width):
            raise ValueError(f"not {count} vectors of dimension {dimension}")
        return struct.unpack_from(f"<{count}I", payload, 4), payload[4 + 4 * count :]
    except (struct.error, ValueError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def as_matrix(parts: Sequence[bytes], dimension: int) -> NDArray[np.int16]:
    """(m, dimension) int16, read-only, from the matrices of several vectors rows."""
    joined = parts[0] if len(parts) == 1 else b"".join(parts)
    return (
        np.frombuffer(joined, dtype=_VECTOR_DTYPE)
        .reshape(-1, dimension)
        .astype(np.int16, copy=False)
    )


def encode_criteria(key: bytes, facets: FacetCriteria) -> bytes:
    """Value of the row with a partition's facets."""
    definitions = facets.definitions.to_json()
    vectors = facets.vectors.astype(_VECTOR_DTYPE, copy=False).tobytes()
    head = _U32.pack(len(definitions)) + definitions + _U32.pack(facets.dimension)
    return seal(key, head + vectors)


def decode_criteria(key: bytes, value: bytes) -> FacetCriteria:
    """Inverse of `encode_criteria`."""
    payload = unseal(key, value)
    try:
        (length,) = _U32.unpack_from(payload)
        end = _U32.size + length
        definitions = Definitions.from_json(payload[_U32.size : end])
        (dimension,) = _U32.unpack_from(payload, end)
        vectors = as_matrix([payload[end + _U32.size :]], dimension)
        return FacetCriteria(definitions, vectors)
    except (struct.error, ValueError, msgspec.DecodeError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def encode_applied(key: bytes, applied: Applied) -> bytes:
    """Value of the applied row."""
    topic = applied.topic.encode()
    head, topic_id = _APPLIED.pack(applied.next_offset, len(topic)), applied.topic_id.encode()
    newest = {**FORMATS, "review": applied.review_format}
    if newest == UNRECORDED:
        return seal(key, head + topic + topic_id, APPLIED_FORMAT)
    formats = _encode_fields({kind: str(value) for kind, value in newest.items()})
    return seal(key, head + topic + _U32.pack(len(topic_id)) + topic_id + formats, RECORDED_FORMAT)


def decode_applied(key: bytes, value: bytes) -> Applied:
    """Inverse of `encode_applied`. Raises NewerFormats too."""
    payload = unseal(key, value, RECORDED_FORMAT, APPLIED_FORMAT)
    try:
        if value[0] == RECORDED_FORMAT:
            applied = _decode_recorded(payload)
        else:
            next_offset, length = _APPLIED.unpack_from(payload)
            end = _APPLIED.size + length
            if end > len(payload):
                raise ValueError("wrong length")
            applied = Applied(
                next_offset, payload[_APPLIED.size : end].decode(), payload[end:].decode()
            )
    except (struct.error, ValueError, KeyError) as error:
        raise CorruptRow(describe(key), str(error)) from error
    if "\0" in applied.topic + applied.topic_id:
        # No name or id has one: the format's own byte, which no checksum covers, is damaged.
        raise CorruptRow(describe(key), "not of the format it says")
    return applied


def _decode_recorded(payload: bytes) -> Applied:
    """Format 3. Raises struct.error, ValueError, NewerFormats."""
    next_offset, length = _APPLIED.unpack_from(payload)
    end = _APPLIED.size + length
    (id_length,) = _U32.unpack_from(payload, end)
    start = end + _U32.size
    topic, topic_id = payload[_APPLIED.size : end], payload[start : start + id_length]
    fields = _decode_fields(payload[start + id_length :])
    newer = {
        kind: (int(found), FORMATS.get(kind, 0))
        for kind, found in fields.items()
        if int(found) > FORMATS.get(kind, 0)
    }
    if newer:
        raise NewerFormats(newer)
    return Applied(next_offset, topic.decode(), topic_id.decode(), int(fields["review"]))


def encode_output(key: bytes, output: Output) -> bytes:
    """Value of the output row."""
    topic = output.topic.encode()
    return seal(key, _OUTPUT.pack(output.epoch, len(topic)) + topic + output.topic_id.encode())


def decode_output(key: bytes, value: bytes) -> Output:
    """Inverse of `encode_output`."""
    payload = unseal(key, value)
    try:
        epoch, length = _OUTPUT.unpack_from(payload)
        end = _OUTPUT.size + length
        if end > len(payload):
            raise ValueError("wrong length")
        return Output(epoch, payload[_OUTPUT.size : end].decode(), payload[end:].decode())
    except (struct.error, ValueError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def encode_min_changes(key: bytes, number: int) -> bytes:
    """Value of the row with a partition's highest COVERSUMM_EMIT_MIN_CHANGES."""
    return seal(key, _U32.pack(number))


def decode_min_changes(key: bytes, value: bytes) -> int:
    """Inverse of `encode_min_changes`."""
    try:
        return int(_U32.unpack(unseal(key, value))[0])
    except struct.error as error:
        raise CorruptRow(describe(key), str(error)) from error


def encode_last_change(key: bytes, change: LastChange) -> bytes:
    """Value of an entity's last change of a topic, without the last fields if they are empty."""
    fields = list(msgspec.structs.astuple(change))
    while isinstance(fields[-1], list | tuple) and not fields[-1]:
        fields.pop()
    return seal(key, msgspec.msgpack.encode(fields))


def decode_last_change(key: bytes, topic: OutputTopic, value: bytes) -> LastChange:
    """Inverse of `encode_last_change`."""
    try:
        return _decode_last_change[topic](unseal(key, value))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def encode_fingerprint(key: bytes, fields: dict[str, str]) -> bytes:
    """Value of the fingerprint row: names and values, in their order."""
    return seal(key, _encode_fields(fields))


def _encode_fields(fields: Mapping[str, str]) -> bytes:
    parts = [part.encode() for field in fields.items() for part in field]
    return _U32.pack(len(fields)) + b"".join(_U32.pack(len(part)) + part for part in parts)


def decode_fingerprint(key: bytes, value: bytes) -> dict[str, str]:
    """Inverse of `encode_fingerprint`."""
    payload = unseal(key, value)
    try:
        return _decode_fields(payload)
    except (struct.error, ValueError) as error:
        raise CorruptRow(describe(key), str(error)) from error


def _decode_fields(payload: bytes) -> dict[str, str]:
    """Inverse of `_encode_fields`. Raises struct.error, ValueError."""
    (count,) = _U32.unpack_from(payload)
    if count > len(payload):
        raise ValueError("impossible count")
    parts, at = [], 4
    for _ in range(2 * count):
        end = at + 4 + _U32.unpack_from(payload, at)[0]
        parts.append(payload[at + 4 : end].decode())
        at = end
    if at != len(payload):
        raise ValueError("wrong length")
    return dict(zip(parts[::2], parts[1::2], strict=True))
