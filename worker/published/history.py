"""How an entity's summary came about: its changes one by one, as far as a topic or a file still has
them.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import structs

from worker.events import SummaryChanged, SummarySentence
from worker.events.messages import timestamp
from worker.published.published import Publication


class HistoryStep(NamedTuple):
    """A publication, and the summary before it."""

    publication: Publication
    before: SummaryChanged | None
    """None where there was none, or where it is not known."""
    incomplete: bool
    """Changes between `before` and this one are not known: compaction keeps the last of an entity
    for certain, no other.
    """

    @property
    def sentences(self) -> list[SummarySentence]:
        """Of the summary after it."""
        body = self.publication.body
        return [] if body is None else body.sentences


def steps(publications: Iterable[Publication]) -> Iterator[HistoryStep]:
    """The publications of one entity, each with the one before it; what another partition has is
    another story.
    """
    before: SummaryChanged | None = None
    partition: int | None = None
    for publication in publications:
        if publication.partition != partition:
            before, partition = None, publication.partition
        body = publication.body
        previous = None if body is None else body.previous_sequence
        incomplete = previous is not None and (before is None or previous != before.sequence)
        yield HistoryStep(publication, before, incomplete)
        before = body


def last_steps(publications: Iterable[Publication], limit: int | None) -> Iterable[HistoryStep]:
    """The last `limit` of the steps (None: all, as they are read), the newest last."""
    return steps(publications) if limit is None else deque(steps(publications), maxlen=limit)


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """One summary change, or the tombstone of the entity's deletion: then what only a summary has
    is None.
    """

    partition: int
    offset: int
    published_at: str | None
    """Time of the message; None in a file."""
    tombstone: bool
    epoch: int | None
    sequence: int | None
    previous_sequence: int | None
    incomplete: bool
    """Changes before this one are not known."""
    occurred_at: str | None
    cause: dict[str, Any] | None
    added: list[str]
    removed: list[str]
    added_texts: dict[str, str]
    """By sentence id."""
    removed_texts: dict[str, str | None]
    """By sentence id, from the summary before; None where that is not known."""
    sentences: int
    """In the summary."""
    sentence_count: int | None
    review_count: int | None

    @classmethod
    def of(cls, step: HistoryStep) -> "PublishedChange":
        """What the step changed, with the texts of what it removed by the summary before it."""
        found, body = step.publication, step.publication.body
        texts = {one.sentence_id: one.text for one in step.sentences}
        known = step.before.sentences if step.before is not None and not step.incomplete else []
        texts_before = {one.sentence_id: one.text for one in known}
        added, removed = ([], []) if body is None else (body.added, body.removed)
        return cls(
            partition=found.partition,
            offset=found.offset,
            published_at=timestamp(found.published_ms),
            tombstone=body is None,
            epoch=None if body is None else body.epoch,
            sequence=None if body is None else body.sequence,
            previous_sequence=None if body is None else body.previous_sequence,
            incomplete=step.incomplete,
            occurred_at=None if body is None else body.occurred_at,
            cause=None if body is None else structs.asdict(body.cause),
            added=added,
            removed=removed,
            added_texts={one: texts[one] for one in added if one in texts},
            removed_texts={one: texts_before.get(one) for one in removed},
            sentences=len(texts),
            sentence_count=None if body is None else body.sentence_count,
            review_count=None if body is None else body.review_count,
        )
