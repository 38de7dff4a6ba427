"""A summary in a few bytes, and how two of them compare."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from worker.events import Cause, SummaryChanged

_encode: Final = msgspec.json.Encoder().encode
_NO_CAUSE: Final = Cause(type="", topic="", partition=0, offset=0, review_id=None)


class Digest(NamedTuple):
    """A summary by hashes of 64 bits, which mean nothing outside of this process.

    Attributes:
        k: how many sentences a full one has.
        body: of what two runs that *agree* have in common: all but epoch, sequence, previous_sequence and cause.
        members: of the sentences' ids and texts.
    """

    k: int
    body: int
    members: frozenset[int]

    @classmethod
    def of(cls, body: SummaryChanged) -> Digest:
        """The digest of a summary."""
        common = structs.replace(body, epoch=0, sequence=0, previous_sequence=None, cause=_NO_CAUSE)
        members = frozenset(hash((one.sentence_id, one.text)) for one in body.sentences)
        return cls(body.k, hash(_encode(common)), members)

    def pack(self) -> bytes:
        """It in 8 bytes for each sentence, and 16."""
        return array("q", (self.k, self.body, *self.members)).tobytes()

    @classmethod
    def unpack(cls, packed: bytes) -> Digest:
        """What `pack` packed."""
        k, body, *members = array("q", packed)
        return cls(k, body, frozenset(members))


class Verdict(NamedTuple):
    """How an entity of two builds compares; without a summary in one of them, its `k` there is None."""

    k_a: int | None
    k_b: int | None
    differing: int = 0
    is_equal: bool = False
    """One set."""
    is_identical: bool = False
    """One body, but for what may differ between runs that agree."""

    @property
    def is_of_both(self) -> bool:
        """Whether both builds have a summary."""
        return self.k_a is not None and self.k_b is not None


def verdict(a: Digest | None, b: Digest | None) -> Verdict:
    """How two summaries of an entity compare.

    `differing` is how many sentences differ, of as many as the smaller `k` has room for: a set that `k` alone makes smaller lies
    in the larger one whole, and fills its `k`, so that nothing differs.
    """
    if a is None or b is None:
        return Verdict(None if a is None else a.k, None if b is None else b.k)
    room = min(a.k, b.k)
    most = max(min(len(a.members), room), min(len(b.members), room))
    differing = max(most - len(a.members & b.members), 0)
    return Verdict(a.k, b.k, differing, a.members == b.members, a.body == b.body)


def entity_key(entity_id: str) -> bytes:
    """An entity in 16 bytes, however long its id is."""
    return blake2b(entity_id.encode(), digest_size=16).digest()
