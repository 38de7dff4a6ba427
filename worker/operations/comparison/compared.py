"""All entities of two builds, compared in memory that does not grow with their texts.

Of the first build digests are kept, of the second only how each entity compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from worker.operations.comparison.digests import Digest, Verdict, entity_key, verdict
from worker.operations.comparison.examples import Choice, Example, Found, look_up
from worker.operations.published import Publication

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
    verdicts = _verdicts(_digests(a), b)
    choice = Choice.of(verdicts, examples)
    return _counted(Counter(verdicts.values()), look_up(choice, a, b))


def _digests(source: Source) -> dict[bytes, bytes]:
    """By entity the packed digest of its summary."""
    digests: dict[bytes, bytes] = {}
    for one in source:
        key = entity_key(one.entity_id)
        if one.body is None or not one.body.sentences:
            digests.pop(key, None)
        else:
            digests[key] = Digest.of(one.body).pack()
    return digests


def _verdicts(digests: Mapping[bytes, bytes], source: Source) -> dict[bytes, Verdict]:
    """By entity how its summary in the source compares with the digest; for those that have either."""
    verdicts: dict[bytes, Verdict] = {}
    one_of_each: dict[Verdict, Verdict] = {}
    for one in source:
        key = entity_key(one.entity_id)
        if one.body is None or not one.body.sentences:
            verdicts.pop(key, None)
            continue
        packed = digests.get(key)
        found = verdict(None if packed is None else Digest.unpack(packed), Digest.of(one.body))
        verdicts[key] = one_of_each.setdefault(found, found)
    for key, packed in digests.items():
        if key not in verdicts:
            found = verdict(Digest.unpack(packed), None)
            verdicts[key] = one_of_each.setdefault(found, found)
    return verdicts


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
