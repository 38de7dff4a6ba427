"""The held partitions: what their rows tell of them as a whole, read at the first look and kept up to date by micro-batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from worker.events import Record
from worker.state import Changes, Fingerprint, Rows, check_fingerprint, read_applied
from worker.state.overlay import Overlay
from worker.state.partition import read_output
from worker.state.rows import Output


@dataclass(slots=True)
class Partition:
    """One partition as of the last micro-batch that was processed."""

    rows: Overlay
    """Committed ones, under those that are on their way to them."""
    next_offset: int | None
    """Everything below is in the rows; None for empty ones."""
    topic_id: str
    """Of the input topic that the rows are made from; empty where that is not known."""
    output: Output | None
    """Where its summaries are published; None where that is not known."""
    has_fingerprint: bool
    has_output: bool = True
    """Whether the rows tell of this output."""
    has_garbage: bool = True  # until a look at the rows says otherwise
    finished: bytes | None = None
    """The last entity of the chunk of `Processor.finish` that was processed last; None before and after them."""


class Partitions:
    """The partitions by number."""

    def __init__(self, rows: Callable[[int], Rows], fingerprint: Fingerprint) -> None:
        """`rows` gives the committed rows of a partition."""
        self._rows = rows
        self._fingerprint = fingerprint
        self._partitions: dict[int, Partition] = {}

    def __getitem__(self, number: int) -> Partition:
        """The partition, its rows looked at if they were not yet. Raises FingerprintMismatch, IncompleteState, CorruptRow."""
        partition = self._partitions.get(number)
        if partition is None:
            partition = self._partitions[number] = self._look_at(Overlay(self._rows(number)))
        return partition

    def _look_at(self, rows: Overlay) -> Partition:
        has_fingerprint = check_fingerprint(rows, self._fingerprint)
        applied, output = read_applied(rows), read_output(rows)
        if applied is None:
            return Partition(rows, None, "", output, has_fingerprint)
        return Partition(rows, applied.next_offset, applied.topic_id, output, has_fingerprint)

    def next_offsets(self, records: Sequence[Record]) -> dict[int, int]:
        """By partition: the next source offset once these records are applied."""
        ends = {record.partition: record.offset + 1 for record in records}
        return {number: max(end, self[number].next_offset or 0) for number, end in ends.items()}

    def is_new(self, record: Record) -> bool:
        """Whether the record is not applied yet."""
        next_offset = self[record.partition].next_offset
        return next_offset is None or record.offset >= next_offset

    def on_processed(self, rows: Mapping[int, Changes], next_offsets: Mapping[int, int]) -> None:
        """All records below these offsets are in the rows, as soon as these are stored: whoever reads sees them from here on."""
        for number, changes in rows.items():
            partition = self[number]
            partition.rows.add(changes)
            partition.next_offset = next_offsets[number]
            partition.has_fingerprint = partition.has_output = True
            partition.finished = None

    def on_stored(self, rows: Mapping[int, Changes]) -> None:
        """These rows are the committed ones; from any thread."""
        for number, changes in rows.items():
            partition = self._partitions.get(number)
            if partition is not None:
                partition.rows.remove(changes)

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget what is known of these partitions."""
        for number in numbers:
            self._partitions.pop(number, None)
