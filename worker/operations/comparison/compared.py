"""All entities of two builds, compared in memory that does not grow with them.

Digests of both builds are sorted by entity, in temporary files where they are many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from worker.operations.comparison.digests import Digest, Verdict, entity_key, verdict
from worker.operations.comparison.examples import Choosing, Example, Found, look_up
from worker.operations.published import Publication
from worker.operations.sorting import LastValues

Source: TypeAlias = Iterable[Publication]
"""What was published, that of one entity in its order; iterated once, and once more where examples are wanted."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two builds, A and B, have in common. Of the entities of both each is equal, contained or changed."""

    equal: int
    """Entities with one set in both."""
    contained: int
    """Entities whose sets differ by `k` alone: the larger one has all that the smaller `k` has room for."""
    changed: int
    missing_in_a: int
    """Entities with a summary in B alone."""
    missing_in_b: int
    identical: int
    """Of the equal ones those whose bodies are equal but for epoch, sequence, previous_sequence and cause."""
    k_differs: int
    """Entities of both whose `k` in A is not that in B."""
    k_a: list[int]
    """Of A's summaries, ascending."""
    k_b: list[int]
    differing: dict[int, int]
    """Entities of both by how many of their sentences differ, ascending: 0 for those that are equal or contained."""
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
    """How the summaries of an entity compare, by entity in the order of keys; for those that have either."""
    both = merge(_of_side(0, a), _of_side(1, b))
    for key, found in groupby(both, key=itemgetter(0)):
        digests = {side: Digest.unpack(packed) for _, side, packed in found if packed}
        if digests:
            yield key, verdict(digests.get(0), digests.get(1))


def _of_side(side: int, digests: LastValues) -> Iterator[tuple[bytes, int, bytes]]:
    return ((key, side, packed) for key, packed in digests)


def _counted(counts: Counter[Verdict], found: Found) -> Comparison:
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
