"""Answers queries from the committed state of a running worker, in threads beside the stream."""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NoReturn, TypeVar

from worker.processing.entity_cache import EntityKey
from worker.processing.facet_view import FacetsView, Overview
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
    """The entity's partition is not here, or is being released."""


class _Large(Exception):
    """The entity's rows take long to read."""


class SummaryReader:
    """Reads summaries as of the last commit.

    It has two threads, so that large entities do not delay the others. Damaged rows end the
    process.
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
        """The entity's summary, or None if there is no such entity. Raises NotHere."""
        return await self._answer(EntityKey(partition, entity_id), self._summary)

    async def short_view(self, partition: int, entity_id: str, extent: Extent) -> ShortView | None:
        """The entity's short view, or None if there is no such entity. Raises NotHere."""

        def view(rows: Rows, key: EntityKey, large: bool) -> ShortView | None:
            self._defer(rows, key, large)
            return self._summaries.short_view(rows, key, extent)

        return await self._answer(EntityKey(partition, entity_id), view)

    async def facets(self, partition: int, entity_id: str) -> FacetsView | None:
        """The entity's facets, or None if there is no such entity. Raises NotHere, NoFacets."""

        def view(rows: Rows, key: EntityKey, large: bool) -> FacetsView | None:
            self._defer(rows, key, large)
            return self._summaries.facets(rows, key)

        return await self._answer(EntityKey(partition, entity_id), view)

    async def overview(self, partition: int, entity_id: str, extent: Extent) -> Overview | None:
        """The entity's overview, or None if there is no such entity. Raises NotHere, NoFacets."""

        def view(rows: Rows, key: EntityKey, large: bool) -> Overview | None:
            self._defer(rows, key, large)
            return self._summaries.overview(rows, key, extent)

        return await self._answer(EntityKey(partition, entity_id), view)

    async def _answer(self, key: EntityKey, view: Callable[[Rows, EntityKey, bool], V]) -> V:
        try:
            return await self._quick.run(lambda: self._look(key, view, False))
        except _Large:
            return await self._slow.run(lambda: self._look(key, view, True))

    def _look(self, key: EntityKey, view: Callable[[Rows, EntityKey, bool], V], large: bool) -> V:
        """The view, in one of the threads. Raises NotHere, and _Large as `_defer` does."""
        begun = self._summaries.begun(key.partition)
        try:
            with self._databases.look(key.partition, header_key(key.entity_id.encode())) as rows:
                if begun is None or begun is not self._summaries.begun(key.partition):
                    raise NotHere  # restored or followed rows may end amid a transaction
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

    def _defer(self, rows: Rows, key: EntityKey, large: bool) -> None:
        """Raise _Large for a large entity in the thread of the others."""
        if not large and self._summaries.is_large(rows, key):
            raise _Large


class EntityLister:
    """Lists and searches entities, a page at a time. Damaged rows end the process."""

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
        """The next entities of these partitions: at least one, then for at most `seconds`.

        Raises NotHere if one of the partitions is being released.
        """
        wanted = list(partitions)

        def page() -> Page:
            until = time.monotonic() + seconds
            try:
                with ExitStack() as looks:
                    rows = {p: looks.enter_context(self._databases.look(p, ENTITY)) for p in wanted}
                    return read_page(rows, search, limit, lambda: time.monotonic() < until)
            except NotOpen:
                raise NotHere from None
            except StateError as cause:
                self._die(cause)

        return await self._thread.run(page)
