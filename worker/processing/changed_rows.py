"""The changes of a micro-batch as rows: each changed row once, in its last state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from worker.events.publishing import FACETS, SUMMARIES, TOPICS
from worker.processing.changes import EntityChanges
from worker.processing.config import ProcessorConfig
from worker.processing.pace import Load
from worker.processing.partitions import Partitions
from worker.state import Applied
from worker.state.partition import (
    GARBAGE_ROWS,
    collect_garbage,
    put_applied,
    put_criteria,
    put_fingerprint,
    put_garbage,
    put_last_change,
    put_min_changes,
    put_output,
)
from worker.state.rows import Header
from worker.state.store import Pending

if TYPE_CHECKING:
    from worker._native import Processed


def changed_rows(
    changes: Sequence[EntityChanges],
    next_offsets: Mapping[int, int],
    partitions: Partitions,
    config: ProcessorConfig,
    load: Load,
    native: Processed | None = None,
) -> dict[int, dict[bytes, bytes | None]]:
    """Changed rows by partition, None for removed ones; rows of native code are counted already.

    Raises TooMuch, and changes nothing.
    """
    rows: dict[int, dict[bytes, bytes | None]] = {number: {} for number in next_offsets}
    for number, pending in rows.items():
        partition = partitions[number]
        if not partition.has_fingerprint:
            # The changelog's first row: a changelog that lost its beginning lacks it.
            put_fingerprint(pending, config.fingerprint)
            if partition.criteria is not None:
                put_criteria(pending, partition.criteria)
        for topic in TOPICS:
            output = partition.outputs[topic]
            if topic in partition.new_outputs and output is not None:
                put_output(pending, output, topic)
        if config.min_changes > partition.min_changes:
            put_min_changes(pending, config.min_changes)
    formats = dict.fromkeys(rows, 0)
    if native is not None:
        formats |= native.review_formats
        for number, of_entities in native.rows.items():
            rows[number].update(of_entities)
    for change in changes:
        own: dict[bytes, bytes | None] = {}
        formats[change.key.partition] = max(formats[change.key.partition], _put_entity(own, change))
        for topic in TOPICS if config.emit == "final" else ():
            if change.changed[topic] or change.end is not None:
                put_last_change(own, change.entity.rows.entity, topic, change.last.get(topic))
        size = sum(map(len, own)) + sum([len(value) for value in own.values() if value])
        load.add(len(own), size)
        rows[change.key.partition].update(own)
    ended = {change.key.partition for change in changes if change.end is not None}
    for number, next_offset in next_offsets.items():
        partition, pending = partitions[number], rows[number]
        if next_offset == partition.next_offset:
            continue
        if partition.has_garbage:
            garbage_rows = max(1, GARBAGE_ROWS // len(next_offsets))
            partition.has_garbage = collect_garbage(partition.rows, pending, garbage_rows)
        if number in ended:
            partition.has_garbage = True
        partition.review_format = max(partition.review_format, formats[number])
        applied = Applied(
            next_offset, config.input_topic, partition.topic_id, partition.review_format
        )
        put_applied(pending, applied)
    return rows


def _put_entity(pending: Pending, changes: EntityChanges) -> int:
    """Returns the newest format of its reviews."""
    entity, rows = changes.entity, changes.entity.rows
    if changes.end is not None:
        if not changes.is_new:
            pending[rows.header_key] = None
            put_garbage(pending, rows.entity, rows.incarnation)
        return 0
    header = Header(entity.review_count, entity.sentence_count, rows.incarnation, entity.ratings)
    if changes.is_new or header != changes.stored_header:
        rows.put_header(pending, header)
    summary = entity.summary
    if summary.sequence != changes.stored_sequence and (sets := summary.row()) is not None:
        rows.put_published(pending, SUMMARIES, sets)
    facets = entity.facets if changes.changed[FACETS] else None
    if facets is not None and (sets := facets.tracked.row()) is not None:
        rows.put_published(pending, FACETS, sets)
    written = [rows.put_review(pending, name, review) for name, review in changes.reviews.items()]
    return max(written, default=0)
