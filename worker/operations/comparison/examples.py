"""Some of the entities that are not the same, found again with all their sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from worker.events import SummaryChanged, SummarySentence
from worker.operations.comparison.digests import Verdict, entity_key
from worker.operations.published import Publication

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
    """Keys of entities: the changed ones with the most sentences that differ, and some of those that are missing."""

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
        return Choice({key: one for _, key, one in self._changed}, self._missing_in_a, self._missing_in_b)

    def _cut(self) -> None:
        self._changed = sorted(self._changed)[: self._most]


class Found(NamedTuple):
    """What was chosen; entities are missing where a file was written to meanwhile."""

    changed: list[Example]
    missing_in_a: list[str]
    missing_in_b: list[str]


def look_up(choice: Choice, a: Iterable[Publication], b: Iterable[Publication]) -> Found:
    """The chosen entities; the sources are read only where there are any."""
    of_a = _last(a, {*choice.changed, *choice.missing_in_b})
    of_b = _last(b, {*choice.changed, *choice.missing_in_a})
    return Found(
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
