"""The held partitions: the state of their rows, read once and then updated by micro-batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from worker.events import Record
from worker.events.publishing import FACETS, SUMMARIES, TOPICS, OutputTopic
from worker.facets.membership import FacetCriteria
from worker.processing.changes import EntityChanges
from worker.processing.config import ProcessorConfig
from worker.processing.pace import Load
from worker.state import Applied, Changes, Fingerprint, Rows, check_fingerprint, read_applied
from worker.state.overlay import Overlay
from worker.state.partition import (
    GARBAGE_ROWS,
    collect_garbage,
    put_applied,
    put_criteria,
    put_fingerprint,
    put_garbage,
    put_last_change,
    put_output,
    read_criteria,
    read_output,
)
from worker.state.rows import Header, Output, PublishedSets
from worker.state.store import Pending


@dataclass(slots=True)
class Partition:
    """One partition as of the last processed micro-batch."""

    rows: Overlay  # committed rows under those that are not committed yet
    next_offset: int | None  # everything below is in the rows; None for empty ones
    topic_id: str  # of the input topic that the rows are made from, or empty
    outputs: dict[OutputTopic, Output | None]  # where summaries and facets are published, if known
    has_fingerprint: bool
    facets: FacetCriteria | None = None  # as the rows have them, or as configured
    new_outputs: set[OutputTopic] = field(default_factory=set)  # those that the rows do not contain
    has_garbage: bool = True  # until the rows are searched
    finished: bytes | None = None
    """The last entity of the previous chunk of `Processor.finish`; None before and after them."""


class Partitions:
    """The partitions by number."""

    def __init__(
        self,
        rows: Callable[[int], Rows],
        fingerprint: Fingerprint,
        facets: FacetCriteria | None = None,
    ) -> None:
        """`rows` gives the committed rows of a partition; `facets` are those of new ones."""
        self._rows = rows
        self._fingerprint = fingerprint
        self._facets = facets
        self._partitions: dict[int, Partition] = {}

    def __getitem__(self, number: int) -> Partition:
        """The partition. Raises FingerprintMismatch, IncompleteState, CorruptRow."""
        partition = self._partitions.get(number)
        if partition is None:
            partition = self._partitions[number] = self._look_at(Overlay(self._rows(number)))
        return partition

    def _look_at(self, rows: Overlay) -> Partition:
        has_fingerprint = check_fingerprint(rows, self._fingerprint)
        applied = read_applied(rows)
        outputs = {topic: read_output(rows, topic) for topic in TOPICS}
        facets = read_criteria(rows) or self._facets
        if applied is None:
            return Partition(rows, None, "", outputs, has_fingerprint, facets)
        return Partition(
            rows, applied.next_offset, applied.topic_id, outputs, has_fingerprint, facets
        )

    def next_offsets(self, records: Sequence[Record]) -> dict[int, int]:
        """By partition: the next source offset once these records are applied."""
        ends = {record.partition: record.offset + 1 for record in records}
        return {number: max(end, self[number].next_offset or 0) for number, end in ends.items()}

    def is_new(self, record: Record) -> bool:
        """Whether the record is not applied yet."""
        next_offset = self[record.partition].next_offset
        return next_offset is None or record.offset >= next_offset

    def on_processed(self, rows: Mapping[int, Changes], next_offsets: Mapping[int, int]) -> None:
        """Lay these rows over the stored ones; they contain all records below these offsets."""
        for number, changes in rows.items():
            partition = self[number]
            partition.rows.add(changes)
            partition.next_offset = next_offsets[number]
            partition.has_fingerprint = True
            partition.new_outputs.clear()
            partition.finished = None

    def on_stored(self, rows: Mapping[int, Changes]) -> None:
        """These rows are committed; from any thread."""
        for number, changes in rows.items():
            partition = self._partitions.get(number)
            if partition is not None:
                partition.rows.remove(changes)

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop the state of these partitions."""
        for number in numbers:
            self._partitions.pop(number, None)


class RowWriter:
    """Turns the changes of a micro-batch into rows of each partition."""

    def __init__(self, config: ProcessorConfig, partitions: Partitions) -> None:
        self._config = config
        self._partitions = partitions

    def write(
        self, changes: Sequence[EntityChanges], next_offsets: Mapping[int, int], load: Load
    ) -> dict[int, dict[bytes, bytes | None]]:
        """By partition: changed rows, None for removed ones. Raises TooMuch, with no partition
        changed.
        """
        rows: dict[int, dict[bytes, bytes | None]] = {number: {} for number in next_offsets}
        for number, pending in rows.items():
            if not self._partitions[number].has_fingerprint:
                # The changelog's first row: a changelog that lost its beginning lacks it.
                put_fingerprint(pending, self._config.fingerprint)
                if facets := self._partitions[number].facets:
                    put_criteria(pending, facets)
            for topic in TOPICS:
                output = self._partitions[number].outputs[topic]
                if topic in self._partitions[number].new_outputs and output is not None:
                    put_output(pending, output, topic)
        for one in changes:
            own: dict[bytes, bytes | None] = {}
            _put_entity(own, one)
            if self._config.emit == "final" and (
                one.kept is not None or one.set_changes or one.end is not None
            ):
                put_last_change(own, one.entity.rows.entity, SUMMARIES, one.kept)
            if self._config.emit == "final" and (one.facet_changes or one.end is not None):
                put_last_change(own, one.entity.rows.entity, FACETS, one.kept_facets)
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
    header = Header(entity.review_count, entity.sentence_count, rows.incarnation, entity.ratings)
    if changes.is_new or header != changes.stored_header:
        rows.put_header(pending, header)
    if entity.sequence is not None and entity.sequence != changes.stored_sequence:
        rows.put_published(pending, SUMMARIES, PublishedSets(entity.sequence, [entity.published]))
    facets = entity.facets if changes.facet_changes else None
    if facets is not None and facets.sequence is not None:
        sets = PublishedSets(facets.sequence, list(facets.published.values()))
        rows.put_published(pending, FACETS, sets)
    for review_id, review in changes.reviews.items():
        rows.put_review(pending, review_id, review)
