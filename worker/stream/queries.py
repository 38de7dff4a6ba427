"""Answers queries from the committed state of a running worker, in threads beside the stream."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from worker.processing.ask import Answer, Question, Vector, asking
from worker.processing.config import ProcessorConfig
from worker.processing.entities import EntityKey
from worker.processing.entity_view import Extent, Reads, V, read_view
from worker.processing.trend import Trend
from worker.state.entity import read_header
from worker.state.errors import StateError
from worker.state.keys import APPLIED, ENTITY, header_key
from worker.state.listing import EntitySearch, Page, read_page
from worker.state.partition import read_applied
from worker.state.store import Rows
from worker.storage.databases import PartitionDatabases
from worker.storage.rows import NotOpen
from worker.stream.rate_limit import RateLimit
from worker.stream.surroundings import OneThread, Threads
from worker.text.engine import EmbeddingEngine

MOST_QUESTIONS = 4
"""That wait for their answers: embedding one takes the stream's processor some 20 ms."""
EMBEDDED = 1000  # questions whose embeddings are kept
QUESTIONS_A_SECOND = 20  # of all readers together, beside those with a known answer
KNOWN_BYTES = 4 * 2**20  # of answers and trends, as JSON; in memory they take some three times that
LARGE = 500  # sentences; reading the rows of a larger entity takes over some milliseconds


class NotHere(Exception):
    """The entity's partition is not here, or is being released."""


class TooManyQuestions(Exception):
    """So many wait, or were asked just now; ask again after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


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
class _KnownViews:
    """The views asked for last, as of their offsets; for one thread."""

    _views: dict[object, tuple[int, Any]] = field(default_factory=dict)  # with their bytes
    _bytes: int = 0

    def get(self, key: object) -> Any:
        """The view of this key, which is now the last one asked for; None without it."""
        size, view = self._views.pop(key, (0, None))
        if view is not None:
            self._views[key] = size, view
        return view

    def put(self, key: object, view: Any, size: int) -> None:
        """Keep the view in place of the one of this key, and forget the oldest beyond the limit."""
        self._bytes += size - self._views.pop(key, (0,))[0]
        self._views[key] = size, view
        while self._bytes > KNOWN_BYTES:
            self._bytes -= self._views.pop(next(iter(self._views)))[0]


@dataclass(eq=False)
class ViewReader(_Reader):
    """Reads views of entities with two threads, so that large ones do not delay the others, and
    answers questions with two more. Answers and trends are read once as of an offset.
    """

    config: ProcessorConfig
    engine: EmbeddingEngine | None

    def __post_init__(self) -> None:
        in_order = self.threads.in_order
        self._reading = in_order("summaries"), in_order("large summaries")
        self._asking = in_order("questions"), in_order("questions of large entities")
        self._waiting = 0
        self._embedded = lru_cache(EMBEDDED)(lambda text: asking(Question(text), self.engine))
        self._limit = RateLimit(QUESTIONS_A_SECOND, QUESTIONS_A_SECOND)
        self._known = _KnownViews()

    async def read(
        self, partition: int, entity_id: str, kind: Reads[V], extent: Extent | None = None
    ) -> V | None:
        """The entity's view of this kind, None without such an entity. Raises NotHere, and as
        `read_view`.
        """
        key = EntityKey(partition, entity_id)
        asked: object = kind
        if isinstance(asked, Trend):
            return await self._once(key, asked, lambda: self._read(key, kind, extent))
        return await self._read(key, kind, extent)

    async def ask(
        self, partition: int, entity_id: str, question: Question, vector: Vector | None
    ) -> Answer | None:
        """The entity's answer, None without such an entity. Raises NotHere, TooManyQuestions,
        WrongVector.
        """
        key = EntityKey(partition, entity_id)
        given = None if vector is None else vector.tobytes()
        return await self._once(key, (question, given), lambda: self._ask(key, question, vector))

    async def _once(
        self, key: EntityKey, asked: object, read: Callable[[], Awaitable[V | None]]
    ) -> V | None:
        """Return the answer read before if nothing was committed since, else what `read` reads."""
        name = msgspec.json.encode((key, asked))
        known_as = self.begun(key.partition), name
        view: Any = self._known.get(known_as)
        if view is None or view.next_offset != await self._reading[0].run(
            lambda: self._offset(key)
        ):
            view = await read()
            if view is not None:
                self._known.put(known_as, view, len(name) + len(msgspec.json.encode(view)))
        found: V | None = view
        return found

    def _offset(self, key: EntityKey) -> int | None:
        """The partition's offset as of the last commit. Raises NotHere."""
        with self._committed(key.partition, APPLIED) as rows:
            applied = read_applied(rows)
            return None if applied is None else applied.next_offset

    async def _read(self, key: EntityKey, kind: Reads[V], extent: Extent | None) -> V | None:
        return await _by_size(self._reading, lambda is_slow: self._look(key, kind, extent, is_slow))

    async def _ask(
        self, key: EntityKey, question: Question, vector: Vector | None
    ) -> Answer | None:
        if self._waiting >= MOST_QUESTIONS:
            raise TooManyQuestions(1)
        if seconds := self._limit.wait(""):
            raise TooManyQuestions(seconds)

        def answer(is_slow: bool) -> Answer | None:
            if vector is None:
                ask = replace(self._embedded(question.text), question=question)
            else:
                ask = asking(question, self.engine, vector)
            return self._look(key, ask, None, is_slow)

        def answered(_: object) -> None:
            self._waiting -= 1

        self._waiting += 1
        work = asyncio.ensure_future(_by_size(self._asking, answer))
        work.add_done_callback(answered)
        # a reader who no longer waits does not end the thread's work
        return await asyncio.shield(work)

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


async def _by_size(
    threads: tuple[OneThread, OneThread], read: Callable[[bool], V | None]
) -> V | None:
    """What `read` reads in the first thread, or in the slow one if the entity is large."""
    quick, slow = threads
    try:
        return await quick.run(lambda: read(False))
    except _Large:
        return await slow.run(lambda: read(True))


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
