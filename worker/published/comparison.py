"""Two builds of the summaries, compared entity by entity as sets of (sentence id, text); or of the
facets, compared facet by facet of each entity, with pros and cons apart.

The last publication of an entity counts. After a tombstone, or with an empty set, the entity has no
summary, or no such facet.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from worker.events import Cause, SummaryChanged, SummarySentence
from worker.published.publication import Publication, SetName
from worker.published.sorting import LastValues

_encode: Final = msgspec.json.Encoder().encode
_NO_CAUSE: Final = Cause(type="", topic="", partition=0, offset=0, review_id=None)


class Digest(NamedTuple):
    """A summary as 64-bit hashes, valid in this process only."""

    k: int  # size of a full summary; 0 for pros and cons
    body: int
    """Hash of the body without epoch, sequence, previous_sequence and cause: equal for two runs
    that *agree*.
    """
    members: frozenset[int]  # hashes of the sentences' (id, text)

    @classmethod
    def of(cls, body: SummaryChanged) -> Digest:
        """The digest of a summary."""
        common = structs.replace(body, epoch=0, sequence=0, previous_sequence=None, cause=_NO_CAUSE)
        members = frozenset(
            hash((sentence.sentence_id, sentence.text)) for sentence in body.sentences
        )
        return cls(body.k, hash(_encode(common)), members)

    def pack(self) -> bytes:
        """The summary in bytes: 16, plus 8 per sentence."""
        return array("q", (self.k, self.body, *self.members)).tobytes()

    @classmethod
    def unpack(cls, packed: bytes) -> Digest:
        """The reverse of `pack`."""
        k, body, *members = array("q", packed)
        return cls(k, body, frozenset(members))


class Verdict(NamedTuple):
    """The comparison of an entity's two summaries."""

    k_a: int | None  # None where A has no summary
    k_b: int | None  # None where B has no summary
    differing: int = 0  # sentences that differ, out of the smaller `k`
    is_equal: bool = False  # the same set
    is_identical: bool = False  # the same body, apart from what may differ in runs that agree


def verdict(a: Digest | None, b: Digest | None) -> Verdict:
    """Compare two summaries of an entity.

    If only `k` differs, the larger summary contains the smaller one, which has `k` sentences: then
    `differing` is 0. The `k` of pros and cons is not known, and limits nothing.
    """
    if a is None or b is None:
        return Verdict(None if a is None else a.k, None if b is None else b.k)
    room = min(a.k, b.k) or max(len(a.members), len(b.members))
    most = max(min(len(a.members), room), min(len(b.members), room))
    differing = max(most - len(a.members & b.members), 0)
    return Verdict(a.k, b.k, differing, a.members == b.members, a.body == b.body)


def set_key(name: SetName) -> bytes:
    """A 16-byte hash of a set's name."""
    return blake2b(_encode(name), digest_size=16).digest()


SPARE: Final = 1000  # changed entities held beyond twice the requested number


@dataclass(frozen=True, slots=True)
class Example:
    """A changed entity or facet."""

    entity_id: str
    facet: str | None  # None for a summary
    differing: int  # see `Verdict`
    both: int  # number of sentences that both summaries have
    only_a: list[SummarySentence]  # in rank order
    only_b: list[SummarySentence]  # in rank order


class _Choice:
    """Keys of the most changed entities and of some missing ones, at most `most` of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed: list[tuple[int, bytes]] = []
        self.missing_in_a: list[bytes] = []
        self.missing_in_b: list[bytes] = []

    def add(self, key: bytes, verdict: Verdict) -> None:
        if verdict.k_a is None:
            self.missing_in_a += [key][: self._most - len(self.missing_in_a)]
        elif verdict.k_b is None:
            self.missing_in_b += [key][: self._most - len(self.missing_in_b)]
        elif verdict.differing:
            self._changed.append((-verdict.differing, key))
            if len(self._changed) > SPARE + 2 * self._most:
                self._changed = sorted(self._changed)[: self._most]

    def changed(self) -> dict[bytes, int]:
        """Counts of different sentences by key; the most changed entity first."""
        return {key: -differing for differing, key in sorted(self._changed)[: self._most]}


Source: TypeAlias = Iterable[Publication]
"""Publications, those of one entity in their order. It is iterated twice if examples are asked for.
"""


class _Last(NamedTuple):
    name: SetName
    sentences: list[SummarySentence]


def _last(source: Source, keys: set[bytes]) -> dict[bytes, _Last]:
    """The last sets with these keys. Without keys the source is not read."""
    found: dict[bytes, _Last] = {}
    for publication in source if keys else ():
        key = set_key(publication.name)
        if key in keys and publication.body is not None:
            found[key] = _Last(publication.name, publication.body.sentences)
    return found


def _example(differing: int, a: _Last, b: _Last) -> Example:
    of_a, of_b = (
        {(sentence.sentence_id, sentence.text) for sentence in last.sentences} for last in (a, b)
    )
    return Example(
        *a.name,
        differing,
        len(of_a & of_b),
        [sentence for sentence in a.sentences if (sentence.sentence_id, sentence.text) not in of_b],
        [sentence for sentence in b.sentences if (sentence.sentence_id, sentence.text) not in of_a],
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two builds, A and B, compared. An entity that both have is equal, contained or changed. Of
    facets each facet of an entity counts like an entity, and so do its pros and its cons.
    """

    equal: int  # entities with the same set in both
    contained: int  # entities whose sets differ only because `k` does
    changed: int  # all other entities that both have
    missing_in_a: int  # entities with a summary only in B
    missing_in_b: int  # entities with a summary only in A
    identical: int
    """The equal ones whose bodies agree in all but epoch, sequence, previous_sequence and cause."""
    k_differs: int  # entities of both whose `k` differs
    k_a: list[int]  # values of `k` in A, ascending
    k_b: list[int]  # values of `k` in B, ascending
    differing: dict[int, int]  # entities of both by the number of sentences that differ, ascending
    examples: list[Example]  # the most changed entities
    some_missing_in_a: list[SetName]  # at most as many as examples were asked for
    some_missing_in_b: list[SetName]  # at most as many as examples were asked for

    @property
    def entities(self) -> int:
        """Entities with a summary in A or B."""
        return self.equal + self.contained + self.beyond

    @property
    def beyond(self) -> int:
        """Entities that are neither equal nor contained."""
        return self.changed + self.missing_in_a + self.missing_in_b


def compare(a: Source, b: Source, examples: int = 0) -> Comparison:
    """Compare two builds, with at most `examples` changed entities and ids of missing ones."""
    counts: Counter[Verdict] = Counter()
    choice = _Choice(examples)
    with LastValues() as of_a, LastValues() as of_b:
        _read(a, of_a)
        _read(b, of_b)
        for key, value in _verdicts(of_a, of_b):
            counts[value] += 1
            choice.add(key, value)
    changed = choice.changed()
    last_a = _last(a, {*changed, *choice.missing_in_b})
    last_b = _last(b, {*changed, *choice.missing_in_a})
    of_both = {
        verdict: count
        for verdict, count in counts.items()
        if None not in (verdict.k_a, verdict.k_b)
    }
    differing: Counter[int] = Counter()
    for verdict, count in of_both.items():
        differing[verdict.differing] += count
    equal = sum(count for verdict, count in of_both.items() if verdict.is_equal)
    # An entity may be absent from the second reading of a file that is being written.
    return Comparison(
        equal=equal,
        contained=differing[0] - equal,
        changed=differing.total() - differing[0],
        missing_in_a=sum(count for verdict, count in counts.items() if verdict.k_a is None),
        missing_in_b=sum(count for verdict, count in counts.items() if verdict.k_b is None),
        identical=sum(count for verdict, count in of_both.items() if verdict.is_identical),
        k_differs=sum(count for verdict, count in of_both.items() if verdict.k_a != verdict.k_b),
        k_a=sorted({verdict.k_a for verdict in counts if verdict.k_a}),
        k_b=sorted({verdict.k_b for verdict in counts if verdict.k_b}),
        differing={number: differing[number] for number in sorted(+differing)},
        examples=[
            _example(number, last_a[key], last_b[key])
            for key, number in changed.items()
            if key in last_a and key in last_b
        ],
        some_missing_in_a=sorted(last_b[key].name for key in choice.missing_in_a if key in last_b),
        some_missing_in_b=sorted(last_a[key].name for key in choice.missing_in_b if key in last_a),
    )


def _read(source: Source, digests: LastValues) -> None:
    """Store the packed digest of each set, b"" where it is empty."""
    facets: set[str | None] = {None}
    for publication in source:
        facets.add(publication.facet)
        body = publication.body
        if body is None:  # the end of the summary, or of all facets
            for facet in facets:
                digests.put(set_key(SetName(publication.entity_id, facet)), b"")
        else:
            packed = Digest.of(body).pack() if body.sentences else b""
            digests.put(set_key(publication.name), packed)


def _verdicts(a: LastValues, b: LastValues) -> Iterator[tuple[bytes, Verdict]]:
    """Verdicts by entity key, in key order, of the entities that have a summary in A or B."""
    of_a = ((key, 0, packed) for key, packed in a)
    both = merge(of_a, ((key, 1, packed) for key, packed in b))
    for key, found in groupby(both, key=itemgetter(0)):
        digests = {side: Digest.unpack(packed) for _, side, packed in found if packed}
        if digests:
            yield key, verdict(digests.get(0), digests.get(1))
