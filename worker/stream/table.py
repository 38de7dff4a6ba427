"""The table: rows in one RocksDB per partition, never ahead of the changelog, restored by itself.

Faust keeps what it is good at: it declares the changelog, assigns its partitions beside the input's, opens and closes the
databases. The three writes are ours, and all go through one gate per partition: the rows of a committed transaction, a
restore, and a standby that follows the owner. The gate writes rows and changelog offset in one atomic batch, and only if the
stored offset is the expected predecessor and the partition is still held in that role under that assignment. The id of the
changelog is stored beside the offset: an offset of one topic says nothing about another of its name.

Takeover, in this order:

1. the group's committed offsets, which waits until the predecessor's transaction is decided, and the ids of input and changelog;
2. the changelog's high watermark as an uncommitted reader sees it: everything below belongs to a decided transaction soon;
3. the restore with a committed reader until its position passes that mark;
4. the seek of the input to the offsets of step 1 (`worker.stream.consumer`), by Faust, after this returns.
"""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faust.stores.rocksdb import Store
from faust.tables.table import Table
from faust.types import TP
from rocksdict import Rdict, WriteBatch

from worker.errors import CoversummError, Crash
from worker.kafka.changelog import ChangelogReader, Changes
from worker.kafka.offsets import LogBounds, log_bounds
from worker.storage.files import check_files, explained
from worker.storage.rows import RocksRows
from worker.stream.fatal import die

log = logging.getLogger(__name__)

# Beside Faust's own key for the changelog's offset, and like it in no changelog.
CHANGELOG_ID_KEY = b"__faust\0changelog_id__"

ACTIVE, STANDBY = "active", "standby"


class PartitionStore(Store):
    """Faust's store of one database for each partition, which opens none whose files do not hold what they say."""

    def _open_for_partition(self, partition: int) -> Any:
        folder = Path(self.partition_path(partition))
        try:
            check_files(folder)
            return super()._open_for_partition(partition)
        except Exception as error:
            cause = explained(folder, error)
            if isinstance(cause, CoversummError):
                die(cause)  # Faust would try again, or only log it
            raise


class CommittedTable(Table):
    """A Faust table whose rows are committed by a Kafka transaction and restored by librdkafka."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gates: dict[int, threading.Lock] = {}
        self._roles: dict[int, str] = {}
        self._reader: ChangelogReader | None = None
        self._follower: threading.Thread | None = None
        self._takeover: asyncio.Task[None] | None = None
        self._leaving = False
        self._epoch = 0  # of assignments: a takeover that was overtaken by a rebalance writes nothing more

    def _new_store_by_url(self, url: Any) -> Store:
        return PartitionStore(
            url, self.app, self, table_name=self.name, key_type=bytes, value_type=bytes, options=self.options
        )

    # -- reading ------------------------------------------------------------------------------------------------------

    def rows(self, partition: int) -> RocksRows:
        """The committed rows of a partition held by this worker."""
        return RocksRows(self._database(partition), self.data.partition_path(partition))

    def _database(self, partition: int) -> Any:
        return self.data._db_for_partition(partition)

    def _stored_offset(self, partition: int) -> int:
        stored = self.rows(partition).get(self.data.offset_key)
        return -1 if stored is None else int(stored)

    def _is_of_this_changelog(self, partition: int) -> bool:
        """Whether the local rows are from the changelog as it is now; also where nobody told or stored an id."""
        stored = self.rows(partition).get(CHANGELOG_ID_KEY)
        known = self.app.topic_ids.known(self.changelog_topic_name)
        return not (stored and known) or stored == known.encode()

    # -- the gate -----------------------------------------------------------------------------------------------------

    def write(self, partition: int, changes: Mapping[bytes, bytes | None], last_offset: int) -> None:
        """Apply the rows of a committed transaction (step 4 of the commit protocol)."""
        self._apply(ACTIVE, self._epoch, partition, changes, last_offset, after=None)

    def _apply(
        self,
        role: str,
        epoch: int,
        partition: int,
        changes: Mapping[bytes, bytes | None],
        last_offset: int,
        after: int | None,
    ) -> None:
        with self._gates.setdefault(partition, threading.Lock()):
            if self._roles.get(partition) != role or epoch != self._epoch:
                raise Crash(f"partition {partition} is no longer {role} here")
            stored = self._stored_offset(partition)
            if stored >= last_offset or (after is not None and stored >= after):
                raise Crash(
                    f"partition {partition}: changelog offset {stored} is stored, {last_offset} would go back"
                )
            batch = WriteBatch(raw_mode=True)
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            batch.put(self.data.offset_key, str(last_offset).encode())
            if known := self.app.topic_ids.known(self.changelog_topic_name):
                batch.put(CHANGELOG_ID_KEY, known.encode())
            try:
                self._database(partition).write(batch)
            except Exception as error:
                raise explained(self.data.partition_path(partition), error) from error

    # -- assignment ---------------------------------------------------------------------------------------------------

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Let go of everything before Faust closes and opens databases."""
        try:
            await self._let_go()
        except Exception as cause:
            die(cause)
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)

    async def on_stop(self) -> None:
        """Let go of everything, then stop."""
        await self._let_go()
        await super().on_stop()

    async def _let_go(self) -> None:
        self._leaving = True  # a reader that a takeover opens from here on stops before its first row
        if self._reader is not None:
            self._reader.stop()
        if self._takeover is not None:
            await asyncio.wait({self._takeover})
            self._takeover = None
        if self._follower is not None:
            await asyncio.to_thread(self._follower.join)
        self._reader = self._follower = None
        self._leaving = False
        self._epoch += 1
        self._roles.clear()
        await self.app.delivery.let_go()

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Take over (Faust awaits this before it resumes the input, and swallows what it raises: so nothing may)."""
        self._takeover = asyncio.ensure_future(
            self._take_over({tp.partition for tp in active_tps}, {tp.partition for tp in standby_tps})
        )
        await asyncio.wait({self._takeover})
        await super().on_recovery_completed(active_tps, standby_tps)

    async def _take_over(self, actives: set[int], standbys: set[int]) -> None:
        epoch = self._epoch
        try:
            starts = await self.app.consumer.fetch_starts()
            await asyncio.to_thread(self.app.topic_ids.read)
            if starts.keys() != actives:
                return  # the next assignment is there already, and its own takeover follows
            standbys -= actives
            self._roles.update(dict.fromkeys(standbys, STANDBY) | dict.fromkeys(actives, ACTIVE))
            complete = await asyncio.to_thread(self._restore, epoch, sorted(actives))
            if not complete:
                return  # overtaken by a rebalance
            await self.app.delivery.take_over(starts)
            if standbys and epoch == self._epoch:
                self._follow(epoch, sorted(standbys))
        except BaseException as cause:
            die(cause)

    # -- restoring and following --------------------------------------------------------------------------------------

    def _restore(self, epoch: int, partitions: list[int]) -> bool:
        started = time.monotonic()
        if not partitions:
            return True
        log_bounds = self._log_bounds(partitions)
        starts = {p: self._start(p, *log_bounds[p]) for p in partitions}
        goals = {p: log_bounds[p][1] for p in partitions}
        reader = self._open_reader(ACTIVE, epoch, starts)
        rows = reader.restore(goals, self.app.on_restore_progress)
        seconds = time.monotonic() - started
        log.info("restored %d rows of %d partitions in %.2f s", rows, len(partitions), seconds)
        return epoch == self._epoch and self._reader is reader and not reader.stopped

    def _follow(self, epoch: int, partitions: list[int]) -> None:
        bounds = self._log_bounds(partitions)
        reader = self._open_reader(STANDBY, epoch, {p: self._start(p, *bounds[p]) for p in partitions})

        def run() -> None:
            try:
                reader.follow()
            except BaseException as cause:
                die(cause)

        self._follower = threading.Thread(target=run, name="standby", daemon=True)
        self._follower.start()

    def _open_reader(self, role: str, epoch: int, starts: Mapping[int, int]) -> ChangelogReader:
        def apply(partition: int, first: int, changes: Changes, last: int) -> None:
            self._apply(role, epoch, partition, changes, last, after=first)

        self._reader = reader = ChangelogReader(
            self.app.clients, self.changelog_topic_name, starts, apply, clock=time
        )
        if self._leaving:
            reader.stop()
        return reader

    def _log_bounds(self, partitions: list[int]) -> dict[int, LogBounds]:
        topic = self.changelog_topic_name
        life_ms = self.app.topic_ids.tombstone_life_ms(topic)
        return log_bounds(self.app.clients, topic, partitions, life_ms, clock=time)

    def _start(self, partition: int, low: int, high: int, horizon: int) -> int:
        """Where to read on: after the stored offset, or from the log's start where the local rows cannot be trusted."""
        stored = self._stored_offset(partition)
        if stored < 0:
            return low
        # Rows before `low` are gone; tombstones before the horizon may be compacted away already.
        belongs = max(low, min(horizon, high)) <= stored + 1 <= high
        if not belongs or not self._is_of_this_changelog(partition):
            log.warning(
                "partition %d: local state at changelog offset %d does not belong to the log [%d, %d) of now: rebuilding it",
                partition,
                stored,
                low,
                high,
            )
            self._wipe(partition)
            return low
        return stored + 1

    def _wipe(self, partition: int) -> None:
        path = Path(self.data.partition_path(partition))
        self.data._dbs.pop(partition, None)
        gc.collect()  # the database closes with its last reference
        Rdict.destroy(str(path))

    # -- what Faust may not do here -----------------------------------------------------------------------------------

    def apply_changelog_batch(self, batch: Any) -> None:
        """Faust reads no changelog here; if it ever did, its rows would not be committed ones."""
        if batch:
            die(Crash("Faust delivered changelog rows although the table restores itself"))
