"""When each sentence was in the summary."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from worker.events import SummarySentence
from worker.published.history import HistoryStep


class Life(NamedTuple):
    """A time that a sentence was in the summary, by step numbers.

    Attributes:
        last: the step with which it left; None: it is still there.
        is_start_known: it came with `first`, not with a missing step.
        is_end_known: it left with `last`, not with a missing step.
    """

    first: int
    last: int | None
    is_start_known: bool
    is_end_known: bool


@dataclass(frozen=True, slots=True)
class SentenceLife:
    """A sentence of some summary. An edited sentence is another one."""

    latest: SummarySentence
    """In the last summary that had it."""
    lives: list[Life] = field(default_factory=list)


def sentences_of(steps: Sequence[HistoryStep]) -> list[SentenceLife]:
    """All sentences of the steps: the last summary by rank, then the others, last left first."""
    found: dict[tuple[str, str], SentenceLife] = {}
    begun: dict[tuple[str, str], tuple[int, bool]] = {}
    for i, step in enumerate(steps):
        shown = {(one.sentence_id, one.text): one for one in step.sentences}
        body = step.publication.body
        added, removed = (
            (set(body.added), set(body.removed)) if body is not None else (set(), set())
        )
        for key in [key for key in begun if key not in shown]:
            first, is_start_known = begun.pop(key)
            is_end_known = not step.incomplete or key[0] in removed
            found[key].lives.append(Life(first, i, is_start_known, is_end_known))
        for key, one in shown.items():
            found[key] = SentenceLife(one, found[key].lives if key in found else [])
            begun.setdefault(key, (i, key[0] in added))
    for key, (first, is_start_known) in begun.items():
        found[key].lives.append(Life(first, None, is_start_known, True))
    return sorted(found.values(), key=_order)


def _order(sentence: SentenceLife) -> tuple[int, int, int]:
    latest = sentence.lives[-1]
    return (0, sentence.latest.rank, 0) if latest.last is None else (1, -latest.last, -latest.first)
