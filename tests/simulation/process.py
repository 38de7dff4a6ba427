"""One worker process: what `worker.app.assemble` puts together, over simulated surroundings.

What Faust does around them (the fetch loop, the agent with its buffer, the steps of a rebalance in
their order) is here; each is a fiber, so that a rebalance finds a commit or a restore half done.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import faust
from confluent_kafka import KafkaError
from faust.types import TP

from tests.simulation.broker import Broker, Refused
from tests.simulation.clients import Databases, Disk, SimulatedThread, Store
from tests.simulation.fibers import Fiber, Killed, drive
from tests.simulation.surroundings import Ended, surroundings_of
from worker.app import assemble
from worker.coversumm import Counters
from worker.errors import Fenced, SetupError
from worker.limits import Limit
from worker.parts import Parts
from worker.processing.stats import Stats
from worker.settings import Settings
from worker.state import TABLE_NAME
from worker.stream.bounded_reader import BoundedReader
from worker.stream.faust.application import CommittedTable
from worker.stream.faust.consumer import GuardedConsumer, LiveReader
from worker.stream.run_bounds import ENDLESS, Ending, RunBounds

BUFFERED = 1
"""Micro-batches that wait for the agent."""
BACKGROUND = ("fetch", "standby", "ending")
"""Fibers that never end."""
LED = {
    "init": ("transactions",),
    "begin": (),
    "produce": ("logs",),
    "offsets": ("transactions", "group"),
    "commit": ("transactions",),
    "abort": ("transactions",),
    "committed": ("group",),
    "bounds": ("logs",),
    "read": ("logs",),
    "ids": ("controller",),
}
"""What a call needs a leader of."""
CODES = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.UNKNOWN,
)
"""With what a call fails, or is answered that nobody leads."""
FATAL = ("fetch", "hand over", "scan")
"""Calls that a cluster does not fail: where they do, the process may end."""
T = TypeVar("T")


class Fault(NamedTuple):
    """What is to happen at a process's next pass of a point: `kill`, `park`, `freeze` or `fail`,
    `before` or `after` it.
    """

    kind: str
    when: str
    passes: int
    """How often the point is passed unharmed first."""
    seconds: float = 0.0
    """How long a parked call takes at least; and with which of `CODES` one fails."""


class DiskFullError(Exception):
    """A write that the file system refuses."""


class Assignment(NamedTuple):
    """What the group gave to a member."""

    generation: int
    actives: frozenset[int]
    standbys: frozenset[int]


class Consumer(GuardedConsumer):
    """The worker's consumer on the simulated thread."""

    def _new_consumer_thread(self) -> Any:
        return self.app.consumer_thread

    async def sleep(self, seconds: float) -> None:
        """Let others run on."""
        Fiber.park()


@cache
def _faust_app() -> Any:
    """Its loop is never run; without one Faust asks asyncio for the current loop, which from Python
    3.12 on warns.
    """
    return faust.App(
        "simulated",
        broker="kafka://nowhere:1",
        topic_allow_declare=False,
        broker_max_poll_records=50,
        loop=SimpleNamespace(),
    )


class App:
    """One Faust app for all processes, but each has a consumer thread of its own."""

    def __init__(self, process: Process) -> None:
        self.consumer_thread = SimulatedThread(process)

    def __getattr__(self, name: str) -> Any:
        return getattr(_faust_app(), name)


class _Metrics:
    """Metrics nobody reads but those of the core."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def observe_form(self, is_native: bool) -> None:
        """Count the processes with native code."""
        self._process.seen["processes with native code"] += is_native

    def observe_batch(self, stats: Stats) -> None:
        """Keep how the micro-batch's steps were decided."""
        self._process.core.append(stats.core)

    def observe_commit(self, seconds: float) -> None:
        """Nobody looks."""

    def observe_limit(self, limit: Limit) -> None:
        """Nobody looks."""

    def observe_restore(self, rows: int, remaining: int) -> None:
        """Nobody looks."""

    def observe_doubt(self, committed: bool) -> None:
        """Count them."""
        self._process.seen[f"doubts: {'it happened' if committed else 'it did not'}"] += 1


class Process:
    """A worker from start to end.

    Attributes:
        name: its instance id.
        fibers: its work under way.
        armed: the faults that wait at its points.
        dead: it runs no more; `end` is what ended it, None for a stop that was asked for.
        excused: something was made to fail that no cluster fails: it may end itself.
        contested: there was, or is, another process with its instance id: one of the two may end.
        calm: nothing may happen to it any more.
        ends: of the changelog's partitions that it takes over, for a committed reader, when it
            began.
        core: how the core decided the steps of each committed micro-batch.
        over: its bounded run came to its end; `on_end` is called then.

    Args:
        plot: the bounds of its run.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: int,
        broker: Broker,
        disk: Disk,
        seen: Counter[str],
        plot: Callable[[Process], RunBounds] = lambda _: ENDLESS,
    ) -> None:
        self.name = settings.instance_id
        self.broker = broker
        self.disk = disk
        self.fibers: list[Fiber] = []
        self.armed: dict[str, Fault] = {}
        self.dead = self.frozen = self.excused = self.stopping = self.calm = self.contested = False
        self.end: BaseException | None = None
        self.member_id = ""
        self.assignment: Assignment | None = None  # given, not taken yet
        self.held: Assignment | None = None
        self.ends: dict[int, int] = {}
        self.restore_rows = 7
        self.restored: Callable[[Process], None] = lambda _: None
        self.over = False
        self.on_end: Callable[[], None] = lambda: None
        self.tell: Callable[[str], None] = lambda _: None
        self.buffer: deque[Any] = deque()
        self.unacknowledged = 0  # micro-batches that the agent has begun
        self.core: list[Counters] = []
        self.seen = seen
        self._suspended = True
        self._put_together(settings, partitions, plot(self))

    def _put_together(self, settings: Settings, partitions: int, bounds: RunBounds) -> None:
        databases = Databases(self, self.disk)
        self.worker = worker = assemble(
            Parts(settings),
            partitions,
            _Metrics(self),
            surroundings_of(self, databases),
            lambda: self.consumer.perform_seek(),
            bounds,
        )
        self.input_topic, self.changelog = worker.logs.input.topic, worker.logs.changelog.topic
        app: Any = App(self)
        self.thread = app.consumer_thread
        transport: Any = SimpleNamespace(
            app=app,
            worker=worker,
            reader=BoundedReader if bounds.ends else LiveReader,
            create_transaction_manager=lambda **_: None,
        )
        self.consumer = Consumer(
            transport, self._take, self._on_revoked, self._on_assigned, loop=SimpleNamespace()
        )
        self.table = CommittedTable(
            app,
            name=TABLE_NAME,
            key_type=bytes,
            value_type=bytes,
            partitions=partitions,
            takeover=worker.takeover,
            surroundings=worker.surroundings,
        )
        self.table._changelog_topic = SimpleNamespace(get_topic_name=lambda: self.changelog)
        self.table._data = Store(databases)

    # -- faults ------------------------------------------------------------------------------------

    def call(self, point: str, action: Callable[[], T]) -> T:
        """Every call of a client library comes by here."""
        if self.dead:
            raise Killed
        self.tell(f"{self.name} {Fiber.current and Fiber.current.name}: {point}")
        fault = self.armed.get(point)
        if fault is not None and fault.passes:
            self.armed[point] = fault._replace(passes=fault.passes - 1)
            fault = None
        if fault is None:
            return self._act(point, action)
        del self.armed[point]
        self.seen[f"{fault.kind} {fault.when} {point}"] += 1
        if fault.when == "before":
            self._suffer(fault, point)
        result = self._act(point, action)
        if fault.when == "after":
            self._suffer(fault, point)
        return result

    def _act(self, point: str, action: Callable[[], T]) -> T:
        try:
            if self.broker.is_away(*LED.get(point, ())):
                raise Refused(
                    CODES[int(self.broker.clock.now) % len(CODES)],
                    f"nobody leads what {point} needs",
                )
            return action()
        except Refused as refused:
            self.seen[f"refused: {refused.args[0].str()}"] += 1
            raise

    def _suffer(self, fault: Fault, point: str) -> None:
        if self.calm:
            return  # it was armed, and the call took until now
        self.tell(
            f"{self.name} {Fiber.current and Fiber.current.name}: {fault.kind} {fault.when} {point}"
        )
        if fault.kind == "kill":
            raise Killed
        if fault.kind == "fail":
            if point == "write":
                raise DiskFullError
            self.excused |= point in FATAL
            raise Refused(CODES[int(fault.seconds) % len(CODES)], f"simulated failure of {point}")
        self.frozen = fault.kind == "freeze"
        clock, until = self.broker.clock, self.broker.clock.now + fault.seconds
        Fiber.park()
        Fiber.wait_while(lambda: clock.now < until)

    def kill(self) -> None:
        """`kill -9`, or the end of an ended process: nothing of it runs on."""
        self.dead = True
        for fiber in self.fibers:
            fiber.kill()

    # -- what runs ---------------------------------------------------------------------------------

    def spawn(self, name: str, coroutine_of: Callable[[], Any]) -> Fiber:
        """New work; it begins when it is resumed."""
        return Fiber(name, lambda: drive(coroutine_of()), self.fibers)

    def actions(self) -> list[Callable[[], None]]:
        """What can go on now, the most urgent first."""
        if self.dead or self.frozen:
            return []
        for fiber in self.fibers:
            if fiber.done:
                self.fibers.remove(fiber)
                break
        found = [
            fiber.resume for fiber in self.fibers if fiber.ready and fiber.name not in BACKGROUND
        ]
        if not self.stopping:
            found = self._beginnings() + found
        return found + [
            fiber.resume for fiber in self.fibers if fiber.ready and fiber.name in BACKGROUND
        ]

    def _beginnings(self) -> list[Callable[[], None]]:
        """What can begin."""
        found = []
        # one callback of the group's coordinator after another
        if not self._is_busy("coordinator", "start"):
            if self.assignment is not None:
                found.append(lambda: self.spawn("coordinator", self._assign).resume())
            elif self._must_join:
                found.append(lambda: self.spawn("coordinator", self._join).resume())
        if self.buffer and not self._is_busy("agent"):
            found.append(lambda: self.spawn("agent", self._deliver).resume())
        return found

    @property
    def _must_join(self) -> bool:
        group = self.broker.group
        is_member = self.member_id in group.members
        return not is_member or (group.joined is not None and self.member_id not in group.joined)

    def _is_busy(self, *names: str) -> bool:
        return any(fiber.name in names and not fiber.done for fiber in self.fibers)

    @property
    def is_idle(self) -> bool:
        """Nothing is under way but what never ends."""
        return not self.buffer and all(
            fiber.done or fiber.name in BACKGROUND for fiber in self.fibers
        )

    async def _deliver(self) -> None:
        self.unacknowledged += 1
        await self.worker.delivery.deliver(self.buffer.popleft(), self._acknowledge)

    async def _acknowledge(self) -> None:
        self.unacknowledged -= 1

    async def _take(self, message: Any) -> None:
        """Put a micro-batch into the agent's buffer: held back while the flow is suspended, dropped
        when it is cleared.
        """
        Fiber.wait_while(lambda: self._suspended)
        assignment = self.held

        def put() -> None:
            if self.held is assignment and not self._suspended:
                self.buffer.append(message.value)

        Fiber.wait_while(lambda: len(self.buffer) >= BUFFERED and self.held is assignment)
        self.call("hand over", put)
        Fiber.park()

    # -- the group, in the order in which Faust goes through it ------------------------------------

    async def _join(self) -> None:
        """Give up what is held and join the next generation."""
        group = self.broker.group
        self._check_place()
        if self.member_id not in group.members:
            self.thread.generation, self.thread.member_id = (
                -1,
                "",
            )  # as aiokafka after a heartbeat that failed
        await self.consumer.on_partitions_revoked(set(self.thread.assigned))
        self._check_place()
        if self.member_id not in group.members:
            self.enter()
        elif group.joined is not None:
            group.joined.add(self.member_id)

    def _check_place(self) -> None:
        """Raise Ended if another member has its instance id by now."""
        if self.member_id in self.broker.group.replaced:
            raise Ended(Fenced("another member has this instance id"))

    def enter(self) -> None:
        """Join the group as a new member."""
        self.seen["joined"] += 1
        self.member_id = f"{self.name}-{self.seen['joined']}"
        self.assignment = self.broker.group.join(self.member_id, self)

    async def _on_revoked(self, revoked: set[TP]) -> None:
        self.consumer.stop_flow()
        self.consumer.pause_partitions(self.thread.assigned)
        self._suspended = True
        self.buffer.clear()
        Fiber.wait_while(lambda: self.unacknowledged > 0)

    async def _assign(self) -> None:
        """Take what was given: close and open databases; then restore, while the coordinator goes
        on.
        """
        assignment, self.assignment = self.assignment, None
        assert assignment is not None
        self.held = assignment
        inputs = {TP(self.input_topic, p) for p in assignment.actives}
        changelogs = {TP(self.changelog, p) for p in assignment.actives | assignment.standbys}
        self.thread.assign(assignment.generation, self.member_id, inputs | changelogs)
        await self.consumer.on_partitions_assigned(inputs | changelogs, assignment.generation)
        self._suspended = False
        self.consumer.resume_flow()
        self.spawn("recovery", lambda: self._recover(assignment))

    async def _recover(self, assignment: Assignment) -> None:
        """What Faust's recovery does: restore, then seek and let the input flow."""
        if self.held is not assignment:
            return
        self.ends = {p: self.broker.log(self.changelog, p).stable_end for p in assignment.actives}
        await self.table.on_recovery_completed(
            {TP(self.changelog, p) for p in assignment.actives},
            {TP(self.changelog, p) for p in assignment.standbys},
        )
        if self.held is not assignment or self.stopping:
            return  # Faust is rebalancing again, or stops
        if self.worker.assignment.is_lasting:  # else the restore gave way to the group
            self.restored(self)
        self.consumer.resume_partitions(self.thread.assigned)
        await self.consumer.perform_seek()
        self.consumer.resume_flow()

    async def _on_assigned(self, assigned: set[TP], generation: int) -> None:
        self.consumer.pause_partitions(assigned)
        changelogs = {tp for tp in assigned if tp.topic == self.changelog}
        await self.table.on_rebalance(changelogs, set(), set(), generation)

    def start(self) -> None:
        """Take over the transactional id, then enter the group."""
        self.spawn("start", self._start).resume()

    async def _start(self) -> None:
        try:
            self.worker.producer.start()
        except SetupError as cause:
            self.excused = True  # nothing was begun: whoever starts it starts it again
            raise Ended(cause) from cause
        self.enter()
        self.spawn(
            "fetch", lambda: self.consumer._drain_messages(SimpleNamespace(should_stop=False))
        )
        bounds = self.worker.bounds
        if bounds.ends:
            ending = Ending(bounds, self.worker.assignment, self._end, self.worker.surroundings)
            self.spawn("ending", ending.watch)

    def _end(self) -> None:
        """The end of a bounded run."""
        self.on_end()
        self.over = True
        if not self.stopping:
            self.stop()

    def stop(self) -> None:
        """SIGTERM."""
        self.stopping = True
        self.spawn("stop", self._stop)

    async def _stop(self) -> None:
        Fiber.wait_while(lambda: self._is_busy("coordinator", "start"))
        self.consumer.stop_flow()
        Fiber.wait_while(lambda: self.unacknowledged > 0)
        await self.worker.takeover.let_go()
        self.broker.group.leave(self.member_id)
        self.dead = True

    def failure(self) -> BaseException | None:
        """What went wrong in a fiber that has ended; forgets it."""
        for fiber in self.fibers:
            if fiber.error is not None:
                error, fiber.error = fiber.error, None
                return error
        return None

    @property
    def is_excused(self) -> bool:
        """Whether its end was to be expected of what was done to it; a cluster that hands over what
        it leads excuses none.
        """
        if self.contested and isinstance(self.end, Ended) and isinstance(self.end.cause, Fenced):
            return True
        cause: BaseException | None = self.end
        while cause is not None:
            if isinstance(cause, (DiskFullError, Killed)):
                return True
            cause = (
                cause.cause if isinstance(cause, Ended) else cause.__cause__ or cause.__context__
            )
        return self.excused
