"""Recomputes every entity of a data directory by brute force, the worker running or not: `verify`.

The rows of a partition that its worker owns are consistent at every commit. Rows that are read from
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

LOOKS = 20
LOOK_SECONDS = 0.5


class Verification(NamedTuple):
    """The result for an entity; `entity` is None if the partition's rows cannot be read on."""

    partition: int
    entity: EntityCheck | None
    problems: tuple[str, ...]


def verify_data_dir(
    data_dir: Path,
    on_partition: Callable[[StoredPartition, Path], None] = lambda *_: None,
    min_changes: int = 1,
) -> Iterator[Verification]:
    """One result for each entity; a row or file that cannot be read ends its partition.

    `on_partition` is called with each partition that has rows, and its database, before its
    results; a partial copy has none. What was published may be behind by fewer than `min_changes`
    sentences. Raises SetupError if there is no state.
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
                    min_changes=min_changes,
                ):
                    yield Verification(number, check, check.problems)
        except StateError as error:
            yield Verification(number, None, (str(error),))


@contextmanager
def _whole_partition(number: int, path: Path) -> Iterator[StoredPartition | None]:
    """The first snapshot that is not partial, the last one if a running worker shows none."""
    for look in range(1, LOOKS + 1):
        with stored_partition(number, path) as part:
            is_last = look == LOOKS or not is_running(path.parents[2])
            if part is None or not part.is_partial or is_last:
                yield part
                return
        time.sleep(LOOK_SECONDS)
