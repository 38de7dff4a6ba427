"""A world: broker, disks, workers and clock, and what the steps of a plan do to them.

After the last step every fault ends: processes thaw or are started again, upstream transactions are
decided, and within a bounded number of rounds everything must be applied. Then the checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.simulation.broker import (
    ABORTED,
    COMMITTED,
    DAY_SECONDS,
    SESSION_SECONDS,
    Broker,
    Clock,
    Transaction,
)
from tests.simulation.clients import Disk, stored_offset
from tests.simulation.fibers import Killed
from tests.simulation.load import DIMENSION, FACETS_FILE
from tests.simulation.plan import Plan, Setup
from tests.simulation.process import Assignment, Fault, Process
from tests.simulation.replay import SharedReplay, names_of
from tests.simulation.surroundings import Ended
from worker.coversumm import Counters
from worker.kafka.topics import changelog_topic
from worker.settings import Settings
from worker.stream.run_bounds import ENDLESS, RunBounds

ROUNDS = 900
"""In which the workers must have caught up after the last fault; one is about a third of
a second. The slowest of 10,000 seeds of replays takes 463: 70 transactions of an event or two.
"""
STEP_SECONDS = 0.2
MOMENTS = 5
"""Someone asks for summaries each time that so many processes went on."""
TOMBSTONE_SECONDS = 30 * DAY_SECONDS


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


def settings_of(setup: Setup) -> Settings:
    """The worker's settings in a run; in a replay those that it makes of the live worker's."""
    live = live_settings(setup)
    return live if setup.replay is None else names_of(live, setup.replay).settings


def live_settings(setup: Setup) -> Settings:
    """Those of a worker that is not a replay's."""
    return Settings(
        app_id="app",
        input_topic="reviews",
        output_topic="summaries",
        dlq_topic="dlq",
        embedder="none",
        dimension=DIMENSION,
        data_dir=Path("/nowhere"),
        k=setup.k,
        distinct=setup.distinct,
        weigh=setup.weigh,
        native="auto" if setup.native else "off",
        emit=setup.emit,
        emit_min_changes=setup.min_changes,
        emit_mentions=setup.emit_mentions,
        cache_bytes=setup.cache_bytes,
        batch_bytes=setup.batch_bytes,
        batch_linger_ms=setup.batch_linger_ms,
        transaction_records=setup.transaction_records,
        facets=str(FACETS_FILE) if setup.facets else "",
        facets_topic="facets",
    )


class World:
    """Runs a plan.

    Attributes:
        seen: how often what happened.
        story: tells it line by line, if that is asked for.
        core: how the core decided the steps of each committed micro-batch.
        on_takeover: called with every process that has taken over partitions, also one whose
            partitions are another's by then.
        on_moment: called now and then with a process, wherever its fibers stand.
        on_end: called with every process that takes its replay for over.
        on_over: called when all have ended, before an endless worker goes on.
        replay: None where there is none; `is_bounded` until it is over.
    """

    def __init__(self, plan: Plan, settings: Settings, *, tell: bool = False) -> None:
        self.plan = plan
        self.setup = plan.setup
        self.settings = settings
        self.clock = Clock()
        self.broker = Broker(self.clock)
        self.seen: Counter[str] = Counter()
        self.story: list[str] = []
        self._tell = tell
        self.disks: list[Disk] = [{} for _ in range(self.setup.workers)]
        self.workers: list[Process | None] = [None] * self.setup.workers
        self.zombies: list[Process] = []
        self._upstream: dict[int, Transaction] = {}
        self.armed: dict[str, Fault] = {}
        self.core: list[Counters] = []
        self.on_takeover: Callable[[World, Process], None] = lambda _, __: None
        self.on_moment: Callable[[World, Process], None] = lambda _, __: None
        self.on_end: Callable[[World], None] = lambda _: None
        self.on_over: Callable[[World], None] = lambda _: None
        self.replay: SharedReplay | None = None
        if self.setup.replay is not None:
            names = names_of(live_settings(self.setup), self.setup.replay)
            self.replay = SharedReplay(names, self.setup, self.broker)
        self.is_bounded = self.replay is not None
        self._moments = 0
        self._away: set[int] = set()
        self._shuffle = self.setup.shuffle
        self._since: dict[Process, float] = {}  # when it was found dead or frozen
        self._rebalancing_since: float | None = None

    @cached_property
    def changelog(self) -> str:
        """The changelog topic."""
        return changelog_topic(self.settings)

    @property
    def partitions(self) -> range:
        """Of the input topic."""
        return range(self.setup.partitions)

    # -- a run -------------------------------------------------------------------------------------

    def run(self) -> None:
        """All steps, then calm. Raises Violation."""
        try:
            for step in self.plan.steps:
                self.tell(f"-- {step}")
                getattr(self, f"step_{step.kind}")(*step.arguments)
                self._pass_time(STEP_SECONDS)
            if self.is_bounded:
                self.calm(self._have_all_ended)
                self.on_over(self)
                self._go_on_without_end()
            self.calm(self._is_caught_up)
        except BaseException:
            self.close()
            raise

    def _go_on_without_end(self) -> None:
        """An endless worker under the same group takes over what the replay has made."""
        self.tell("-- without an end")
        for zombie in list(self.zombies):
            self._bury(zombie)
        self.is_bounded = False

    def tell(self, line: str) -> None:
        """One more line of the story."""
        if self._tell:
            self.story.append(line)

    def close(self) -> None:
        """No fiber is left."""
        for process in [*self.workers, *self.zombies]:
            if process is not None:
                process.kill()

    def calm(self, is_done: Callable[[], bool]) -> None:
        """No fault any more: the workers must be done in time. Raises Violation."""
        self.tell("-- calm")
        for transaction in self._upstream.values():
            self.broker.decide(transaction, COMMITTED)
        self._upstream.clear()
        self.armed.clear()
        self.broker.away.clear()
        self._away.clear()
        for process in self._processes():
            process.frozen, process.calm = False, True
        for round_ in range(ROUNDS):
            for number in range(self.setup.workers):
                self._go_on(self._worker(number), round_, 50)
            for zombie in list(self.zombies):
                self._go_on(zombie, round_, 50)
            self._pass_time(STEP_SECONDS)
            if is_done():
                self.seen["rounds to catch up"] = round_ + 1
                return
        raise Violation("I7", f"not done {ROUNDS} rounds after the last fault: {self._state()}")

    def _have_all_ended(self) -> bool:
        return all(
            process is not None and process.dead and process.over for process in self.workers
        )

    def _is_caught_up(self) -> bool:
        group = self.broker.group
        running = [process for process in self.workers if process is not None and not process.dead]
        return (
            len(running) == self.setup.workers
            and group.joined is None
            and all(
                p.is_idle and p.assignment is None and p.member_id in group.members for p in running
            )
            and all(
                group.committed.get(p, 0) >= self._end(self.settings.input_topic, p)
                for p in self.partitions
            )
            and all(
                stored_offset(process.disk.get(p)) + 1 >= self._end(self.changelog, p)
                for process in running
                if process.held is not None
                for p in process.held.standbys
            )
        )

    def _end(self, topic: str, partition: int) -> int:
        """After the last record of a topic that a committed reader sees."""
        committed = self.broker.log(topic, partition).committed()
        return committed[-1].offset + 1 if committed else 0

    def _state(self) -> str:
        group = self.broker.group
        ends = {
            p: (group.committed.get(p, 0), self._end(self.settings.input_topic, p))
            for p in self.partitions
        }
        doing = {
            process.name: [fiber.name for fiber in process.fibers if not fiber.done]
            for process in self._processes()
            if not process.dead
        }
        return f"(committed, end) {ends}, under way {doing}, group joined {group.joined}"

    # -- processes ---------------------------------------------------------------------------------

    def _processes(self) -> Iterator[Process]:
        yield from (process for process in self.workers if process is not None)
        yield from self.zombies

    def _worker(self, number: int) -> Process | None:
        """The worker of a number; a dead one is started again, unless it is away, or the end of its
        run has come.
        """
        process = self.workers[number]
        if (process is None or process.dead) and number in self._away:
            return None
        if process is not None and process.dead and process.over and self.is_bounded:
            return None
        if process is None or process.dead:
            self.seen["started"] += 1
            settings = replace(self.settings_of_worker(number), instance_id=f"w{number}")
            process = Process(
                settings,
                self.setup.partitions,
                self.broker,
                self.disks[number],
                self.seen,
                self._plot,
            )
            process.on_end = lambda: self.on_end(self)
            process.restore_rows = self.setup.restore_rows
            process.armed = self.armed
            process.core = self.core
            process.restored = self._check_restored
            process.tell = self.tell
            self.workers[number] = process
            process.contested = any(zombie.name == process.name for zombie in self.zombies)
            process.start()
            self._look_at(process)
        return process

    def _plot(self, process: Process) -> RunBounds:
        """The bounds of a worker; the first one of a replay says where it ends, for all."""
        return (
            self.replay.bounds(process) if self.replay is not None and self.is_bounded else ENDLESS
        )

    def settings_of_worker(self, number: int) -> Settings:
        """Of all workers the same."""
        return self.settings

    def _go_on(self, process: Process | None, choice: int, size: int) -> None:
        if process is None:
            return
        process.thread.fetch_records = size
        actions = process.actions()
        if actions:
            actions[choice % len(actions)]()
            self._look_at(process)
        self._moments += 1
        if self._moments % MOMENTS == 0 and not (process.dead or process.frozen):
            self.on_moment(self, process)

    def _look_at(self, process: Process) -> None:
        """What became of a process; an end that nothing explains is a violation."""
        error = process.failure()
        if error is None:
            if process.dead:
                self._bury(process)
            return
        if isinstance(error, Violation):
            raise error
        if not isinstance(error, (Killed, Ended)):
            raise Violation("exception", f"{process.name}: {error!r}") from error
        process.end = error
        self.tell(f"{process.name} ended: {error!r}")
        self.seen["ended itself" if isinstance(error, Ended) else "killed at a point"] += 1
        if not (process.is_excused or self._is_overtaken(process)):
            raise Violation("end", f"{process.name} ended itself: {error!r}") from error
        self._bury(process)

    def _is_overtaken(self, process: Process) -> bool:
        """Its partitions are others' by now, and it does not know: what it reads may make no sense
        to it.

        So it may end itself, and all it says is to be taken with care; the broker takes nothing of
        it.
        """
        return process.held is not None and process.held.generation != self.broker.group.generation

    def _bury(self, process: Process) -> None:
        process.kill()
        process.failure()
        if process in self.zombies:
            self.zombies.remove(process)

    def _check_restored(self, process: Process) -> None:
        is_owner = self.is_owner(process)
        self.seen["takeovers" if is_owner else "takeovers of what is another's by then"] += 1
        self.on_takeover(self, process)

    def is_owner(self, process: Process) -> bool:
        """Whether the group takes commits of its assignment. A static member that was replaced may
        have the present generation.
        """
        group = self.broker.group
        return (
            process.held is not None
            and process.held.generation == group.generation
            and process.member_id not in group.replaced
        )

    # -- time --------------------------------------------------------------------------------------

    def _pass_time(self, seconds: float) -> None:
        """Sessions and transactions run out, generations begin."""
        self.clock.now += seconds
        self.seen["transactions timed out"] += self.broker.expire()
        self._expire_members()
        group = self.broker.group
        if group.is_complete:
            self._begin_generation()
        if group.joined is None:
            self._rebalancing_since = None
        elif self._rebalancing_since is None:
            self._rebalancing_since = self.clock.now

    def _expire_members(self) -> None:
        group, now = self.broker.group, self.clock.now
        rebalanced_long = (
            self._rebalancing_since is not None and now - self._rebalancing_since > SESSION_SECONDS
        )
        for member_id, process in list(group.members.items()):
            if process.dead or process.frozen:
                is_silent = now - self._since.setdefault(process, now) > SESSION_SECONDS
            else:
                is_silent = False
                self._since.pop(process, None)
            is_late = rebalanced_long and group.joined is not None and member_id not in group.joined
            if is_silent or is_late:
                self.seen["members expired"] += 1
                group.leave(member_id)

    def _begin_generation(self) -> None:
        group = self.broker.group
        group.generation += 1
        group.joined = None
        self.seen["generations"] += 1
        members = sorted(group.members.items())
        owners = {p: (self._shuffle // 3**p) % len(members) for p in self.partitions}
        for number, (_, process) in enumerate(members):
            actives = frozenset(p for p in self.partitions if owners[p] == number)
            standbys = frozenset(
                p
                for p in self.partitions
                if self.setup.standbys
                and len(members) > 1
                and (owners[p] + 1) % len(members) == number
            )
            process.assignment = Assignment(group.generation, actives, standbys)
            group.assigned[process.name] = process.assignment
            self.tell(f"{process.name} is given {process.assignment}")

    # -- steps -------------------------------------------------------------------------------------

    def step_run(self, worker: int, choice: int, size: int) -> None:
        """A worker, or its zombie, goes on with one of the things it could do, or is
        started again.
        """
        zombies = [
            zombie for zombie in self.zombies if zombie.name == f"w{worker}" and not zombie.frozen
        ]
        self._go_on(zombies[0] if zombies and choice % 2 else self._worker(worker), choice, size)

    def step_work(self, rounds: int, size: int) -> None:
        """All workers go on for a while."""
        for round_ in range(rounds):
            for number in range(self.setup.workers):
                self._go_on(self._worker(number), round_, size)
            self._pass_time(STEP_SECONDS)

    def step_produce(self, partition: int, key: bytes, value: bytes | None, upstream: int) -> None:
        """A record of the input, of an upstream transaction perhaps."""
        transaction = None
        if upstream >= 0:
            transaction = self._upstream.setdefault(upstream, Transaction(self.clock.now))
        self.broker.log(self.settings.input_topic, partition).append(key, value, (), transaction)
        self.seen["events"] += 1

    def step_upstream(self, upstream: int, commit: bool) -> None:
        """The end of an upstream transaction."""
        transaction = self._upstream.pop(upstream, None)
        if transaction is not None:
            self.seen[f"upstream {'committed' if commit else 'aborted'}"] += 1
            self.broker.decide(transaction, COMMITTED if commit else ABORTED)

    def step_hole(self, partition: int, offsets: int) -> None:
        """Offsets without records, as compaction leaves them."""
        self.broker.log(self.settings.input_topic, partition).end += offsets

    def step_move(self, parts: tuple[str, ...], seconds: int) -> None:
        """Brokers hand over what they lead; for so long nobody does."""
        self.seen[f"moved: {' and '.join(parts)}"] += 1
        for part in parts:
            self.broker.away[part] = self.clock.now + seconds

    def step_tick(self, seconds: int) -> None:
        """Nothing happens for a while."""
        self._pass_time(seconds)

    def step_compact(self, partition: int, keep_tail: int) -> None:
        """The changelog's cleaner comes by."""
        self.seen["compactions"] += 1
        self.broker.log(self.changelog, partition).compact(keep_tail, TOMBSTONE_SECONDS)

    def step_arm(self, point: str, kind: str, when: str, passes: int, seconds: int) -> None:
        """Something will happen to the worker that passes a point next."""
        self.armed[point] = Fault(kind, when, passes, seconds)

    def step_kill(self, worker: int) -> None:
        """`kill -9`."""
        process = self.workers[worker]
        if process is not None and not process.dead:
            self.seen["kill -9"] += 1
            self._bury(process)

    def step_away(self, worker: int) -> None:
        """A worker's machine is down until it is back."""
        self.step_kill(worker)
        self._away.add(worker)

    def step_back(self, worker: int) -> None:
        """The machine is back, its disk as it was."""
        self._away.discard(worker)

    def step_freeze(self, worker: int) -> None:
        """SIGSTOP."""
        process = self.workers[worker]
        if process is not None and not process.dead and not process.frozen:
            self.seen["SIGSTOP"] += 1
            process.frozen = True

    def step_thaw(self) -> None:
        """SIGCONT to all."""
        for process in self._processes():
            process.frozen = False

    def step_stop(self, worker: int) -> None:
        """SIGTERM."""
        process = self.workers[worker]
        if process is not None and not process.dead and not process.stopping:
            self.seen["SIGTERM"] += 1
            process.stop()

    def step_rebalance(self, shuffle: int) -> None:
        """The group rebalances; partitions go elsewhere."""
        self._shuffle = shuffle
        if self.broker.group.members:
            self.broker.group.rebalance()

    def step_replace(self, worker: int) -> None:
        """A frozen worker gets a successor of the same instance id on another machine, with an
        empty disk.
        """
        process = self.workers[worker]
        if process is not None and process.frozen and not process.dead:
            self.seen["replaced"] += 1
            process.contested = True
            self.zombies.append(process)
            self.workers[worker] = None
            self.disks[worker] = {}

    def step_wipe(self, worker: int, partition: int) -> None:
        """A dead worker's database is lost."""
        self._on_disk(worker, "databases wiped", lambda disk: disk.pop(partition, None))

    def step_cut(self, worker: int, partition: int, writes: int) -> None:
        """Power fails: a database loses its last writes."""

        def cut(disk: Disk) -> None:
            if partition in disk:
                disk[partition].cut(writes)

        self._on_disk(worker, "power cuts", cut)

    def _on_disk(self, worker: int, name: str, change: Callable[[Disk], Any]) -> None:
        process = self.workers[worker]
        if process is not None and not process.dead:
            self._bury(process)
        self.seen[name] += 1
        change(self.disks[worker])

    def step_rewind(self, partition: int, offsets: int) -> None:
        """All workers are down, and someone sets the group's offsets back."""
        group = self.broker.group
        for process in list(self._processes()):
            self._bury(process)
        self._pass_time(SESSION_SECONDS + 1)
        if partition in group.committed and not group.is_pending([partition]):
            self.seen["offsets rewound"] += 1
            group.committed[partition] = max(0, group.committed[partition] - offsets)

    def step_sleep(self, days: int) -> None:
        """Days pass, and the changelog's cleaner with them."""
        self.seen[f"{days} days passed"] += 1
        for process in self._processes():
            process.excused = True  # a restore that took so long gives up
        self._pass_time(days * DAY_SECONDS)
        for partition in self.partitions:
            self.broker.log(self.changelog, partition).compact(0, TOMBSTONE_SECONDS)
