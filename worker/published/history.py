"""How an entity's summary came about: its published changes, each with the summary before it."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import structs

from worker.events import SummaryChanged, SummarySentence
from worker.events.messages import timestamp
from worker.published.published import Publication


class HistoryStep(NamedTuple):
    """A publication and the summary before it.

    Attributes:
        publication: the change.
        before: None where there was no summary or it is unknown.
        incomplete: changes between `before` and this one are missing. Compaction is certain to keep
            only the last change of an entity.
    """

    publication: Publication
    before: SummaryChanged | None
    incomplete: bool

    @property
    def sentences(self) -> list[SummarySentence]:
        """The summary after the change."""
        body = self.publication.body
        return [] if body is None else body.sentences

    @property
    def known_before(self) -> list[SummarySentence]:
        """The summary right before the change; empty where it is unknown."""
        return self.before.sentences if self.before is not None and not self.incomplete else []


def steps(publications: Iterable[Publication]) -> Iterator[HistoryStep]:
    """The publications of one entity with their predecessors in the same partition."""
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
    """The last `limit` steps, the newest last. None: all, lazily."""
    return steps(publications) if limit is None else deque(steps(publications), maxlen=limit)


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """A history step as `history --json` and the page show it.

    Attributes:
        published_at: time of the message; None in a file.
        tombstone: the entity was deleted; the fields of a summary are then None.
        incomplete: changes before this one are missing.
        added_texts: by sentence id.
        removed_texts: by sentence id, from the summary before; None where it is unknown.
        sentences: their number in the summary.
    """

    partition: int
    offset: int
    published_at: str | None
    tombstone: bool
    epoch: int | None
    sequence: int | None
    previous_sequence: int | None
    incomplete: bool
    occurred_at: str | None
    cause: dict[str, Any] | None
    added: list[str]
    removed: list[str]
    added_texts: dict[str, str]
    removed_texts: dict[str, str | None]
    sentences: int
    sentence_count: int | None
    review_count: int | None

    @classmethod
    def of(cls, step: HistoryStep) -> "PublishedChange":
        """The change of a step."""
        found, body = step.publication, step.publication.body
        texts = {one.sentence_id: one.text for one in step.sentences}
        texts_before = {one.sentence_id: one.text for one in step.known_before}
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
