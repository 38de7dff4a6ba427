"""The content of a published message: a summary, an entity's facets, or a deletion.

One type serves both kinds of changes. A message of facets is read as one publication of each facet,
and of its pros and cons, whose body is that of a summary: with their sentences, and the counts and
the rating of the facet. What came to a facet and
left it follows from the set before, which the message does not have: `with_changes` adds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, structs

from worker.errors import SetupError
from worker.events import FacetsChanged, Record, SummaryChanged, SummarySentence
from worker.events.codec import decode_change
from worker.events.dates import milliseconds
from worker.events.outputs import SIDES
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic


class SetName(NamedTuple):
    """Names a published set: an entity's summary, or one of its facets."""

    entity_id: str
    facet: str | None = None


class Publication(NamedTuple):
    """A published set of sentences, or the tombstone of a deleted entity."""

    entity_id: str  # the message key
    body: SummaryChanged | None
    """None for a tombstone. Of a facet `added` and `removed` are empty. `k` of pros and cons is 0,
    because messages do not have it.
    """
    partition: int  # 0 in a file
    offset: int  # in a file the number of the line, from 0
    published_ms: int  # timestamp of the message, milliseconds since 1970; -1 in a file
    facet: str | None = None
    """Its name, of one of its sides as `parking, pros`; None for a summary and for a tombstone."""
    is_changed: bool = True  # whether the message says that this set changed; it has all facets
    mentions: int | None = None  # of a facet with words: reviews that mention it

    @property
    def name(self) -> SetName:
        """The name of its set."""
        return SetName(self.entity_id, self.facet)

    @property
    def occurred_ms(self) -> int | None:
        """Time of the causing event, milliseconds since 1970; None if unknown or no time."""
        if self.body is None or self.body.occurred_at is None:
            return None
        try:
            return milliseconds(self.body.occurred_at)
        except ValueError:  # a day that does not exist, or the year 0
            return None


def publications(record: Record, *, kind: OutputTopic = SUMMARIES) -> list[Publication]:
    """A message of an output topic or that of facets, decoded. Raises SetupError for another."""
    try:
        found = decoded(record, kind=kind)
    except FAULTS as error:
        what = "summary" if kind is SUMMARIES else "facets"
        raise SetupError(
            f"the message at offset {record.offset} of {record.topic} [{record.partition}] is not "
            f"a {what} change ({error}): name an output topic, as {kind.setting} does"
        ) from error
    if found is None:
        asked, other = ("ask with --facets", FACETS)
        if kind is FACETS:
            asked, other = ("leave --facets out", SUMMARIES)
        raise SetupError(
            f"the message at offset {record.offset} of {record.topic} [{record.partition}] is of "
            f"the other type, {other.name}: {asked}, or name another "
            "topic"
        )
    return found


def decoded(record: Record, *, kind: OutputTopic) -> list[Publication] | None:
    """The publications of a message; None if it is of the other type. Raises one of FAULTS."""
    body = None if record.value is None else decode_change(record.value)
    entity_id = (record.key or b"").decode()
    if not entity_id:
        raise ValueError("it has no key")
    place = record.partition, record.offset, record.timestamp_ms
    if body is None:
        return [Publication(entity_id, None, *place)]
    if isinstance(body, FacetsChanged) != (kind is FACETS):
        return None
    if isinstance(body, SummaryChanged):
        return [Publication(entity_id, body, *place)]
    return [
        Publication(entity_id, value, *place, facet, is_changed, mentions)
        for facet, is_changed, mentions, value in _parts(body)
    ]


def _parts(body: FacetsChanged) -> Iterator[tuple[str, bool, int | None, SummaryChanged]]:
    """The facets of a message and their sides: the label of each, whether it may have changed, its
    mentions, and its summary.
    """
    for facet in body.facets:
        summary = SummaryChanged(
            entity_id=body.entity_id,
            epoch=body.epoch,
            sequence=body.sequence,
            previous_sequence=body.previous_sequence,
            sentences=facet.sentences,
            added=[],
            removed=[],
            review_count=facet.review_count,
            sentence_count=facet.sentence_count,
            k=facet.k,
            cause=body.cause,
            occurred_at=body.occurred_at,
            embedding_model=body.embedding_model,
            algorithm=body.algorithm,
            ratings=facet.ratings,
        )
        mentions = facet.mentions
        count = None if mentions is UNSET else mentions.review_count
        is_changed = facet.name in body.changed
        yield facet.label, is_changed, count, summary
        for side in SIDES:
            sentences = getattr(facet, side)
            if sentences is not UNSET:
                of_side = structs.replace(summary, sentences=sentences, k=0)
                yield f"{facet.label}, {side}", is_changed and bool(sentences), None, of_side


def with_changes(body: SummaryChanged, before: Sequence[SummarySentence] | None) -> SummaryChanged:
    """A facet's body with what came and left since `before`; nothing if that is unknown."""
    if before is None and body.previous_sequence is not None:
        return body
    old, new = before or (), body.sentences
    return structs.replace(body, added=_missing_in(old, new), removed=_missing_in(new, old))


def _missing_in(some: Sequence[SummarySentence], others: Sequence[SummarySentence]) -> list[str]:
    known = {(sentence.sentence_id, sentence.text) for sentence in some}
    return [other.sentence_id for other in others if (other.sentence_id, other.text) not in known]


FAULTS: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""Raised by `decoded` for a message that is none of the worker's."""
