"""Summaries for whoever asks a running worker: of its committed state, in threads of their own, beside the stream."""

from collections.abc import Callable
from typing import NoReturn

from worker.processing.entity_cache import EntityKey
from worker.processing.summaries import Summaries
from worker.state import SummaryView
from worker.state.keys import header_key
from worker.storage.databases import PartitionDatabases
from worker.storage.look import NotOpen
from worker.stream.surroundings import Threads


class NotHere(Exception):
    """The entity's partition is not here, or is going away at this moment."""


class _Large(Exception):
    """The entity's rows take long to read."""


class SummaryReader:
    """Reads summaries as of the last commit, whatever the stream does meanwhile.

    Two threads, so that an entity of very many sentences keeps none of the others waiting.

    Args:
        summaries: of the processor.
        databases: of its partitions.
        threads: where the two come from.
        die: ends the process where rows are damaged.
    """

    def __init__(
        self,
        summaries: Summaries,
        databases: PartitionDatabases,
        threads: Threads,
        die: Callable[[BaseException], NoReturn],
    ) -> None:
        self._summaries = summaries
        self._databases = databases
        self._quick = threads.in_order("summaries")
        self._slow = threads.in_order("large summaries")
        self._die = die

    async def read(self, partition: int, entity_id: str) -> SummaryView | None:
        """The entity's summary, None where there is no such entity. Raises NotHere."""
        key = EntityKey(partition, entity_id)
        try:
            return await self._quick.run(lambda: self._read(key, large=False))
        except _Large:
            return await self._slow.run(lambda: self._read(key, large=True))

    def _read(self, key: EntityKey, *, large: bool) -> SummaryView | None:
        """In one of the threads. Raises NotHere, and _Large for a large entity where those are not read."""
        try:
            with self._databases.look(key.partition, header_key(key.entity_id.encode())) as rows:
                if not self._summaries.has(key.partition):
                    raise NotHere  # its rows are being restored, or followed: not up to a commit of anybody
                view = self._summaries.from_memory(key)
                if view is None and not large and self._summaries.is_large(rows, key):
                    raise _Large
                return view or self._summaries.from_rows(rows, key)
        except NotOpen:
            raise NotHere from None
        except (NotHere, _Large):
            raise
        except Exception as cause:
            self._die(cause)
