"""What each kind of fault of a storm does: one context each, entered when it strikes and left when
it is over.

They run in threads of their own, two at a time. What a fault needs for itself (`Fault.needs`) no
other one touches meanwhile.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from confluent_kafka import KafkaException

from tests.harness.cluster import NODES, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.harness.node import BrokerError
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.proxy import Mode
from tests.harness.quota import set_quota
from tests.harness.storm_schedule import Fault
from tests.harness.storm_site import StormSite
from tests.harness.workers import WorkerError

Act = Callable[[StormSite, Fault], AbstractContextManager[None]]

BROKER_STOPS_SECONDS = 30.0
"""A broker that has not stopped after it is killed."""
IN_SYNC_SECONDS = 15.0
"""Longest wait for the replicas of a broker that is back; the next fault may come where they take
longer.
"""
COORDINATORS_MOVE_SECONDS = 30.0
"""Longest wait for nodes to take over what they are to coordinate."""
FOREIGN_RECORDS = 20
FOREIGN_SECONDS = 10.0
"""Deadline of each step of a foreign transaction; past it the transaction is given up, whatever
became of it.
"""


# -- brokers ---------------------------------------------------------------------------------------


@contextmanager
def broker_stopped(site: StormSite, fault: Fault) -> Iterator[None]:
    """Stopped in an orderly way, and started again."""
    site.cluster.node(fault.node).stop(BROKER_STOPS_SECONDS)
    yield
    site.cluster.start(fault.node)


@contextmanager
def broker_killed(site: StormSite, fault: Fault) -> Iterator[None]:
    """Killed, and started again."""
    site.cluster.node(fault.node).kill()
    yield
    site.cluster.start(fault.node)


@contextmanager
def broker_frozen(site: StormSite, fault: Fault) -> Iterator[None]:
    """SIGSTOP, SIGCONT."""
    site.cluster.pause(fault.node)
    try:
        yield
    finally:
        site.cluster.resume(fault.node)


@contextmanager
def broker_clock_stepped(site: StormSite, fault: Fault) -> Iterator[None]:
    """Its clock goes wrong, and is put right.

    A broker whose clock went back may wait with a connection until it has passed the time of its
    last attempt: minutes. It is killed and started again where it is not in sync soon.
    """
    clock = site.broker_clocks[fault.node - 1]
    clock.step(fault.amount)
    try:
        yield
    finally:
        clock.step(0)
    if not wait_in_sync(site):
        site.note(f"node {fault.node} is not in sync since its clock was put right: started again")
        site.cluster.node(fault.node).kill()
        site.cluster.start(fault.node)


@contextmanager
def coordinators_moved(site: StormSite, fault: Fault) -> Iterator[None]:
    """Every coordinator of groups and transactions moves to the next node."""
    give_up_s = time.monotonic() + COORDINATORS_MOVE_SECONDS
    while True:
        try:
            site.cluster.lead(
                {
                    (topic, partition): leader % NODES + 1
                    for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
                    for partition, leader in site.cluster.leaders(topic).items()
                    if leader > 0
                }
            )
            break
        except (BrokerError, KafkaException) as cause:
            if time.monotonic() > give_up_s:
                site.note(f"coordinators did not all move: {cause}")
                break
            time.sleep(1)
    yield


@contextmanager
def quota(site: StormSite, fault: Fault) -> Iterator[None]:
    """All clients send and read no more than so many bytes a second at each broker."""
    _patiently(lambda: set_quota(site.cluster.bootstrap_servers, fault.amount))
    try:
        yield
    finally:
        _patiently(lambda: set_quota(site.cluster.bootstrap_servers, None))


def wait_in_sync(site: StormSite) -> bool:
    """Whether every replica was in sync within a while."""
    give_up_s = time.monotonic() + IN_SYNC_SECONDS
    while time.monotonic() < give_up_s:
        with contextlib.suppress(KafkaException):
            topics = site.cluster.admin().list_topics(timeout=5).topics.values()
            partitions = [partition for topic in topics for partition in topic.partitions.values()]
            if partitions and all(len(one.isrs) == len(one.replicas) for one in partitions):
                return True
        time.sleep(0.5)
    return False


def _patiently(call: Callable[[], None]) -> None:
    """Ask again while brokers are away."""
    give_up_s = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except Exception:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.5)


# -- networks --------------------------------------------------------------------------------------


def network(mode: Mode) -> Act:
    """The network between a worker and one node, or all of them, is in this mode."""

    @contextmanager
    def broken(site: StormSite, fault: Fault) -> Iterator[None]:
        proxies = site.cluster.proxies[fault.client]
        if fault.node:
            proxies = [proxies[fault.node - 1]]
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


# -- workers ---------------------------------------------------------------------------------------


@contextmanager
def worker_killed(site: StormSite, fault: Fault) -> Iterator[None]:
    """Killed, and started again."""
    with site.killed(site.workers[fault.client]):
        yield


@contextmanager
def worker_frozen(site: StormSite, fault: Fault) -> Iterator[None]:
    """SIGSTOP, SIGCONT; some of them for longer than its session."""
    worker = site.workers[fault.client]
    # One that has just ended by itself is started again by whoever watches it.
    with contextlib.suppress(WorkerError):
        worker.pause()
    try:
        yield
    finally:
        if worker.paused:
            worker.resume()


@contextmanager
def worker_added(site: StormSite, fault: Fault) -> Iterator[None]:
    """One more is started; then it is told to end, and ends in order."""
    worker = site.workers[fault.client]
    site.start(worker)
    yield
    site.stop(worker)


@contextmanager
def worker_clock_stepped(site: StormSite, fault: Fault) -> Iterator[None]:
    """Its clock goes wrong, and is put right."""
    clock = site.worker_clocks[fault.client]
    clock.step(fault.amount)
    try:
        yield
    finally:
        clock.step(0)


@contextmanager
def disk_full(site: StormSite, fault: Fault) -> Iterator[None]:
    """Its disk is full: it ends and says so, and so does each start until there is room."""
    disk = site.disks[fault.client]
    disk.fill()
    try:
        yield
    finally:
        disk.clear()


# -- the input -------------------------------------------------------------------------------------


def foreign(how: str) -> Act:
    """Another producer writes records in a transaction, and commits it, aborts it, or leaves it
    open before it does either.
    """

    @contextmanager
    def transacted(site: StormSite, fault: Fault) -> Iterator[None]:
        chance = random.Random(fault.at_s)
        committed = how == "committed" or (how == "open" and chance.random() < 0.5)
        sender = site.foreign_producer()
        begun = False
        with contextlib.suppress(KafkaException):
            sender.init_transactions(FOREIGN_SECONDS)
            sender.begin_transaction()
            begun = True
            for _ in range(FOREIGN_RECORDS):
                event = next(site.foreign_events)
                # A null value deletes the entity: it would be seen if an aborted one counted.
                sender.produce(
                    site.live.input_topic,
                    key=event.key or b"foreign",
                    value=event.value if committed else None,
                )
            sender.flush(FOREIGN_SECONDS)
        yield
        if begun:
            with contextlib.suppress(KafkaException):
                (sender.commit_transaction if committed else sender.abort_transaction)(
                    FOREIGN_SECONDS
                )

    return transacted


# -- the replay ------------------------------------------------------------------------------------


@contextmanager
def replay_killed(site: StormSite, fault: Fault) -> Iterator[None]:
    """Killed, and started again: the replay, or the worker that resumed from it."""
    with site.replay_killed():
        yield


ACTS: dict[str, Act] = {
    "broker stopped": broker_stopped,
    "broker killed": broker_killed,
    "broker frozen": broker_frozen,
    "broker's clock stepped": broker_clock_stepped,
    "coordinators moved": coordinators_moved,
    "quota": quota,
    "requests lost": network("swallow"),
    "answers lost": network("mute"),
    "connections reset": network("reset"),
    "slow link": network("slow"),
    "worker killed": worker_killed,
    "worker frozen": worker_frozen,
    "worker added": worker_added,
    "worker's clock stepped": worker_clock_stepped,
    "disk full": disk_full,
    "foreign transaction committed": foreign("committed"),
    "foreign transaction aborted": foreign("aborted"),
    "foreign transaction left open": foreign("open"),
    "replay killed": replay_killed,
}
