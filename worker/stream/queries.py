"""Answers queries from the committed state of a running worker, in threads beside the stream."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NoReturn

from worker.processing.ask import Answer, Question, Vector, asking
from worker.processing.config import ProcessorConfig
from worker.processing.entities import EntityKey
from worker.processing.entity_view import Extent, Reads, V, read_view
from worker.state.entity import read_header
from worker.state.errors import StateError
from worker.state.keys import ENTITY, header_key
from worker.state.listing import EntitySearch, Page, read_page
from worker.state.store import Rows
from worker.storage.databases import PartitionDatabases
from worker.storage.rows import NotOpen
from worker.stream.surroundings import Threads
from worker.text.engine import EmbeddingEngine

MOST_QUESTIONS = 4
"""That wait for their answers: embedding one takes the stream's processor some 20 ms."""
LARGE = 500  # sentences; reading the rows of a larger entity takes over some milliseconds


class NotHere(Exception):
    """The entity's partition is not here, or is being released."""


class TooManyQuestions(Exception):
    """So many wait already."""


class _Large(Exception):
    """The entity's rows take long to read."""


@dataclass(eq=False)
class _Reader:
    """Reads rows as of the last commit. Damaged rows end the process."""

    begun: Callable[[int], object | None]  # see `Processor.begun`
    databases: PartitionDatabases
    threads: Threads
    die: Callable[[BaseException], NoReturn]

    @contextmanager
    def _committed(self, partition: int, within: bytes) -> Iterator[Rows]:
        """A snapshot of the partition. Raises NotHere."""
        begun = self.begun(partition)
        try:
            with self.databases.look(partition, within) as rows:
                if begun is None or begun is not self.begun(partition):
                    raise NotHere  # restored or followed rows may end amid a transaction
                yield rows
        except NotOpen:
            raise NotHere from None
        except StateError as cause:
            self.die(cause)


@dataclass(eq=False)
class ViewReader(_Reader):
    """Reads views of entities, with two threads, so that large ones do not delay the others, and
    answers questions in a third.
    """

    config: ProcessorConfig
    engine: EmbeddingEngine | None

    def __post_init__(self) -> None:
        self._asking = self.threads.in_order("questions")
        self._waiting = 0
        self._quick = self.threads.in_order("summaries")
        self._slow = self.threads.in_order("large summaries")

    async def read(
        self, partition: int, entity_id: str, kind: Reads[V], extent: Extent | None = None
    ) -> V | None:
        """The entity's view of this kind, None without such an entity. Raises NotHere, and as
        `read_view`.
        """
        key = EntityKey(partition, entity_id)
        try:
            return await self._quick.run(lambda: self._look(key, kind, extent, False))
        except _Large:
            return await self._slow.run(lambda: self._look(key, kind, extent, True))

    async def ask(
        self, partition: int, entity_id: str, question: Question, vector: Vector | None
    ) -> Answer | None:
        """The entity's answer, None without such an entity. Raises NotHere, TooManyQuestions,
        WrongVector.
        """
        if self._waiting >= MOST_QUESTIONS:
            raise TooManyQuestions
        key = EntityKey(partition, entity_id)
        self._waiting += 1
        try:
            return await self._asking.run(
                lambda: self._look(key, asking(question, self.engine, vector), None, True)
            )
        finally:
            self._waiting -= 1

    def _look(
        self, key: EntityKey, kind: Reads[V], extent: Extent | None, is_slow: bool
    ) -> V | None:
        """The view, in a thread. Raises NotHere, and _Large unless the thread is the slow one."""
        name = key.entity_id.encode()
        with self._committed(key.partition, header_key(name)) as rows:
            header = read_header(rows, name)
            if header is not None and header.sentences > LARGE and not is_slow:
                raise _Large
            return read_view(rows, key, kind, self.config, extent)


@dataclass(eq=False)
class EntityLister(_Reader):
    """Lists and searches entities, a page at a time."""

    def __post_init__(self) -> None:
        self._thread = self.threads.in_order("entities")

    async def read(
        self, partitions: Iterable[int], search: EntitySearch, limit: int, seconds: float
    ) -> Page:
        """The next entities of these partitions: at least one, then for at most `seconds`.

        Raises NotHere if one of the partitions is released or restored.
        """
        wanted = list(partitions)

        def page() -> Page:
            until = time.monotonic() + seconds
            with ExitStack() as looks:
                rows = {p: looks.enter_context(self._committed(p, ENTITY)) for p in wanted}
                return read_page(rows, search, limit, lambda: time.monotonic() < until)

        return await self._thread.run(page)
