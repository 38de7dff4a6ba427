"""What goes from the consumer through Faust to the delivery."""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.events import Record
from worker.stream.assignment import Tenure


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One fetch over all partitions: the unit that is processed and committed.

    `starts` and `ends` are, per partition, the cursor before the first record and after the last: a gap between them is proven.
    `tenure` is the one under which it was fetched. `finished` are partitions of a bounded run that were read to their end.
    """

    records: tuple[Record, ...]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    tenure: Tenure
    finished: frozenset[int] = frozenset()
