"""Summaries for whoever asks a running worker: of its committed state, in threads of their own,
beside the stream.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NoReturn, TypeVar

from worker.processing.entity_cache import EntityKey
from worker.processing.short_view import Extent, ShortView
from worker.processing.summaries import Summaries
from worker.state import Rows, SummaryView
from worker.state.errors import StateError
from worker.state.keys import ENTITY, header_key
from worker.state.listing import EntitySearch, Page, read_page
from worker.storage.databases import PartitionDatabases
from worker.storage.rows import NotOpen
from worker.stream.surroundings import Threads

V = TypeVar("V")


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
        return await self._tell(EntityKey(partition, entity_id), self._summary)

    async def short_view(self, partition: int, entity_id: str, extent: Extent) -> ShortView | None:
        """The entity's short view, None where there is no such entity. Raises NotHere."""
        return await self._tell(
            EntityKey(partition, entity_id),
            lambda rows, key, large: self._short_view(rows, key, large, extent),
        )

    async def _tell(self, key: EntityKey, view: Callable[[Rows, EntityKey, bool], V]) -> V:
        try:
            return await self._quick.run(lambda: self._look(key, view, False))
        except _Large:
            return await self._slow.run(lambda: self._look(key, view, True))

    def _look(self, key: EntityKey, view: Callable[[Rows, EntityKey, bool], V], large: bool) -> V:
        """In one of the threads. Raises NotHere, and _Large for a large entity where those are not
        read.
        """
        begun = self._summaries.begun(key.partition)
        try:
            with self._databases.look(key.partition, header_key(key.entity_id.encode())) as rows:
                if begun is None or begun is not self._summaries.begun(key.partition):
                    raise NotHere  # its rows were being restored, or followed: not up to a commit of anybody
                return view(rows, key, large)
        except NotOpen:
            raise NotHere from None
        except StateError as cause:
            self._die(cause)

    def _summary(self, rows: Rows, key: EntityKey, large: bool) -> SummaryView | None:
        view = self._summaries.from_memory(key)
        if view is None:
            self._defer(rows, key, large)
        return view or self._summaries.from_rows(rows, key)

    def _short_view(
        self, rows: Rows, key: EntityKey, large: bool, extent: Extent
    ) -> ShortView | None:
        self._defer(rows, key, large)
        return self._summaries.short_view(rows, key, extent)

    def _defer(self, rows: Rows, key: EntityKey, large: bool) -> None:
        if not large and self._summaries.is_large(rows, key):
            raise _Large


class EntityLister:
    """Lists and searches entities, a page at a time, whatever the stream does meanwhile.

    Args:
        databases: of the partitions that are here.
        threads: where its thread comes from.
        die: ends the process where rows are damaged.
    """

    def __init__(
        self,
        databases: PartitionDatabases,
        threads: Threads,
        die: Callable[[BaseException], NoReturn],
    ) -> None:
        self._databases = databases
        self._thread = threads.in_order("entities")
        self._die = die

    async def read(
        self, partitions: Iterable[int], search: EntitySearch, limit: int, seconds: float
    ) -> Page:
        """The next entities of these partitions, as many as are found in so many seconds, and one
        at least.

        Raises NotHere where one of the partitions is going away.
        """
        wanted = list(partitions)
        return await self._thread.run(lambda: self._read(wanted, search, limit, seconds))

    def _read(
        self, partitions: list[int], search: EntitySearch, limit: int, seconds: float
    ) -> Page:
        until = time.monotonic() + seconds
        try:
            with ExitStack() as looks:
                rows = {p: looks.enter_context(self._databases.look(p, ENTITY)) for p in partitions}
                return read_page(rows, search, limit, lambda: time.monotonic() < until)
        except NotOpen:
            raise NotHere from None
        except StateError as cause:
            self._die(cause)
