"""The changed rows of a micro-batch: each once, in its last state."""

from collections.abc import Mapping, Sequence

from worker.processing.config import ProcessorConfig
from worker.processing.load import Load
from worker.processing.partitions import Partitions
from worker.processing.plan import EntityChanges
from worker.state import Applied
from worker.state.last_changes import put_last_change
from worker.state.partition import (
    GARBAGE_ROWS,
    collect_garbage,
    put_applied,
    put_fingerprint,
    put_garbage,
    put_output,
)
from worker.state.rows import Header, Published
from worker.state.store import Pending


class RowWriter:
    """Writes what a micro-batch changes as rows of each partition; whoever commits it brings them to the databases."""

    def __init__(self, config: ProcessorConfig, partitions: Partitions) -> None:
        self._config = config
        self._partitions = partitions

    def write(
        self, changes: Sequence[EntityChanges], next_offsets: Mapping[int, int], load: Load
    ) -> dict[int, dict[bytes, bytes | None]]:
        """By partition: changed rows, None for removed ones. Raises TooMuch, then with no partition touched."""
        rows: dict[int, dict[bytes, bytes | None]] = {number: {} for number in next_offsets}
        for number, pending in rows.items():
            if not self._partitions[number].has_fingerprint:
                # The changelog's very first row: where the changelog lost its beginning, however little, it is missing.
                put_fingerprint(pending, self._config.fingerprint)
            if not self._partitions[number].has_output and (output := self._partitions[number].output):
                put_output(pending, output)
        for one in changes:
            own: dict[bytes, bytes | None] = {}
            _put_entity(own, one)
            if self._config.emit == "final" and (
                one.kept is not None or one.set_changes or one.end is not None
            ):
                put_last_change(own, one.entity.rows.entity, one.kept)
            for key, value in own.items():
                load.add(key, value)
            rows[one.key.partition].update(own)
        ended = {one.key.partition for one in changes if one.end is not None}
        for number, next_offset in next_offsets.items():
            partition, pending = self._partitions[number], rows[number]
            if next_offset == partition.next_offset:
                continue
            if partition.has_garbage:
                garbage_rows = max(1, GARBAGE_ROWS // len(next_offsets))
                partition.has_garbage = collect_garbage(partition.rows, pending, garbage_rows)
            if number in ended:
                partition.has_garbage = True
            put_applied(pending, Applied(next_offset, self._config.input_topic, partition.topic_id))
        return rows


def _put_entity(pending: Pending, changes: EntityChanges) -> None:
    entity, rows = changes.entity, changes.entity.rows
    if changes.end is not None:
        if not changes.is_new:
            pending[rows.header_key] = None
            put_garbage(pending, rows.entity, rows.incarnation)
        return
    header = Header(entity.review_count, entity.sentence_count, rows.incarnation)
    if changes.is_new or header != changes.stored_header:
        rows.put_header(pending, header)
    if entity.sequence is not None and entity.sequence != changes.stored_sequence:
        rows.put_published(pending, Published(entity.sequence, entity.published))
    for review_id, review in changes.reviews.items():
        rows.put_review(pending, review_id, review)
