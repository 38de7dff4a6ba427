"""The simulator's runs as steps of the model, one line each.

A run is simulated as ever, and what its brokers, its group and its workers do is noted beside it;
`tests/model/src/replay.rs` takes the same steps in the model. One step is left out of the plans: an
operator who sets offsets back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
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
    notes = Notes(world)
    with silence(), ExitStack() as patches:
        for owner, name, beside in NOTED:
            patches.enter_context(patch.object(owner, name, notes.beside(owner, name, beside)))
        try:
            world.run()
        finally:
            world.close()
    return [f"seed {seed} {plan.setup.workers} {plan.setup.partitions}", *notes.lines]


class Notes:
    """The lines so far.

    Attributes:
        numbers: by process, which worker of the model it is.
        ended: processes that run no more; what their `finally` blocks do is no step.
        fetching: processes that ask for the offsets of a takeover.
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
        self.workers = world.setup.workers

    def beside(self, owner: Any, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A method that does what it did, and notes it."""
        original = getattr(owner, name)
        return lambda *arguments: function(self, original, *arguments)

    def line(self, *words: object) -> None:
        """One more."""
        self.lines.append(" ".join(map(str, words)))

    def note(self, kind: str, *words: object, of: Process | None = None) -> None:
        """A step of a process: of the one whose fiber runs, if none is named."""
        process = of or self.process
        if process not in self.ended:
            self.line(kind, self.numbers.setdefault(process, int(process.name[1:])), *words)

    @property
    def process(self) -> Process:
        """The process whose fiber runs."""
        assert Fiber.current is not None
        siblings = Fiber.current.siblings
        return next(process for process in self.world._processes() if process.fibers is siblings)

    def note_call(self, stage: str, epoch: int, is_accepted: bool) -> None:
        """Brokers act on a call of a commit."""
        is_late = (self.process, epoch) in self.given_up
        self.note("late" if is_late else "act", stage, int(is_accepted))


# -- brokers: each function stands for a method, which it gets and calls


def _fence(notes: Notes, fence: Any, broker: Broker, producer: Any) -> None:
    (name,) = (name for name, transaction in broker._producers.items() if transaction is producer)
    notes.line("expire", name[-1])
    fence(broker, producer)


def _add_offsets(notes: Notes, add: Any, broker: Broker, id_: str, epoch: int, *rest: Any) -> None:
    try:
        add(broker, id_, epoch, *rest)
    except Refused:
        notes.note_call("offsets", epoch, False)
        raise
    notes.note_call("offsets", epoch, True)


def _end(notes: Notes, end: Any, broker: Broker, id_: str, epoch: int, state: str) -> None:
    try:
        end(broker, id_, epoch, state)
    except Refused:
        notes.note_call("commit", epoch, False)
        raise
    if state == COMMITTED:
        notes.note_call("commit", epoch, True)
    notes.line("mark" if state == COMMITTED else "expire", id_[-1])


def _init(notes: Notes, init: Any, producer: Producer, timeout: float) -> None:
    init(producer, timeout)
    notes.note("decide" if notes.process in notes.started else "start")
    notes.started.add(notes.process)


def _begin_transaction(notes: Notes, begin: Any, producer: Producer) -> None:
    notes.epochs[notes.process] = producer._epoch
    begin(producer)


def _flush(notes: Notes, flush: Any, producer: Producer, timeout: float) -> int:
    has_records = bool(producer._queue)
    result: int = flush(producer, timeout)
    if has_records and producer._refused is None:
        notes.note_call("flush", producer._epoch, True)
    return result


def _call(notes: Notes, call: Any, producer: Producer, *arguments: Any) -> None:
    notes.note("call")
    call(producer, *arguments)


# -- the group, and the ends of processes


def _enter(notes: Notes, join: Any, group: Group, member_id: str, host: Process) -> Any:
    notes.note("join", of=host)
    return join(group, member_id, host)


async def _join_again(notes: Notes, join: Any, process: Process) -> None:
    before = process.member_id
    await join(process)
    if process.member_id == before and before in (process.broker.group.joined or ()):
        notes.note("join", of=process)


def _leave(notes: Notes, leave: Any, group: Group, member_id: str) -> None:
    if member_id in group.members:
        notes.line("expel", group.members[member_id].name[1:])
    leave(group, member_id)


def _rebalance(notes: Notes, step: Any, world: World, shuffle: int) -> None:
    if world.broker.group.members and world.broker.group.joined is None:
        notes.line("rebalance")
    step(world, shuffle)


def _generation(notes: Notes, begin: Any, world: World) -> None:
    begin(world)
    members = list(world.broker.group.members.values())
    owners = {p: member.name[1:] for member in members for p in member.assignment.actives}
    notes.line("generation", *(owners.get(p, members[0].name[1:]) for p in range(PARTITIONS)))


def _kill(notes: Notes, kill: Any, process: Process) -> None:
    if process in notes.started:
        notes.note("kill", of=process)
    notes.ended.add(process)
    kill(process)


def _replace(notes: Notes, step: Any, world: World, worker: int) -> None:
    process = world.workers[worker]
    step(world, worker)
    if process is not None and process in world.zombies:
        notes.note("replace", of=process)
        notes.numbers[process] = notes.workers
        notes.workers += 1


# -- takeovers and commits


async def _fetch_starts(notes: Notes, fetch: Any, takeover: Takeover) -> Any:
    process = notes.process
    notes.fetching.add(process)
    try:
        return await fetch(takeover)
    finally:
        notes.fetching.discard(process)


def _act(notes: Notes, act: Any, process: Process, point: str, action: Any) -> Any:
    result = act(process, point, action)
    if point == "committed" and process in notes.fetching:
        offsets = {answer.partition: max(0, answer.offset) for answer in result}
        notes.note("fetch", *(offsets.get(p, -1) for p in range(PARTITIONS)), of=process)
    return result


def _restored(notes: Notes, restored: Any, assignment: Assignment, starts: Any) -> None:
    if starts:
        disk = notes.process.disk
        rows = (_applied(disk.get(p)) if p in starts else -1 for p in range(PARTITIONS))
        notes.note("restore", *rows)
    restored(assignment, starts)


def _applied(file: File | None) -> int:
    """The first offset that a copy's rows do not hold."""
    value = None if file is None else file.rows.get(APPLIED)
    return 0 if value is None else decode_applied(APPLIED, value).next_offset


def _processed(notes: Notes, processed: Any, flight: InFlight, batch: Any, *rest: Any) -> None:
    processed(flight, batch, *rest)
    if flight.tenure == notes.process.worker.assignment.tenure:
        notes.note("process", *(batch.next_offsets.get(p, -1) for p in range(PARTITIONS)))


def _reach(notes: Notes, reach: Any, flight: InFlight, stage: Stage) -> None:
    reach(flight, stage)
    if stage is Stage.IN_FLIGHT:
        notes.note("begin")


def _committed(notes: Notes, committed: Any, processor: Processor, batch: Any) -> None:
    notes.note("store")
    committed(processor, batch)


def _settle(notes: Notes, settle: Any, settlement: Settlement, *arguments: Any) -> Any:
    notes.note("doubt")
    notes.given_up.add((notes.process, notes.epochs[notes.process]))
    return settle(settlement, *arguments)


NOTED: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Broker, "_fence", _fence),
    (Broker, "add_offsets", _add_offsets),
    (Broker, "end", _end),
    (Producer, "init_transactions", _init),
    (Producer, "begin_transaction", _begin_transaction),
    (Producer, "flush", _flush),
    (Producer, "send_offsets_to_transaction", _call),
    (Producer, "commit_transaction", _call),
    (Group, "join", _enter),
    (Group, "leave", _leave),
    (Process, "_join", _join_again),
    (Process, "kill", _kill),
    (World, "step_rebalance", _rebalance),
    (World, "step_replace", _replace),
    (World, "_begin_generation", _generation),
    (Takeover, "fetch_starts", _fetch_starts),
    (Process, "_act", _act),
    (Assignment, "restored", _restored),
    (InFlight, "processed", _processed),
    (InFlight, "reach", _reach),
    (Processor, "committed", _committed),
    (Settlement, "settle", _settle),
)
