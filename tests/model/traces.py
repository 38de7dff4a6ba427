"""The simulator's runs as steps of the model, one line each.

A run is simulated as ever, and what its brokers, its group and its workers do is noted beside it.
`tests/model/src/replay.rs` then takes the same steps in the model. Left out of the plans are steps
that no Kafka does by itself: an operator who sets offsets back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation.broker import COMMITTED, Broker, Group, Refused
from tests.simulation.clients import File, Producer
from tests.simulation.fibers import Fiber
from tests.simulation.plan import draw_plan
from tests.simulation.process import Process
from tests.simulation.surroundings import silence
from tests.simulation.world import World, settings_of
from worker.processing.processor import Processor
from worker.state.keys import APPLIED
from worker.state.rows import decode_applied
from worker.stream.assignment import Assignment
from worker.stream.commit import InFlight, Stage
from worker.stream.settlement import Settlement
from worker.stream.takeover import Takeover

PARTITIONS = 3
"""As many as the model has; a setup may use fewer."""


def trace(seed: int, focus: str | None = None) -> list[str]:
    """The lines of a seed, of a plan full of one kind of step perhaps.

    The first one has the seed, the number of its workers and that of its partitions.
    """
    plan = draw_plan(seed, focus)
    plan = replace(plan, steps=tuple(step for step in plan.steps if step.kind != "rewind"))
    world = World(plan, settings_of(plan.setup))
    notes = _Notes(world)
    with silence(), _noting(notes):
        try:
            world.run()
        finally:
            world.close()
    return [f"seed {seed} {plan.setup.workers} {plan.setup.partitions}", *notes.lines]


class _Notes:
    """The lines so far.

    Attributes:
        ended: processes that run no more; what their `finally` blocks do is no step.
        epochs: by process, the producer epoch of its last transaction.
        given_up: processes and epochs of transactions whose calls nobody waits for.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.lines: list[str] = []
        self.numbers: dict[Process, int] = {}
        self.started: set[Process] = set()
        self.ended: set[Process] = set()
        self.fetching: set[Process] = set()
        self.epochs: dict[Process, int] = {}
        self.given_up: set[tuple[Process, int]] = set()
        self._zombies = world.setup.workers

    def note(self, process: Process | None, kind: str, *numbers: object) -> None:
        """One step of a process."""
        if process is not None and process not in self.ended:
            number = self.numbers.setdefault(process, int(process.name[1:]))
            self.lines.append(" ".join(map(str, (kind, number, *numbers))))

    def note_id(self, kind: str, instance_id: str, *numbers: object) -> None:
        """One step that concerns an instance id or a transactional id, which ends with it."""
        number = instance_id.rpartition("w")[2]
        self.lines.append(" ".join(map(str, (kind, number, *numbers))))

    def replaced(self, process: Process) -> None:
        """A frozen process gets a successor: in the model it is another worker from now on."""
        self.note(process, "replace")
        self.numbers[process] = self._zombies
        self._zombies += 1

    @property
    def process(self) -> Process | None:
        """The process whose fiber runs."""
        if Fiber.current is None:
            return None
        siblings = Fiber.current.siblings
        return next((p for p in self.world._processes() if p.fibers is siblings), None)


@contextmanager
def _noting(notes: _Notes) -> Iterator[None]:
    with ExitStack() as stack:
        for patches in (_of_brokers, _of_the_group, _of_takeovers, _of_commits):
            for patched, name, beside in patches(notes):
                stack.enter_context(patch.object(patched, name, beside(getattr(patched, name))))
        yield


Patches = Iterator[tuple[Any, str, Callable[[Any], Any]]]


def _of_brokers(notes: _Notes) -> Patches:
    def fencing(fence: Any) -> Any:
        def noted(self: Any, producer: Any) -> None:
            (name,) = (name for name, one in self._producers.items() if one is producer)
            notes.note_id("expire", name)
            fence(self, producer)

        return noted

    def acting(stage: str, call: Any) -> Any:
        def noted(self: Any, transactional_id: str, epoch: int, *arguments: Any) -> None:
            process = notes.process
            kind = "late" if (process, epoch) in notes.given_up else "act"
            try:
                call(self, transactional_id, epoch, *arguments)
            except Refused:
                notes.note(process, kind, stage, 0)
                raise
            notes.note(process, kind, stage, 1)

        return noted

    def ending(end: Any) -> Any:
        commit = acting("commit", end)

        def noted(self: Any, transactional_id: str, epoch: int, state: str) -> None:
            if state == COMMITTED:
                commit(self, transactional_id, epoch, state)
                notes.note_id("mark", transactional_id)
            else:
                end(self, transactional_id, epoch, state)
                notes.note_id("expire", transactional_id)

        return noted

    def taking(init: Any) -> Any:
        def noted(self: Any, timeout: float) -> None:
            init(self, timeout)
            process = notes.process
            if process is not None:
                notes.note(process, "decide" if process in notes.started else "start")
                notes.started.add(process)

        return noted

    def beginning(begin: Any) -> Any:
        def noted(self: Any) -> None:
            process = notes.process
            assert process is not None
            notes.epochs[process] = self._epoch
            begin(self)

        return noted

    def flushing(flush: Any) -> Any:
        def noted(self: Any, timeout: float) -> int:
            has_records = bool(self._queue)
            process = notes.process
            kind = "late" if (process, self._epoch) in notes.given_up else "act"
            result = flush(self, timeout)
            if has_records and self._refused is None:
                notes.note(process, kind, "flush", 1)
            return result

        return noted

    def calling(call: Any) -> Any:
        def noted(self: Any, *arguments: Any) -> None:
            notes.note(notes.process, "call")
            call(self, *arguments)

        return noted

    yield Broker, "_fence", fencing
    yield Broker, "add_offsets", lambda call: acting("offsets", call)
    yield Broker, "end", ending
    yield Producer, "init_transactions", taking
    yield Producer, "begin_transaction", beginning
    yield Producer, "flush", flushing
    yield Producer, "send_offsets_to_transaction", calling
    yield Producer, "commit_transaction", calling


def _of_the_group(notes: _Notes) -> Patches:
    def joining(join: Any) -> Any:
        def noted(self: Any, member_id: str, host: Process) -> Any:
            notes.note(host, "join")
            return join(self, member_id, host)

        return noted

    def joining_again(join: Any) -> Any:
        async def noted(self: Process) -> None:
            before = self.member_id
            await join(self)
            joined = self.broker.group.joined
            if self.member_id == before and joined is not None and before in joined:
                notes.note(self, "join")

        return noted

    def leaving(leave: Any) -> Any:
        def noted(self: Group, member_id: str) -> None:
            if member_id in self.members:
                notes.note_id("expel", self.members[member_id].name)
            leave(self, member_id)

        return noted

    def rebalancing(step: Any) -> Any:
        def noted(self: World, shuffle: int) -> None:
            group = self.broker.group
            if group.members and group.joined is None:
                notes.lines.append("rebalance")
            step(self, shuffle)

        return noted

    def giving(begin: Any) -> Any:
        def noted(self: World) -> None:
            begin(self)
            members = self.broker.group.members.values()
            owners = {p: one.name[1:] for one in members for p in one.assignment.actives}
            rest = next(iter(members)).name[1:]
            notes.lines.append(
                " ".join(["generation", *(owners.get(p, rest) for p in range(PARTITIONS))])
            )

        return noted

    def killing(kill: Any) -> Any:
        def noted(self: Process) -> None:
            if self in notes.started:
                notes.note(self, "kill")
            notes.ended.add(self)
            kill(self)

        return noted

    def replacing(step: Any) -> Any:
        def noted(self: World, worker: int) -> None:
            process = self.workers[worker]
            step(self, worker)
            if process is not None and process in self.zombies:
                notes.replaced(process)

        return noted

    yield Group, "join", joining
    yield Group, "leave", leaving
    yield Process, "_join", joining_again
    yield Process, "kill", killing
    yield World, "step_rebalance", rebalancing
    yield World, "step_replace", replacing
    yield World, "_begin_generation", giving


def _of_takeovers(notes: _Notes) -> Patches:
    def fetching(fetch: Any) -> Any:
        async def noted(self: Takeover) -> Any:
            process = notes.process
            assert process is not None
            notes.fetching.add(process)
            try:
                return await fetch(self)
            finally:
                notes.fetching.discard(process)

        return noted

    def calling(act: Any) -> Any:
        def noted(self: Process, point: str, action: Any) -> Any:
            result = act(self, point, action)
            if point == "committed" and self in notes.fetching:
                offsets = {answer.partition: max(0, answer.offset) for answer in result}
                notes.note(self, "fetch", *(offsets.get(p, -1) for p in range(PARTITIONS)))
            return result

        return noted

    def restoring(restored: Any) -> Any:
        def noted(self: Assignment, starts: Any) -> None:
            process = notes.process
            if process is not None and starts:
                disk = process.disk
                rows = [_applied(disk.get(p)) if p in starts else -1 for p in range(PARTITIONS)]
                notes.note(process, "restore", *rows)
            restored(self, starts)

        return noted

    yield Takeover, "fetch_starts", fetching
    yield Process, "_act", calling
    yield Assignment, "restored", restoring


def _applied(file: File | None) -> int:
    """The first offset that a copy's rows do not hold."""
    value = None if file is None else file.rows.get(APPLIED)
    return 0 if value is None else decode_applied(APPLIED, value).next_offset


def _of_commits(notes: _Notes) -> Patches:
    def processing(processed: Any) -> Any:
        def noted(self: InFlight, batch: Any, *arguments: Any) -> None:
            processed(self, batch, *arguments)
            process = notes.process
            if process is not None and self.tenure == process.worker.assignment.tenure:
                ends = [batch.next_offsets.get(p, -1) for p in range(PARTITIONS)]
                notes.note(process, "process", *ends)

        return noted

    def reaching(reach: Any) -> Any:
        def noted(self: InFlight, stage: Stage) -> None:
            reach(self, stage)
            if stage is Stage.IN_FLIGHT:
                notes.note(notes.process, "begin")

        return noted

    def storing(committed: Any) -> Any:
        def noted(self: Processor, batch: Any) -> None:
            notes.note(notes.process, "store")
            committed(self, batch)

        return noted

    def settling(settle: Any) -> Any:
        async def noted(self: Settlement, *arguments: Any) -> bool:
            process = notes.process
            if process is not None:
                notes.note(process, "doubt")
                notes.given_up.add((process, notes.epochs[process]))
            return bool(await settle(self, *arguments))

        return noted

    yield InFlight, "processed", processing
    yield InFlight, "reach", reaching
    yield Processor, "committed", storing
    yield Settlement, "settle", settling
