"""Two builds of the summaries, held against each other entity by entity, as sets of (sentence id,
text).

Of each entity the last publication counts; after a tombstone, or with an empty set, it has no
summary. `digests` makes a summary small and tells how two of them compare, `compared` does so for
all entities, `examples` finds some of them again.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from worker.events import Cause, SummaryChanged, SummarySentence
from worker.published.published import Publication
from worker.published.sorting import LastValues

_encode: Final = msgspec.json.Encoder().encode
_NO_CAUSE: Final = Cause(type="", topic="", partition=0, offset=0, review_id=None)


class Digest(NamedTuple):
    """A summary by hashes of 64 bits, which mean nothing outside of this process.

    Attributes:
        k: how many sentences a full one has.
        body: of what two runs that *agree* have in common: all but epoch, sequence,
            previous_sequence and cause.
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
    """How an entity of two builds compares; without a summary in one of them, its `k` there is
    None.
    """

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

    `differing` is how many sentences differ, of as many as the smaller `k` has room for: a set that
    `k` alone makes smaller lies in the larger one whole, and fills its `k`, so that nothing
    differs.
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


SPARE: Final = 1000
"""Changed entities to hold beyond twice the wanted ones, before the least changed are dropped."""


@dataclass(frozen=True, slots=True)
class Example:
    """A changed entity."""

    entity_id: str
    differing: int
    """Sentences that differ, of as many as the smaller `k` has room for."""
    both: int
    """Sentences that both summaries have."""
    only_a: list[SummarySentence]
    """In rank order."""
    only_b: list[SummarySentence]


class Choice(NamedTuple):
    """Keys of entities: the changed ones with the most sentences that differ, and some of those
    that are missing.
    """

    changed: Mapping[bytes, Verdict]
    missing_in_a: list[bytes]
    missing_in_b: list[bytes]


class Choosing:
    """Chooses while the verdicts come, in the order of keys; at most `most` of each sort."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed: list[tuple[int, bytes, Verdict]] = []
        self._missing_in_a: list[bytes] = []
        self._missing_in_b: list[bytes] = []

    def add(self, key: bytes, one: Verdict) -> None:
        """The next one."""
        if one.k_a is None:
            self._missing_in_a += [key][: self._most - len(self._missing_in_a)]
        elif one.k_b is None:
            self._missing_in_b += [key][: self._most - len(self._missing_in_b)]
        elif one.differing:
            self._changed.append((-one.differing, key, one))
            if len(self._changed) > SPARE + 2 * self._most:
                self._cut()

    def choice(self) -> Choice:
        """Of those that came."""
        self._cut()
        return Choice(
            {key: one for _, key, one in self._changed}, self._missing_in_a, self._missing_in_b
        )

    def _cut(self) -> None:
        self._changed = sorted(self._changed)[: self._most]


class Findings(NamedTuple):
    """What was chosen; entities are missing where a file was written to meanwhile."""

    changed: list[Example]
    missing_in_a: list[str]
    missing_in_b: list[str]


def look_up(choice: Choice, a: Iterable[Publication], b: Iterable[Publication]) -> Findings:
    """The chosen entities; the sources are read only where there are any."""
    of_a = _last(a, {*choice.changed, *choice.missing_in_b})
    of_b = _last(b, {*choice.changed, *choice.missing_in_a})
    return Findings(
        [
            _example(one.differing, of_a[key], of_b[key])
            for key, one in choice.changed.items()
            if key in of_a and key in of_b
        ],
        sorted(of_b[key].entity_id for key in choice.missing_in_a if key in of_b),
        sorted(of_a[key].entity_id for key in choice.missing_in_b if key in of_a),
    )


def _last(source: Iterable[Publication], keys: set[bytes]) -> dict[bytes, SummaryChanged]:
    """The last body of each of some entities."""
    found: dict[bytes, SummaryChanged] = {}
    if not keys:
        return found
    for one in source:
        key = entity_key(one.entity_id)
        if key in keys and one.body is not None:
            found[key] = one.body
    return found


def _example(differing: int, a: SummaryChanged, b: SummaryChanged) -> Example:
    of_a, of_b = ({(one.sentence_id, one.text) for one in body.sentences} for body in (a, b))
    return Example(
        a.entity_id,
        differing,
        len(of_a & of_b),
        [one for one in a.sentences if (one.sentence_id, one.text) not in of_b],
        [one for one in b.sentences if (one.sentence_id, one.text) not in of_a],
    )


Source: TypeAlias = Iterable[Publication]
"""What was published, that of one entity in its order; iterated once, and once more where examples
are wanted.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two builds, A and B, have in common. Of the entities of both each is equal, contained or
    changed.
    """

    equal: int
    """Entities with one set in both."""
    contained: int
    """Entities whose sets differ by `k` alone: the larger one has all that the smaller `k` has room
    for.
    """
    changed: int
    missing_in_a: int
    """Entities with a summary in B alone."""
    missing_in_b: int
    identical: int
    """Of the equal ones those whose bodies are equal but for epoch, sequence, previous_sequence and
    cause.
    """
    k_differs: int
    """Entities of both whose `k` in A is not that in B."""
    k_a: list[int]
    """Of A's summaries, ascending."""
    k_b: list[int]
    differing: dict[int, int]
    """Entities of both by how many of their sentences differ, ascending: 0 for those that are equal
    or contained.
    """
    examples: list[Example]
    """The changed ones with the most sentences that differ."""
    some_missing_in_a: list[str]
    """Ids of as many as there may be examples."""
    some_missing_in_b: list[str]

    @property
    def entities(self) -> int:
        """With a summary in A or B."""
        return self.equal + self.contained + self.beyond

    @property
    def beyond(self) -> int:
        """Those that are more than contained: changed, or missing in one of the two."""
        return self.changed + self.missing_in_a + self.missing_in_b


def compare(a: Source, b: Source, examples: int = 0) -> Comparison:
    """Hold two builds against each other.

    Args:
        a: one.
        b: the other.
        examples: at most so many of each sort; with 0 the sources are read once.
    """
    counts: Counter[Verdict] = Counter()
    choosing = Choosing(examples)
    with LastValues() as of_a, LastValues() as of_b:
        _read(a, of_a)
        _read(b, of_b)
        for key, one in _verdicts(of_a, of_b):
            counts[one] += 1
            choosing.add(key, one)
    return _counted(counts, look_up(choosing.choice(), a, b))


def _read(source: Source, digests: LastValues) -> None:
    """Put by entity the packed digest of its summary, b"" where it has none."""
    for one in source:
        has_summary = one.body is not None and one.body.sentences
        packed = Digest.of(one.body).pack() if one.body is not None and has_summary else b""
        digests.put(entity_key(one.entity_id), packed)


def _verdicts(a: LastValues, b: LastValues) -> Iterator[tuple[bytes, Verdict]]:
    """How the summaries of an entity compare, by entity in the order of keys; for those that have
    either.
    """
    both = merge(_of_side(0, a), _of_side(1, b))
    for key, found in groupby(both, key=itemgetter(0)):
        digests = {side: Digest.unpack(packed) for _, side, packed in found if packed}
        if digests:
            yield key, verdict(digests.get(0), digests.get(1))


def _of_side(side: int, digests: LastValues) -> Iterator[tuple[bytes, int, bytes]]:
    return ((key, side, packed) for key, packed in digests)


def _counted(counts: Counter[Verdict], found: Findings) -> Comparison:
    of_both = {one: count for one, count in counts.items() if one.is_of_both}
    differing: Counter[int] = Counter()
    for one, count in of_both.items():
        differing[one.differing] += count
    equal = sum(count for one, count in of_both.items() if one.is_equal)
    return Comparison(
        equal=equal,
        contained=differing[0] - equal,
        changed=differing.total() - differing[0],
        missing_in_a=sum(count for one, count in counts.items() if one.k_a is None),
        missing_in_b=sum(count for one, count in counts.items() if one.k_b is None),
        identical=sum(count for one, count in of_both.items() if one.is_identical),
        k_differs=sum(count for one, count in of_both.items() if one.k_a != one.k_b),
        k_a=sorted({one.k_a for one in counts if one.k_a is not None}),
        k_b=sorted({one.k_b for one in counts if one.k_b is not None}),
        differing={number: differing[number] for number in sorted(+differing)},
        examples=found.changed,
        some_missing_in_a=found.missing_in_a,
        some_missing_in_b=found.missing_in_b,
    )
