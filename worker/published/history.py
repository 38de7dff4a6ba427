"""The history of an entity's summary or facets: published changes, each with the set before."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from msgspec import structs

from worker.events import SummaryChanged, SummarySentence
from worker.events.messages import timestamp
from worker.published.publication import Publication, with_changes


class HistoryStep(NamedTuple):
    """A publication and the set before it, of the summary or of the same facet."""

    publication: Publication  # the change
    before: SummaryChanged | None  # None where there was no set or it is unknown
    incomplete: bool
    """Changes between `before` and this one are missing. Compaction is certain to keep only the
    last change of an entity. What came to a facet and left it is then since `before`.
    """

    @property
    def sentences(self) -> list[SummarySentence]:
        """The set after the change."""
        body = self.publication.body
        return [] if body is None else body.sentences

    @property
    def known_before(self) -> list[SummarySentence]:
        """The set that `added` and `removed` are since; empty where it is unknown."""
        if self.before is None or (self.incomplete and self.publication.facet is None):
            return []
        return self.before.sentences


def steps(publications: Iterable[Publication]) -> Iterator[HistoryStep]:
    """An entity's publications with their predecessors in the partition; only real changes."""
    before: dict[str | None, SummaryChanged] = {}
    partition: int | None = None
    for publication in publications:
        if publication.partition != partition:
            before, partition = {}, publication.partition
        facet, body = publication.facet, publication.body
        last = before.get(facet)
        if body is None:
            yield HistoryStep(publication, last, False)
            before.clear()
            continue
        previous = body.previous_sequence
        incomplete = previous is not None and (last is None or previous != last.sequence)
        if facet is not None:
            body = with_changes(body, None if last is None else last.sentences)
            publication = publication._replace(body=body)
        # several languages of a facet have one name in the list of changed ones
        is_first = publication.is_changed and (facet is None or last is None or incomplete)
        if is_first or body.added or body.removed:
            yield HistoryStep(publication, last, incomplete)
        before[facet] = body


def last_steps(publications: Iterable[Publication], limit: int | None) -> Iterable[HistoryStep]:
    """The last `limit` steps, the newest last. None: all, lazily."""
    return steps(publications) if limit is None else deque(steps(publications), maxlen=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedChange:
    """A history step as `history --json` and the page show it."""

    partition: int
    offset: int
    published_at: str | None  # time of the message; None in a file
    facet: str | None  # None for a summary and for a tombstone
    tombstone: bool = False  # the entity was deleted; the fields of a summary are then None
    epoch: int | None = None
    sequence: int | None = None
    previous_sequence: int | None = None
    incomplete: bool = False  # changes before this one are missing
    occurred_at: str | None = None
    cause: dict[str, Any] | None = None
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    added_texts: dict[str, str] = field(default_factory=dict)  # by sentence id
    removed_texts: dict[str, str | None] = field(default_factory=dict)
    """By sentence id, from the set before; None where it is unknown."""
    sentences: int = 0  # their number in the set
    sentence_count: int | None = None
    review_count: int | None = None
    mention_count: int | None = None  # of a facet with words

    @classmethod
    def of(cls, step: HistoryStep) -> "PublishedChange":
        """The change of a step."""
        found, body = step.publication, step.publication.body
        place = cls(
            partition=found.partition,
            offset=found.offset,
            published_at=timestamp(found.published_ms),
            facet=found.facet,
            tombstone=body is None,
            incomplete=step.incomplete,
        )
        if body is None:
            return place
        texts = {sentence.sentence_id: sentence.text for sentence in body.sentences}
        texts_before = {sentence.sentence_id: sentence.text for sentence in step.known_before}
        return replace(
            place,
            epoch=body.epoch,
            sequence=body.sequence,
            previous_sequence=body.previous_sequence,
            occurred_at=body.occurred_at,
            cause=structs.asdict(body.cause),
            added=body.added,
            removed=body.removed,
            added_texts={
                sentence_id: texts[sentence_id]
                for sentence_id in body.added
                if sentence_id in texts
            },
            removed_texts={
                sentence_id: texts_before.get(sentence_id) for sentence_id in body.removed
            },
            sentences=len(texts),
            sentence_count=body.sentence_count,
            review_count=body.review_count,
            mention_count=found.mentions,
        )
