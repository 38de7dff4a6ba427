"""What goes from the consumer through Faust to the delivery."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.events import Record
from worker.stream.assignment import Tenure
from worker.stream.tracing import NO_CONTEXTS, Contexts


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One fetch over all partitions: the unit that is processed and committed.

    `starts` and `ends` are, per partition, the cursor before the first record and after the last: a gap between them is proven.
    `tenure` is the one under which it was fetched. `finished` are partitions of a bounded run that were read to their end.
    `contexts` are what its records brought of traces, where somebody traces.
    """

    records: tuple[Record, ...]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    tenure: Tenure
    finished: frozenset[int] = frozenset()
    contexts: Contexts = field(default_factory=lambda: NO_CONTEXTS)
