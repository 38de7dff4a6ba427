"""Every entity of a data directory recomputed by brute force, the worker running or not: `verify`.

The rows of a partition that its worker owns are consistent at every commit. Those of a standby, or
of a partition that is just being restored, are not: they follow the changelog, and may stand
between two rows of one transaction. So where a worker is running, an entity that differs is looked
at again, in later views, before it counts.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from worker.state import StateError, verify_partition
from worker.state.keys import ENTITY, header_key
from worker.state.verify import EntityCheck
from worker.storage.lock import is_running
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition

LOOKS_AGAIN = 20
LOOK_SECONDS = 0.5


class Verification(NamedTuple):
    """What came of one entity, or of a partition whose rows cannot be read on: then without one."""

    partition: int
    entity: EntityCheck | None
    problems: tuple[str, ...]


def verify_data_dir(
    data_dir: Path,
    on_partition: Callable[[StoredPartition, Path], None] = lambda *_: None,
    min_changes: int = 1,
) -> Iterator[Verification]:
    """One result for each entity, partition after partition; a row or file that cannot be read ends
    its partition.

    `on_partition` is called with each partition that has rows, and its database, before its
    results. What was published may be behind by fewer than `min_changes` sentences. Raises
    SetupError where there is no state.
    """
    for number, path in some_databases(data_dir).items():
        doubtful = []
        try:
            with stored_partition(number, path) as part:
                if part is not None:
                    on_partition(part, path)
                for check in () if part is None else _checks(part, min_changes):
                    if check.problems and is_running(data_dir):
                        doubtful.append(check)
                    else:
                        yield Verification(number, check, check.problems)
        except StateError as error:
            yield Verification(number, None, (str(error),))
        for check in doubtful:
            yield _look_again(number, path, check, min_changes)


def _checks(
    part: StoredPartition, min_changes: int, prefix: bytes = ENTITY
) -> Iterator[EntityCheck]:
    return verify_partition(
        part.rows,
        dimension=part.dimension,
        k=part.k,
        distinct=part.distinct,
        prefix=prefix,
        min_changes=min_changes,
    )


def _look_again(number: int, path: Path, check: EntityCheck, min_changes: int) -> Verification:
    """The first view in which the entity is right, or is gone; else the last one."""
    for _ in range(LOOKS_AGAIN):
        time.sleep(LOOK_SECONDS)
        try:
            with stored_partition(number, path) as part:
                if part is None:
                    continue
                alone = _checks(part, min_changes, header_key(check.entity_id.encode()))
                check = next(alone, EntityCheck(check.entity_id, 0, 0, ()))
        except StateError as error:
            return Verification(number, check, (str(error),))
        if not check.problems:
            break
    return Verification(number, check, check.problems)
