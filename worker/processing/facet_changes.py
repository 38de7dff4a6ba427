"""Publishing facets: carries out an entity's planned moves, and makes a message for each change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from worker.events import (
    EVENT_TYPES,
    Cause,
    EntityDeleted,
    Event,
    FacetsChanged,
    LastFacets,
    Message,
    Record,
    ReviewDeleted,
    SentencesDeleted,
    facets_message,
    facets_value,
    tombstone_message,
)
from worker.events.publishing import is_due
from worker.processing.changes import EntityChanges, EntityCounts, PlannedStep
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import EntityKey, SummaryMember
from worker.processing.facets import EntityFacets, FacetCore, FacetPart
from worker.processing.outbox import Outbox, quoted, review_id_of

Texts = Callable[[Sequence[bytes]], list[SummaryMember]]


def facet_changes(
    changes: EntityChanges,
    records: Sequence[Record],
    config: ProcessorConfig,
    outbox: Outbox,
    texts: Texts,
) -> FacetPublisher | None:
    """Publishes the changes of an entity's facets; None if no facets are defined.

    `texts` gives the live sentences with these ids after the last step of the summary.
    """
    is_changed = changes.steps or changes.end is not None or changes.newest is not None
    facets = changes.entity.facets if is_changed else None
    if facets is None:
        return None
    return FacetPublisher(changes, facets, records, config, outbox, texts)


class FacetPublisher:
    """The facets of one entity during a micro-batch; see `facet_changes`."""

    def __init__(
        self,
        changes: EntityChanges,
        facets: EntityFacets,
        records: Sequence[Record],
        config: ProcessorConfig,
        outbox: Outbox,
        texts: Texts,
    ) -> None:
        self._changes = changes
        self._facets = facets
        self._records = records
        self._config = config
        self._outbox = outbox
        self._texts = texts
        self._last: tuple[PlannedStep, FacetsChanged, list[FacetPart]] | None = None
        self._deleted: set[bytes] = set()
        if any(step.moves for step in changes.steps):
            # now: the steps of the summary change the texts that the entity caches
            changes.entity.load()

    def after(self, step: PlannedStep) -> None:
        """Carry out the next step. Raises CorruptRow, TooMuch."""
        changed = bool(step.moves) and self._facets.apply(step.moves, self._texts)
        deleted = self._quoted(step.event) if self._config.is_behind else set()
        self._changes.facet_changes += bool(changed or deleted)
        self._deleted |= deleted
        if self._config.emit == "every":
            if (changed or deleted) and self._is_due(deleted):
                self._publish(step, *self._change(step))
        elif changed or deleted:
            self._last = step, *self._change(step)

    def finish(self) -> None:
        """Publish or keep the last change, if `emit` does not publish every change, and the
        entity's deletion. Raises TooMuch.
        """
        changes, config = self._changes, self._config
        if self._last is not None:
            step, body, parts = self._last
            record = self._records[step.index]
            is_empty = not any(one.now for one in self._facets.cores.values())
            if config.emit == "coalesced":
                if self._is_due(self._deleted) and not (changes.end is not None and not is_empty):
                    self._publish(step, body, parts)
            else:
                if config.emit == "final" and changes.end is None and not is_empty:
                    alone = _without_previous(body, self._facets)
                    changes.kept_facets = LastFacets(
                        record.topic,
                        record.offset,
                        record.timestamp_ms,
                        body.occurred_at,
                        facets_value(
                            alone, [part.encode(config.output) for part in parts], config.output
                        ),
                    )
                self._facets.on_published(record.offset)
        if changes.newest is not None:
            self._facets.newest = changes.newest
        if changes.end is not None:
            index, event = changes.end
            changes.facet_changes += any(self._facets.published.values())
            if config.emit in ("every", "coalesced"):
                self._publish_deletion(index, event)

    def _quoted(self, event: Event) -> set[bytes]:
        """The sentences of published sets that a deletion of reviews or sentences takes down."""
        if not isinstance(event, ReviewDeleted | SentencesDeleted):
            return set()
        return {one for sets in self._facets.published.values() for one in quoted(sets, event)}

    def _is_due(self, deleted: set[bytes]) -> bool:
        least, published = self._config.min_changes, self._facets.published
        for number, one in self._facets.cores.items():
            before = published[number]
            if before is not one.now and is_due(before, one.now, least, deleted):
                return True
        return False

    def _change(self, step: PlannedStep) -> tuple[FacetsChanged, list[FacetPart]]:
        """The facets after a step, for a message."""
        facets, record = self._facets, self._records[step.index]
        names = facets.facets.definitions.facets
        body = self._body(
            [names[number].name for number in facets.changed()],
            step.counts,
            step.event,
            record,
        )
        return body, facets.parts(self._texts)

    def _publish(self, step: PlannedStep, body: FacetsChanged, parts: list[FacetPart]) -> None:
        record = self._records[step.index]
        self._outbox.put_facets(step.index, body, parts, record)
        self._facets.on_published(record.offset)

    def _publish_deletion(self, index: int, event: EntityDeleted) -> None:
        """The last messages: all sets become empty if one was not, then a tombstone."""
        record, config, facets = self._records[index], self._config, self._facets
        if any(facets.published.values()):
            definitions = facets.facets.definitions
            changed = [
                definitions.facets[number].name
                for number, digests in facets.published.items()
                if digests
            ]
            empty = sorted(
                (FacetCore(definitions.facets[number]) for number in definitions.visible),
                key=lambda one: one.facet.name,
            )
            parts = [FacetPart(one.summary(), [], None) for one in empty]
            body = self._body(changed, EntityCounts(), event, record)
            self._outbox.put_facets(index, body, parts, record)
        tombstone = tombstone_message(
            config.facets_topic,
            record.partition,
            self._changes.entity.entity_id,
            config.epoch,
            event.occurred_at,
            record,
            of_facets=True,
        )
        self._outbox.put(index, tombstone, of_facets=True)

    def _body(
        self, changed: list[str], counts: EntityCounts, event: Event, record: Record
    ) -> FacetsChanged:
        """A change without its facets."""
        config = self._config
        return FacetsChanged(
            self._changes.entity.entity_id,
            config.epoch,
            record.offset,
            self._facets.sequence,
            changed,
            counts.reviews,
            counts.sentences,
            [],
            Cause(
                EVENT_TYPES[type(event)],
                record.topic,
                record.partition,
                record.offset,
                review_id_of(event),
            ),
            event.occurred_at,
            config.limits.model,
            ratings=counts.ratings.ratings(),
        )


def _without_previous(body: FacetsChanged, facets: EntityFacets) -> FacetsChanged:
    """The change as the only one that is published: all facets with sentences are new."""
    definitions = facets.facets.definitions.facets
    names = [definitions[number].name for number, one in facets.cores.items() if one.now]
    return structs.replace(body, previous_sequence=None, changed=names)


def last_facets_message(key: EntityKey, kept: LastFacets, config: ProcessorConfig) -> Message:
    """The message of the last change of a committed entity's facets."""
    record = Record(kept.topic, key.partition, kept.offset, kept.timestamp_ms, None, None)
    names = config.facets_topic, key.entity_id, config.epoch, kept.occurred_at
    return facets_message(*names, kept.value, record, config.output)
