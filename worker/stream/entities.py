"""The entities of a running worker, for whoever asks: as of the last commits, in a thread of their own, beside the stream."""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NoReturn

from worker.state.errors import StateError
from worker.state.keys import ENTITY
from worker.state.listing import Page, Search, read_page
from worker.storage.databases import PartitionDatabases
from worker.storage.look import NotOpen
from worker.stream.summaries import NotHere
from worker.stream.surroundings import Threads


class EntityLister:
    """Lists and searches entities, a page at a time, whatever the stream does meanwhile.

    Args:
        databases: of the partitions that are here.
        threads: where its thread comes from.
        die: ends the process where rows are damaged.
    """

    def __init__(
        self, databases: PartitionDatabases, threads: Threads, die: Callable[[BaseException], NoReturn]
    ) -> None:
        self._databases = databases
        self._thread = threads.in_order("entities")
        self._die = die

    async def read(self, partitions: Iterable[int], search: Search, limit: int, seconds: float) -> Page:
        """The next entities of these partitions, as many as are found in so many seconds, and one at least.

        Raises NotHere where one of the partitions is going away.
        """
        wanted = list(partitions)
        return await self._thread.run(lambda: self._read(wanted, search, limit, seconds))

    def _read(self, partitions: list[int], search: Search, limit: int, seconds: float) -> Page:
        until = time.monotonic() + seconds
        try:
            with ExitStack() as looks:
                rows = {p: looks.enter_context(self._databases.look(p, ENTITY)) for p in partitions}
                return read_page(rows, search, limit, lambda: time.monotonic() < until)
        except NotOpen:
            raise NotHere from None
        except StateError as cause:
            self._die(cause)
