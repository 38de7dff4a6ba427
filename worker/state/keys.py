"""Keys of rows: ordered, with all of an entity's rows together.

    F                                                     the partition's fingerprint
    A                                                     the partition's applied offset
    O                                                     its output topic and epoch
    Q                                                     its topic of facets and epoch
    D                                                     its facets, with vectors of phrases
    H                                                     its highest EMIT_MIN_CHANGES, above 1
    G | len | entity | incarnation                        rows of it are still to be removed
    L | len | entity                                      last change, for the end of a replay
    M | len | entity                                      last change of facets, likewise
    E | len | entity                                      entity header
    E | len | entity | incarnation | P                    published set
    E | len | entity | incarnation | S                    published sets of facets
    E | len | entity | incarnation | R | review           version, flags, rating, first texts
    E | len | entity | incarnation | T | len | review | chunk    further texts
    E | len | entity | incarnation | V | len | review | chunk    vectors

`len` is a big-endian u32 with the number of bytes of the id after it, so ids may hold any byte and
no id's rows lie inside another's (`a` and `ab`). `incarnation` (big-endian u64) is the source
offset of the event that created the entity: a deleted entity's rows can be removed later, since an
entity created again has a greater offset. `chunk` is a big-endian u32.
"""

import struct
from typing import NamedTuple

from worker.events.publishing import FACETS, SUMMARIES, OutputTopic

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
FINGERPRINT = b"F"
APPLIED = b"A"
OUTPUT = b"O"
FACETS_OUTPUT = b"Q"
CRITERIA = b"D"
MIN_CHANGES = b"H"
GARBAGE = b"G"
LAST_CHANGE = b"L"
LAST_FACETS = b"M"
ENTITY = b"E"
PUBLISHED = b"P"
FACET_SETS = b"S"
REVIEW = b"R"
TEXTS = b"T"
VECTORS = b"V"
OUTPUTS = {SUMMARIES: OUTPUT, FACETS: FACETS_OUTPUT}
LAST_CHANGES = {SUMMARIES: LAST_CHANGE, FACETS: LAST_FACETS}
PUBLISHED_SETS = {PUBLISHED: SUMMARIES, FACET_SETS: FACETS}


def header_key(entity: bytes) -> bytes:
    """Key of the entity's header; also the prefix of all of its rows."""
    return ENTITY + _U32.pack(len(entity)) + entity


def garbage_key(entity: bytes, incarnation: int) -> bytes:
    """Key of the note that this incarnation's rows are to be removed."""
    return GARBAGE + _U32.pack(len(entity)) + entity + _U64.pack(incarnation)


def last_change_key(entity: bytes, topic: OutputTopic = SUMMARIES) -> bytes:
    """Key of the entity's last change of the topic, published at the end of a replay."""
    return LAST_CHANGES[topic] + _U32.pack(len(entity)) + entity


def entity_of_last_change(key: bytes) -> bytes:
    """The entity in the key of a last change."""
    return key[5:]


def incarnation_prefix(entity: bytes, incarnation: int) -> bytes:
    """Prefix of all rows of one incarnation of an entity, header excluded."""
    return header_key(entity) + _U64.pack(incarnation)


def parse_garbage_key(key: bytes) -> tuple[bytes, int]:
    """`(entity, incarnation)` of a garbage key."""
    return key[5:-8], int(_U64.unpack(key[-8:])[0])


class IncarnationKeys:
    """The keys of one incarnation of an entity. Prefixes are built once: every event needs them."""

    __slots__ = ("published", "reviews", "texts", "vectors")

    def __init__(self, entity: bytes, incarnation: int) -> None:
        prefix = incarnation_prefix(entity, incarnation)
        self.published = {topic: prefix + kind for kind, topic in PUBLISHED_SETS.items()}
        self.reviews = prefix + REVIEW
        self.texts = prefix + TEXTS
        self.vectors = prefix + VECTORS

    def review(self, review: bytes) -> bytes:
        """Key of a review's own row."""
        return self.reviews + review

    def text_chunk(self, review: bytes, chunk: int) -> bytes:
        """Key of a review's further texts, from 1: chunk 0 is in the review's own row."""
        return self.texts + _U32.pack(len(review)) + review + _U32.pack(chunk)

    def vector_chunk(self, review: bytes, chunk: int) -> bytes:
        """Key of one chunk of a review's vectors, from 0."""
        return self.vectors + _U32.pack(len(review)) + review + _U32.pack(chunk)

    def review_of_vector_key(self, key: bytes) -> bytes:
        """The review id inside a key made by `vector_chunk`."""
        return key[len(self.vectors) + 4 : -4]


class EntityRowKey(NamedTuple):
    """A parsed key of an entity's row; the header has neither incarnation nor kind."""

    entity: bytes
    incarnation: int | None = None
    kind: bytes | None = None
    review: bytes | None = None
    chunk: int | None = None


def parse_entity_key(key: bytes) -> EntityRowKey:
    """Parts of a key that starts with `ENTITY`. Raises ValueError if it is malformed."""
    if key[:1] != ENTITY or len(key) < 5:
        raise ValueError("not an entity key")
    end = 5 + _U32.unpack_from(key, 1)[0]
    entity, rest = key[5:end], key[end:]
    if len(key) == end:
        return EntityRowKey(entity)
    if len(rest) < 9:
        raise ValueError("an entity key that ends early")
    incarnation, kind, tail = int(_U64.unpack_from(rest)[0]), rest[8:9], rest[9:]
    if kind in PUBLISHED_SETS and not tail:
        return EntityRowKey(entity, incarnation, kind)
    if kind == REVIEW:
        return EntityRowKey(entity, incarnation, kind, tail)
    if kind in (TEXTS, VECTORS) and len(tail) >= 8 and len(tail) == 8 + _U32.unpack_from(tail)[0]:
        return EntityRowKey(entity, incarnation, kind, tail[4:-4], int(_U32.unpack(tail[-4:])[0]))
    raise ValueError("an entity key of unknown kind")


def describe(key: bytes) -> str:
    """A readable name of the row, for errors and tools."""
    if key == FINGERPRINT:
        return "fingerprint"
    if key == APPLIED:
        return "applied offset"
    if key == OUTPUT:
        return "output topic"
    if key == FACETS_OUTPUT:
        return "facets topic"
    if key == CRITERIA:
        return "facets"
    if key == MIN_CHANGES:
        return "highest EMIT_MIN_CHANGES"
    if key[:1] == GARBAGE and len(key) >= 13:
        entity, incarnation = parse_garbage_key(key)
        return f"garbage of entity {_shown(entity)}, incarnation {incarnation}"
    if key[:1] in LAST_CHANGES.values() and len(key) >= 5:
        what = "last change" if key[:1] == LAST_CHANGE else "last change of facets"
        return f"{what} of entity {_shown(entity_of_last_change(key))}"
    try:
        parts = parse_entity_key(key)
    except ValueError:
        return f"key {key[:64].hex()}"
    if parts.incarnation is None:
        return f"header of entity {_shown(parts.entity)}"
    names = {
        PUBLISHED: "published set",
        FACET_SETS: "published sets of facets",
        REVIEW: "review",
        TEXTS: "texts",
        VECTORS: "vectors",
    }
    where = f"of entity {_shown(parts.entity)}, incarnation {parts.incarnation}"
    assert parts.kind is not None
    if parts.review is None:
        return f"{names[parts.kind]} {where}"
    chunk = "" if parts.chunk is None else f", chunk {parts.chunk}"
    return f"{names[parts.kind]} {_shown(parts.review)}{chunk} {where}"


def _shown(identifier: bytes) -> str:
    text = identifier.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 80 else text[:77] + "...")


def sentence_id(review_id: bytes, ordinal: int) -> bytes:
    """The id of a review's sentence at this position, from 0."""
    return b"%b#%d" % (review_id, ordinal)


def review_of(identifier: bytes) -> bytes:
    """The review id in an id from `sentence_id`."""
    return identifier.rpartition(b"#")[0]


def parse_sentence_id(identifier: bytes) -> tuple[bytes, int] | None:
    """`(review id, ordinal)` of any id, or None if `sentence_id` cannot make it."""
    review_id, mark, digits = identifier.rpartition(b"#")
    if not mark or not digits.isdigit() or (digits[:1] == b"0" and digits != b"0"):
        return None
    return review_id, int(digits)
