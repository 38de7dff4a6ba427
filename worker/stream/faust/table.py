"""Faust's table, reduced to what this worker uses: Faust declares the changelog, assigns its
partitions beside the input's, and reports rebalances and recoveries.

`worker.stream.takeover` restores and `worker.stream.gate` writes.
"""

from typing import Any

from faust.stores.rocksdb import Store
from faust.tables.table import Table
from faust.types import TP

from worker.errors import Crash
from worker.storage.databases import PartitionDatabases
from worker.stream.faust import FAUST_LOG
from worker.stream.surroundings import Surroundings
from worker.stream.takeover import Takeover


class PartitionStore(Store):
    """Faust's store with one database per partition; the databases are the worker's own."""

    logger = FAUST_LOG

    def __init__(self, *args: Any, databases: PartitionDatabases, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._databases = databases

    def _db_for_partition(self, partition: int) -> Any:
        return self._databases.open(partition)

    async def assign_partitions(self, table: Any, tps: set[TP], generation_id: int = 0) -> None:
        """Nothing: Faust would open databases on the event loop. The takeover opens them itself."""

    def persisted_offset(self, tp: TP) -> int | None:
        """None: the takeover reads the stored offset itself."""
        return None

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """Close the databases of partitions that are not held any more."""
        self._databases.close(
            [tp.partition for tp in tps if tp.topic in table.changelog_topic.topics]
        )

    async def stop(self) -> None:
        """Close all databases."""
        self._databases.close()


class CommittedTable(Table):
    """A Faust table whose rows a Kafka transaction commits and a takeover restores."""

    logger = FAUST_LOG

    def __init__(
        self, *args: Any, takeover: Takeover, surroundings: Surroundings, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._takeover = takeover
        self._surroundings = surroundings

    def _new_store_by_url(self, url: Any) -> Store:
        return PartitionStore(
            url,
            self.app,
            self,
            table_name=self.name,
            key_type=bytes,
            value_type=bytes,
            options=self.options,
            databases=self._surroundings.databases,
        )

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Release everything before Faust closes and opens databases."""
        try:
            await self._takeover.let_go()
        except Exception as cause:
            self._surroundings.die(cause)
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)

    async def on_stop(self) -> None:
        """Release everything, then stop."""
        await self._takeover.let_go()
        await super().on_stop()

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Take over. Faust awaits this before it resumes the input, and swallows exceptions."""
        await self._takeover.run(
            {tp.partition for tp in active_tps}, {tp.partition for tp in standby_tps}
        )
        await super().on_recovery_completed(active_tps, standby_tps)

    def apply_changelog_batch(self, batch: Any) -> None:
        """End the process if there are rows: Faust reads uncommitted ones."""
        if batch:
            self._surroundings.die(
                Crash("Faust delivered changelog rows although the table restores itself")
            )
