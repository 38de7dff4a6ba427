"""The held partitions: the state of their rows, read once and then updated by micro-batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from worker.events import Record
from worker.events.publishing import TOPICS, OutputTopic
from worker.facets.membership import FacetCriteria
from worker.processing.config import ProcessorConfig
from worker.state import Changes, Rows, check_fingerprint, read_applied
from worker.state.overlay import Overlay
from worker.state.partition import read_criteria, read_min_changes, read_output
from worker.state.rows import UNRECORDED, Output


@dataclass(slots=True)
class Partition:
    """One partition as of the last processed micro-batch."""

    rows: Overlay  # committed rows under those that are not committed yet
    next_offset: int | None  # everything below is in the rows; None for empty ones
    topic_id: str  # of the input topic that the rows are made from, or empty
    outputs: dict[OutputTopic, Output | None]  # where summaries and facets are published, if known
    has_fingerprint: bool
    criteria: FacetCriteria | None  # of facets, as the rows have them, or as configured
    min_changes: int  # the highest that the rows record
    review_format: int  # the newest of its reviews so far
    new_outputs: set[OutputTopic] = field(default_factory=set)  # those that the rows do not contain
    has_garbage: bool = True  # until the rows are searched
    begun: object | None = None  # see `Partitions.begun`
    finished: bytes | None = None
    """The last entity of the previous chunk of `Processor.finish`; None before and after them."""


class Partitions:
    """The partitions by number."""

    def __init__(self, rows: Callable[[int], Rows], config: ProcessorConfig) -> None:
        """`rows` gives the committed rows of a partition."""
        self._rows = rows
        self._fingerprint = config.fingerprint
        self._criteria = config.facets
        self._min_changes = config.min_changes
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
        next_offset, topic_id, review_format = None, "", UNRECORDED["review"]
        if applied is not None:
            next_offset, _, topic_id, review_format = applied
        criteria = read_criteria(rows) or self._criteria
        min_changes = read_min_changes(rows)
        return Partition(
            rows,
            next_offset,
            topic_id,
            outputs,
            has_fingerprint,
            criteria,
            min_changes,
            review_format,
        )

    def begun(self, number: int) -> object | None:
        """The mark of a held partition whose rows are complete, as of a commit; from any thread."""
        partition = self._partitions.get(number)
        return None if partition is None else partition.begun

    def next_offsets(self, records: Sequence[Record]) -> dict[int, int]:
        """The next source offset by partition once these records are applied."""
        ends = {record.partition: record.offset + 1 for record in records}
        return {number: max(end, self[number].next_offset or 0) for number, end in ends.items()}

    def new(self, records: Sequence[Record]) -> list[int]:
        """The indexes of the records that are not applied yet."""
        numbers = {record.partition for record in records}
        applied = {number: self[number].next_offset or 0 for number in numbers}
        return [i for i, record in enumerate(records) if record.offset >= applied[record.partition]]

    def on_processed(self, rows: Mapping[int, Changes], next_offsets: Mapping[int, int]) -> None:
        """Lay these rows over the stored ones; they contain all records below these offsets."""
        for number, changes in rows.items():
            partition = self[number]
            partition.rows.add(changes)
            partition.next_offset = next_offsets[number]
            partition.has_fingerprint = True
            partition.min_changes = max(partition.min_changes, self._min_changes)
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
