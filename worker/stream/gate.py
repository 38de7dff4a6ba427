"""The gate: the only way into a partition's database, for commits, restores and standbys.

It writes rows and their changelog offset in one atomic batch, if the stored offset is the expected
predecessor and the partition is still held in that role under that assignment. The id of the
changelog is stored beside the offset: an offset means nothing in another topic of the same name.

Rows read from the changelog may end amid a transaction. Such a copy is marked partial until its
reader has reached the log's end, so that nobody takes it for the partition's state.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from worker.errors import Crash
from worker.kafka.changelog import LogBounds
from worker.kafka.topic_ids import TopicIds
from worker.state import Changes
from worker.storage.databases import PartitionDatabases
from worker.storage.snapshot import PARTIAL_KEY
from worker.stream.assignment import Assignment, Role
from worker.stream.surroundings import Threads

log = logging.getLogger(__name__)

OFFSET_KEY = b"__faust\0offset__"  # Faust's own key for the changelog offset; it is in no changelog
CHANGELOG_ID_KEY = b"__faust\0changelog_id__"


@dataclass(eq=False)
class Gate:
    """Writes rows of partitions that are held in the right role."""

    changelog: str  # the changelog's topic
    assignment: Assignment  # what the worker holds
    databases: PartitionDatabases  # of its partitions
    topic_ids: TopicIds  # which topic the changelog's name stands for
    threads: Threads  # where its locks come from
    _locks: dict[int, AbstractContextManager[Any]] = field(default_factory=dict, init=False)

    def stored_offset(self, partition: int) -> int:
        """The changelog offset of the last stored row; -1 if there is none."""
        stored = self.databases.rows(partition).get(OFFSET_KEY)
        return -1 if stored is None else int(stored)

    def write(self, epoch: int, partition: int, changes: Changes, last_offset: int) -> None:
        """Store the rows of a transaction that was committed under this epoch."""
        self.apply(Role.ACTIVE, epoch, partition, changes, last_offset, after=None)

    def apply(
        self,
        role: Role,
        epoch: int,
        partition: int,
        changes: Changes,
        last_offset: int,
        after: int | None,
    ) -> None:
        """Store rows, and the changelog offset `last_offset` of the last of them.

        `after` is the changelog offset of the first of them, if the writer reads the changelog.
        Raises Crash if the partition is not held under this epoch in this role, the database would
        go back, or its disk is full, and DamagedDatabase.
        """
        with self._held(role, epoch, partition):
            stored = self.stored_offset(partition)
            if stored >= last_offset or (after is not None and stored >= after):
                raise Crash(
                    f"partition {partition}: changelog offset {stored} is stored, "
                    f"{last_offset} would go back"
                )
            batch = {**changes, OFFSET_KEY: str(last_offset).encode()}
            if after is not None:
                batch[PARTIAL_KEY] = b"1"
            elif self._is_partial(partition):
                batch[PARTIAL_KEY] = None
            if known := self.topic_ids.known(self.changelog):
                batch[CHANGELOG_ID_KEY] = known.encode()
            self.databases.write(partition, batch)

    def mark_whole(self, role: Role, epoch: int, partition: int) -> None:
        """Note that the rows end with a transaction of the changelog. Raises as `apply` does."""
        with self._held(role, epoch, partition):
            if self._is_partial(partition):
                self.databases.write(partition, {PARTIAL_KEY: None})

    def discard(self, role: Role, epoch: int, partition: int) -> None:
        """Remove the local copy, which the next reader builds again. Raises as `apply` does."""
        with self._held(role, epoch, partition):
            self.databases.wipe(partition)

    @contextmanager
    def _held(self, role: Role, epoch: int, partition: int) -> Iterator[None]:
        """Alone, and while the partition is held in this role."""
        with self._locks.setdefault(partition, self.threads.lock()):
            if self.assignment.roles.get(partition) != role or epoch != self.assignment.epoch:
                raise Crash(f"partition {partition} is no longer {role} here")
            yield

    def _is_partial(self, partition: int) -> bool:
        return self.databases.rows(partition).get(PARTIAL_KEY) is not None

    def restore_start(self, partition: int, bounds: LogBounds) -> int:
        """The offset from which to read the changelog: after the stored one, or its start if the
        local rows do not belong to the changelog with these bounds; then they are removed.
        """
        stored = self.stored_offset(partition)
        if stored < 0:
            return bounds.start
        # Rows before `start` are gone; tombstones before the horizon may be compacted away already.
        belongs = max(bounds.start, min(bounds.horizon, bounds.end)) <= stored + 1 <= bounds.end
        if not belongs or not self._is_of_this_changelog(partition):
            log.warning(
                "partition %d: local state at changelog offset %d does not belong to the log "
                "of now, [%d, %d): rebuilding it",
                partition,
                stored,
                bounds.start,
                bounds.end,
            )
            self.databases.wipe(partition)
            return bounds.start
        return stored + 1

    def _is_of_this_changelog(self, partition: int) -> bool:
        """True if the local rows are from the present changelog; True if an id is unknown."""
        stored = self.databases.rows(partition).get(CHANGELOG_ID_KEY)
        known = self.topic_ids.known(self.changelog)
        return not (stored and known) or stored == known.encode()
