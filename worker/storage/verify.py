"""Recomputes every entity of a data directory, its worker running or stopped.

The rows of a partition are consistent at each commit of its owner. Rows that a worker reads from
the changelog may end amid a transaction; such a copy is marked, and is not verified.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from worker.state import StateError, verify_partition
from worker.state.verify import EntityCheck
from worker.storage.lock import is_running
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition

SNAPSHOTS = 20
POLL_SECONDS = 0.5  # seconds between two snapshots of a partial copy


class Verification(NamedTuple):
    """The result for an entity; `entity` is None if damage ends the partition."""

    partition: int
    entity: EntityCheck | None
    problems: tuple[str, ...]


def verify_data_dir(
    data_dir: Path,
    on_partition: Callable[[StoredPartition, Path], None] = lambda *_: None,
    min_changes: int = 1,
) -> Iterator[Verification]:
    """The result of each entity; a damaged row or file ends its partition.

    Calls `on_partition` with each partition that has rows, and its database, before its results; a
    partial copy has none. A published summary may differ by fewer than `min_changes` sentences.
    Raises SetupError if there is no state.
    """
    for number, path in some_databases(data_dir).items():
        try:
            with _whole_partition(number, path) as part:
                if part is None:
                    continue
                on_partition(part, path)
                if part.is_partial:
                    continue
                for check in verify_partition(
                    part.rows,
                    dimension=part.dimension,
                    k=part.k,
                    distinct=part.distinct,
                    by_text=part.by_text,
                    min_changes=min_changes,
                ):
                    yield Verification(number, check, check.problems)
        except StateError as error:
            yield Verification(number, None, (str(error),))


@contextmanager
def _whole_partition(number: int, path: Path) -> Iterator[StoredPartition | None]:
    """The first snapshot that is not partial; after SNAPSHOTS of a running worker, the last one."""
    for number_of_snapshots in range(1, SNAPSHOTS + 1):
        with stored_partition(number, path) as part:
            is_last = number_of_snapshots == SNAPSHOTS or not is_running(path.parents[2])
            if part is None or not part.is_partial or is_last:
                yield part
                return
        time.sleep(POLL_SECONDS)
