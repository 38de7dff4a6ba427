"""Parts of a worker for the tests of `worker.stream`, without a broker: what consumer, table and
takeover need, and no more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import faust
from confluent_kafka import KafkaError, KafkaException

from tests.harness.fake_clients import FakeClients
from tests.harness.patience import PATIENCE_SECONDS
from worker.clock import Clock
from worker.events.publishing import FACETS, OutputTopic
from worker.kafka.changelog import LogBounds
from worker.kafka.offsets import Start
from worker.kafka.topics import DELETE_RETENTION_MS
from worker.settings import settings_by_field
from worker.state.rows import Output
from worker.storage.databases import Databases
from worker.stream.assignment import Assignment
from worker.stream.gate import Gate
from worker.stream.journal import Journal
from worker.stream.run_bounds import ENDLESS, RunBounds
from worker.stream.surroundings import ProcessorThread, Surroundings, Threads
from worker.stream.takeover import Takeover

INPUT = "reviews"
OUTPUT = "summaries"
CHANGELOG = "tests-entities-changelog"
GROUP, INSTANCE = "tests", "worker-0"
IDLE_TURNS = 100
"""Turns of an event loop in which every task that is able to run has run."""


async def no_seek() -> None:
    """In place of the consumer's seek."""


class End(Exception):
    """What `die` is in tests: it ends the flow of control, and it has the cause."""

    @property
    def cause(self) -> BaseException:
        """What the process would have ended with."""
        return self.args[0]


def die(cause: BaseException) -> NoReturn:
    """Stands for `worker.stream.surroundings.die`; a second call keeps the first cause."""
    raise cause if isinstance(cause, End) else End(cause)


def _away(*_: Any, **__: Any) -> NoReturn:
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


class WatchedThreads(Threads):
    """What ends the process in a task ends whoever waits for the task: nothing runs on."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: list[Any] = []
        self._running = 0  # jobs in threads whose results the event loop does not have yet

    def in_order(self, name: str) -> Any:
        """Count its jobs."""
        thread = super().in_order(name)
        return SimpleNamespace(run=lambda work: self._counted(thread.run(work)))

    async def beside(self, work: Callable[[], Any]) -> Any:
        """Count it."""
        return await self._counted(super().beside(work))

    async def _counted(self, job: Awaitable[Any]) -> Any:
        self._running += 1
        try:
            return await job
        finally:
            self._running -= 1

    async def idle(self, held: int) -> None:
        """Return when `held` jobs are in threads that a test holds, and nothing else can happen
        before it lets them go: an absence is sure then.
        """
        turns = 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while turns < IDLE_TURNS:
                is_idle = self._running == held
                turns = turns + 1 if is_idle else 0
                await asyncio.sleep(0 if is_idle else 0.001)

    def task(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        """Keep it."""
        task = super().task(name, work)
        self._begun.append(task)
        return task

    async def ended(self, task: Any) -> None:
        """Raise what it ended with."""
        await super().ended(task)
        if error := task.exception():
            raise error

    async def all_ended(self) -> None:
        """Wait for all there were."""
        for task in self._begun:
            await self.ended(task)


class Ids:
    """Which topics there are, as `worker.kafka.topic_ids` has it; by default none is known."""

    def __init__(self, **ids: str) -> None:
        self.by_topic = ids
        self.failure: Exception | None = None
        self.asked: list[list[str]] = []
        self.life_ms: int | None = DELETE_RETENTION_MS

    def read(self) -> None:
        """Raises what a test wants."""
        if self.failure:
            raise self.failure

    def known(self, topic: str) -> str:
        """The id a test gave the topic."""
        return self.by_topic.get(topic, "")

    def tombstone_life_ms(self, topic: str) -> int | None:
        """What a test says."""
        return self.life_ms

    def ask_ahead(self, topics: Iterable[str]) -> Callable[[], None]:
        """What raises what a test wants."""

        def check() -> None:
            if self.failure:
                raise self.failure

        self.asked.append(list(topics))
        return check


class Logs:
    """Input and changelog as a test says they are; `calls` has what was asked, in order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.ids: Any = Ids()
        self.output: str | None = OUTPUT
        self.facets: str | None = None
        self.input: Any = SimpleNamespace(topic=INPUT, starts=self._starts)
        self.changelog: Any = SimpleNamespace(
            topic=CHANGELOG, bounds=self._bounds, reader=self._reader
        )
        self.committed: dict[int, Start] = {}
        self.bounds = LogBounds(0, 10, 0)
        self.open_reader: Callable[..., Any] = lambda starts, apply, at_end: None

    def _starts(self, partitions: list[int]) -> dict[int, Start]:
        self.calls.append("offsets")
        return {partition: self.committed[partition] for partition in partitions}

    def _bounds(self, partitions: list[int]) -> dict[int, LogBounds]:
        self.calls.append(("bounds", partitions))
        return dict.fromkeys(partitions, self.bounds)

    def _reader(self, *arguments: Any) -> Any:
        return self.open_reader(*arguments)


class NoProcessor:
    """A processor of a state without rows."""

    def __init__(self) -> None:
        self.applied: dict[int, int | None] = {}
        self.made_from: dict[int, str] = {}  # by partition: the topic id in its rows
        self.published_to: dict[int, Output] = {}  # by partition: what its rows say
        self.facets_to: dict[int, Output] = {}  # by partition: what its rows say
        self.forgotten: list[list[int]] = []
        self.begun: list[int] = []

    def check_partition(self, partition: int) -> int | None:
        """The partition's next source offset."""
        return self.applied.get(partition)

    def topic_id(self, partition: int) -> str:
        """The topic its rows were made from."""
        return self.made_from.get(partition, "")

    def reads_from(self, partition: int, topic_id: str) -> None:
        """Note it."""
        self.made_from[partition] = topic_id or self.topic_id(partition)

    def output(self, partition: int, topic: OutputTopic) -> Output | None:
        """Where its summaries were published."""
        return (self.facets_to if topic is FACETS else self.published_to).get(partition)

    def publishes_to(self, partition: int, topic_id: str, topic: OutputTopic) -> None:
        """Note it."""
        if topic is FACETS:
            self.facets_to[partition] = Output(1, "facets", topic_id)
        else:
            self.published_to[partition] = Output(1, OUTPUT, topic_id)

    def begin(self, partition: int) -> None:
        """Note it."""
        self.begun.append(partition)

    def forget(self, partitions: Any) -> None:
        """Note them."""
        self.forgotten.append(sorted(partitions))


class Group:
    """A group whose fingerprint is this worker's, unless a test says otherwise."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refusal: Exception | None = None

    def agreed(self) -> None:
        """Note it."""
        self.calls.append("agreed")

    def check(self) -> None:
        """Raise what a test wants."""
        self.calls.append("check")
        if self.refusal:
            raise self.refusal


@dataclass
class Parts:
    """What holds an assignment, over databases on disk and logs of a test's own."""

    data_dir: Path
    logs: Logs = field(default_factory=Logs)
    processor: Any = field(default_factory=NoProcessor)
    die: Callable[[BaseException], Any] = die
    group: Group = field(default_factory=Group)
    is_doubtful: bool = False  # a transaction was left open
    clock: Clock = time
    bounds: RunBounds = ENDLESS

    def __post_init__(self) -> None:
        self.databases = Databases(self.data_dir, 64 * 2**20, 2, lambda cause: self.die(cause))
        self.surroundings = Surroundings(
            clients=FakeClients(admin=lambda: SimpleNamespace(describe_consumer_groups=_away)),
            databases=self.databases,
            clock=self.clock,
            die=lambda cause: self.die(cause),
        )
        self.assignment = Assignment(self.clock, Journal(self.clock, 2))
        self.gate = Gate(CHANGELOG, self.assignment, self.databases, self.logs.ids, Threads())
        self.restores: list[tuple[int, int]] = []
        self.takeover = Takeover(
            self.assignment,
            self.logs,  # type: ignore[arg-type]
            self.gate,
            ProcessorThread(self.processor, self.surroundings.threads.in_order("processing")),
            self.group,  # type: ignore[arg-type]
            lambda: self.logs.calls.append("decide") if self.is_doubtful else None,
            lambda: self._seek(),
            lambda rows, remaining: self.restores.append((rows, remaining)),
            self.surroundings,
            self.bounds.ledger,
        )

    async def _seek(self) -> None:
        await no_seek()

    def worker(self, **settings: Any) -> Any:
        """A `StreamWorker` as consumer and transport look at it."""
        chosen = {
            "input_topic": INPUT,
            "app_id": GROUP,
            "instance_id": INSTANCE,
            "group_instance_id": INSTANCE,
            "batch_linger_ms": 0,
            "batch_size": 10,
            "batch_bytes": 1000,
            "batch_ms": 2000,
            "session_timeout_ms": 10_000,
            "max_event_bytes": 4 * 2**20,
            **dict.fromkeys(("tls_context", "broker_password"), lambda: None),
            **{n: None for n in settings_by_field() if n.startswith(("ssl_", "sasl_"))},
            **settings,
        }
        return SimpleNamespace(
            settings=SimpleNamespace(**chosen),
            surroundings=self.surroundings,
            logs=self.logs,
            assignment=self.assignment,
            takeover=self.takeover,
            bounds=self.bounds,
            with_headers=False,
            delivery=SimpleNamespace(commit_started=lambda batch: True),
        )


def make_app(data_dir: Path, **options: Any) -> Any:
    """A Faust app as the worker configures it; not started, and with nobody behind its address."""
    return faust.App(
        "tests",
        broker="kafka://127.0.0.1:1",
        store="rocksdb://",
        datadir=str(data_dir),
        topic_partitions=2,
        topic_allow_declare=False,
        consumer_auto_offset_reset="none",
        broker_max_poll_records=10,
        **options,
    )
