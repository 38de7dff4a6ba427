"""What each kind of fault does: a context, entered when it strikes and left when it is over.

Acts run in threads of their own. What a fault needs (`Fault.needs`) no other one touches meanwhile.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from aiokafka.errors import KafkaError as ClientError
from confluent_kafka import KafkaException

from tests.harness import damage
from tests.harness.armed import STEPS, Order
from tests.harness.cluster import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.harness.faults import NODES, Fault
from tests.harness.node import BrokerError, KafkaNode
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.proxy import Mode
from tests.harness.quota import set_quota
from tests.harness.raw_records import RawRecord, raw_batch, send_batch
from tests.harness.site import Site
from tests.harness.topics import producer
from tests.harness.workers import RESTARTED, WorkerError, WorkerProcess
from worker.kafka.topics import partition_of

Act = Callable[[Any, Fault], AbstractContextManager[None]]

BROKER_STOPS_SECONDS = 30.0
"""A broker that has not stopped after it is killed."""
GONE_SECONDS = 8.0
"""How long a neighbour is gone that is to make a rebalance: longer than a session (6 s here), for a
static member that is back within its own takes its place as if nothing had been.
"""
TRIGGER_SECONDS = 20.0
"""How long one rebalance may take to lead a worker to a step of it, the neighbour's absence
counted; then comes another.
"""
MOVE_SECONDS = 30.0
"""Longest wait for nodes to take over what they are to lead."""
FOREIGN_RECORDS, FOREIGN_TIMEOUT_MS = 20, 20_000
FOREIGN_SECONDS = 10.0
"""Deadline of each step of a foreign transaction; after it the test abandons the transaction.
"""


# -- at a step of a worker's protocol --------------------------------------------------------------


def reach(site: Site, fault: Fault, number: int, pid: int | None = None) -> WorkerProcess:
    """Return when the fault's worker got to the step, and the signal went to `pid`, or to itself.

    Events lead a worker to most steps; to some a rebalance, for which a neighbour goes and comes
    back, or a start without local state.
    """
    worker, trigger = site.worker(fault.worker), STEPS[fault.step]
    if trigger != "load":
        site.wait_for(site.all_ready, f"not ready for: {fault}")
    order = Order(fault.step, fault.passage, number, pid)
    if trigger == "restore":
        _terminate(site, worker)
        worker.wipe()
    with site.armed(worker):
        worker.arm(order)
        if trigger == "restore":
            site.start(worker)
        give_up_s, away, triggered_s = time.monotonic() + PATIENCE_SECONDS, None, 0.0
        while not worker.struck():
            now_s = time.monotonic()
            if now_s > give_up_s:
                raise WorkerError(f"never there: {fault}\n{site.logs()}")
            if trigger == "rebalance" and (
                away is None
                or (now_s - triggered_s > TRIGGER_SECONDS and away.done() and site.all_ready())
            ):
                others = site.workers
                neighbour = others[(others.index(worker) + 1) % len(others)]
                away, triggered_s = site.run(_away, site, neighbour), now_s
            site.sleep(0.05)
    return worker


def _away(site: Site, worker: WorkerProcess) -> None:
    """It is stopped, and started a while later."""
    _terminate(site, worker)
    site.sleep(GONE_SECONDS)
    site.start(worker)


def _terminate(site: Site, worker: WorkerProcess) -> None:
    """SIGTERM, at any step of its work."""
    site.hold(worker)
    # A crash may come first, and one that has only just started has no handler yet.
    code = worker.terminate() if worker.alive else worker.exit_code
    if code not in (0, -signal.SIGTERM, *RESTARTED):
        raise WorkerError(f"ended with {code} after SIGTERM\n{worker.log_end()}")


# -- workers ---------------------------------------------------------------------------------------


def worker_killed(then: Callable[[WorkerProcess], None] = lambda worker: None) -> Act:
    """Killed, and started again; `then` is what happens to its files in between."""

    @contextmanager
    def killed(site: Site, fault: Fault) -> Iterator[None]:
        worker = site.worker(fault.worker)
        if fault.step:
            reach(site, fault, signal.SIGKILL)
            worker.wait()
        else:
            if fault.kind in damage.DAMAGES:
                site.wait_for(worker.ready, f"not ready for: {fault}")
            site.wait_for(lambda: worker.alive, f"not started: {fault}")
            site.kill(worker)
        then(worker)
        yield
        site.start(worker)

    return killed


@contextmanager
def worker_stopped(site: Site, fault: Fault) -> Iterator[None]:
    """SIGTERM at any moment, also while it starts; started again."""
    worker = site.worker(fault.worker)
    site.wait_for(lambda: worker.alive, f"not started: {fault}")
    _terminate(site, worker)
    yield
    site.start(worker)


@contextmanager
def worker_frozen(site: Site, fault: Fault) -> Iterator[None]:
    """SIGSTOP, SIGCONT; some of them for longer than its session."""
    worker = site.worker(fault.worker)
    if fault.step:
        reach(site, fault, signal.SIGSTOP)
        site.release(worker)
    else:
        site.wait_for(lambda: worker.alive, f"not started: {fault}")
        with contextlib.suppress(WorkerError):  # it has just ended by itself
            worker.pause()
    try:
        yield
    finally:
        if worker.paused:
            worker.resume()


@contextmanager
def worker_restarted(site: Site, fault: Fault) -> Iterator[None]:
    """Stopped in an orderly way, started at once, and ready."""
    _restart(site, site.worker(fault.worker))
    yield


@contextmanager
def workers_rolled(site: Site, fault: Fault) -> Iterator[None]:
    """Each is restarted in an orderly way, one after the other."""
    for worker in site.pipelines[0].workers:
        _restart(site, worker)
    yield


def _restart(site: Site, worker: WorkerProcess) -> None:
    site.stop(worker)
    site.start(worker)
    site.wait_for(worker.ready, "not ready after an ordered restart")


@contextmanager
def worker_added(site: Site, fault: Fault) -> Iterator[None]:
    """One more is started; then it is stopped, and ends in order."""
    worker = site.worker(fault.worker)
    site.start(worker)
    yield
    site.stop(worker)


@contextmanager
def disk_full(site: Site, fault: Fault) -> Iterator[None]:
    """Its disk is full: it ends and says so, and so does each start until there is room."""
    site.disks[fault.worker].fill()
    try:
        yield
    finally:
        site.disks[fault.worker].clear()


@contextmanager
def clock_stepped(site: Site, fault: Fault) -> Iterator[None]:
    """The clock of a worker or a broker goes wrong, and is put right.

    A broker whose clock went back may wait with a connection until it has passed the time of its
    last attempt: minutes. It is killed and started again where it is not in sync soon.
    """
    name = fault.worker or f"node {fault.nodes[0]}"
    site.clocks[name].step(fault.amount)
    try:
        yield
    finally:
        site.clocks[name].step(0)
    if fault.nodes:
        site.wait_in_sync()
        if not site.kafka.in_sync():
            site.note(f"{name} is not in sync since its clock was put right: started again")
            with broker_away(KafkaNode.kill)(site, Fault("broker killed", nodes=fault.nodes)):
                pass


# -- brokers ---------------------------------------------------------------------------------------


def broker_away(how: Callable[[KafkaNode], None]) -> Act:
    """Nodes end, and are started again."""

    @contextmanager
    def away(site: Site, fault: Fault) -> Iterator[None]:
        nodes = site.nodes(fault.nodes)
        site.hold(*nodes)
        if fault.step:
            site.release(reach(site, fault, signal.SIGKILL, nodes[0].pid))
        for node in nodes:
            how(node)
        try:
            yield
        finally:
            for node in nodes:
                node.launch()
            for node in nodes:
                node.wait_until_it_serves()
            site.release(*nodes)

    return away


@contextmanager
def broker_frozen(site: Site, fault: Fault) -> Iterator[None]:
    """SIGSTOP, SIGCONT."""
    nodes = site.nodes(fault.nodes)
    for node in nodes:
        node.pause()
    try:
        yield
    finally:
        for node in nodes:
            node.resume()


@contextmanager
def brokers_rolled(site: Site, fault: Fault) -> Iterator[None]:
    """Each node is stopped and started, one after the other, as for an upgrade."""
    for number in NODES:
        with broker_away(_stop_broker)(site, Fault("broker stopped", nodes=(number,))):
            pass
        site.wait_for(lambda: not site.kafka.displaced(), "not whole")
    yield


def _stop_broker(node: KafkaNode) -> None:
    node.stop(BROKER_STOPS_SECONDS)


@contextmanager
def leaders_moved(site: Site, fault: Fault) -> Iterator[None]:
    """Every leader of the workers' topics and of the coordinators' moves to the next node; and
    again when it is over.
    """
    live = site.pipelines[0]
    topics = (live.input_topic, live.output_topic, live.changelog_topic)
    _move(site, *topics, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    yield
    _move(site, *topics, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


@contextmanager
def coordinators_moved(site: Site, fault: Fault) -> Iterator[None]:
    """Every coordinator of groups and transactions moves to the next node."""
    try:
        _move(site, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    except (BrokerError, KafkaException) as cause:
        site.note(f"coordinators did not all move: {cause}")
    yield


def _move(site: Site, *topics: str) -> None:
    """Each leader of these moves to the next node."""

    def move() -> None:
        site.kafka.lead(
            {
                (topic, partition): leader % len(NODES) + 1
                for topic in topics
                for partition, leader in site.kafka.leaders(topic).items()
                if leader > 0
            }
        )

    _patiently(move, MOVE_SECONDS)


@contextmanager
def quota(site: Site, fault: Fault) -> Iterator[None]:
    """All clients send and read no more than so many bytes a second at each broker."""
    servers = site.kafka.bootstrap_servers
    _patiently(lambda: set_quota(servers, fault.amount), PATIENCE_SECONDS)
    try:
        yield
    finally:
        _patiently(lambda: set_quota(servers, None), PATIENCE_SECONDS)


def _patiently(call: Callable[[], None], seconds: float) -> None:
    """Ask again while brokers are away."""
    give_up_s = time.monotonic() + seconds
    while True:
        try:
            return call()
        except Exception:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.5)


def network(mode: Mode) -> Act:
    """The network between a worker and nodes is in this mode."""

    @contextmanager
    def broken(site: Site, fault: Fault) -> Iterator[None]:
        proxies = [site.kafka.proxy(fault.worker, node.number) for node in site.nodes(fault.nodes)]
        for proxy in proxies:
            proxy.set(mode, bytes_per_s=fault.amount)
        try:
            yield
        finally:
            for proxy in proxies:
                if fault.reset:
                    proxy.set("reset")
                proxy.set("pass")

    return broken


# -- the input and the replay ----------------------------------------------------------------------


def foreign_producer(site: Site) -> Any:
    """A transactional producer of somebody else; it aborts what the one before it left open."""
    config = {"transactional.id": "foreign", "transaction.timeout.ms": FOREIGN_TIMEOUT_MS}
    return producer(site.kafka.bootstrap_servers, **config)


def send_strange(site: Any) -> None:
    """Send what clients in Python do not: a good event under a header name that is not UTF-8, a bad
    one under a header of a megabyte, a frame without a schema, and a small batch of 65 MiB.
    """
    good = next(site.foreign_events)
    records = (
        RawRecord(good.key or b"foreign", good.value, [(b"\xff", b"1")]),
        RawRecord(b"foreign", b"no json", [(b"large", b"x" * 1_010_000)]),
        RawRecord(b"foreign", b"\0\xff\xff\xff\xff{}"),
        RawRecord(b"foreign", bytes(65 * 2**20)),
    )
    pipeline = site.pipelines[0]

    def is_sent(record: RawRecord) -> bool:
        batch = raw_batch([record], "none" if record.headers else "zstd")
        partition = partition_of((record.key or b"").decode(), pipeline.partitions)
        with contextlib.suppress(ClientError):  # of a broker that is away
            send_batch(site.kafka.bootstrap_servers, pipeline.input_topic, batch, partition)
            return True
        return False

    for record in records:
        site.wait_for(partial(is_sent, record), "a strange record is not sent")


def foreign(how: str) -> Act:
    """Another producer writes records in a transaction, and commits it, aborts it, or leaves it
    open before it does either. One that commits also sends strange records.
    """

    @contextmanager
    def transacted(site: Any, fault: Fault) -> Iterator[None]:
        chance = random.Random(fault.at)
        committed = how == "committed" or (how == "left open" and chance.random() < 0.5)
        if how == "committed":
            send_strange(site)
        sender = foreign_producer(site)
        begun = False
        with contextlib.suppress(KafkaException):
            sender.init_transactions(FOREIGN_SECONDS)
            sender.begin_transaction()
            begun = True
            for _ in range(FOREIGN_RECORDS):
                event = next(site.foreign_events)
                # A null value deletes the entity: it would be seen if an aborted one counted.
                sender.produce(
                    site.pipelines[0].input_topic,
                    key=event.key or b"foreign",
                    value=event.value if committed else None,
                )
            sender.flush(FOREIGN_SECONDS)
        yield
        if begun:
            with contextlib.suppress(KafkaException):
                end = sender.commit_transaction if committed else sender.abort_transaction
                end(FOREIGN_SECONDS)

    return transacted


@contextmanager
def replay_begun(site: Any, fault: Fault) -> Iterator[None]:
    """The replay of what is in the input now is started."""
    site.begin_replay()
    yield


@contextmanager
def replay_killed(site: Any, fault: Fault) -> Iterator[None]:
    """Killed, and started again: the replay, or the worker that resumed from it."""
    site.wait_for(lambda: site.replay is not None, "the replay has not begun")
    with worker_killed()(site, fault):
        yield


ACTS: dict[str, Act] = {
    "nothing": lambda site, fault: contextlib.nullcontext(),
    "broker stopped": broker_away(_stop_broker),
    "broker killed": broker_away(KafkaNode.kill),
    "broker frozen": broker_frozen,
    "broker's clock stepped": clock_stepped,
    "brokers rolled": brokers_rolled,
    "leaders moved": leaders_moved,
    "coordinators moved": coordinators_moved,
    "quota": quota,
    "requests lost": network("swallow"),
    "answers lost": network("mute"),
    "connections reset": network("reset"),
    "slow link": network("slow"),
    "worker killed": worker_killed(),
    "worker frozen": worker_frozen,
    "worker stopped": worker_stopped,
    "worker restarted": worker_restarted,
    "workers rolled": workers_rolled,
    "worker added": worker_added,
    "worker's clock stepped": clock_stepped,
    "disk full": disk_full,
    **{name: worker_killed(done) for name, done in damage.DAMAGES.items()},
    "foreign transaction committed": foreign("committed"),
    "foreign transaction aborted": foreign("aborted"),
    "foreign transaction left open": foreign("left open"),
    "replay begun": replay_begun,
    "replay killed": replay_killed,
}
