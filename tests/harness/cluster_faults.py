"""What happens to a cluster, and to the network between a worker and its brokers: acts, and lists
of faults made of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tests.harness.cluster import NODES, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, KafkaCluster
from tests.harness.proxy import Mode
from tests.harness.ride import ALL, CLIENTS, Act, ClusterFault, Ride, Where

# -- acts ------------------------------------------------------------------------------------------


def stop(*where: Where) -> Act:
    """Nodes are stopped in an orderly way and started again."""
    return _away(KafkaCluster.stop, *where)


def kill(*where: Where) -> Act:
    """Nodes are killed and started again."""
    return _away(KafkaCluster.kill, *where)


def freeze(*where: Where) -> Act:
    """Nodes are frozen, and go on."""

    @contextmanager
    def frozen(ride: Ride) -> Iterator[None]:
        numbers = ride.numbers(where)
        ride.cluster.pause(*numbers)
        try:
            yield
        finally:
            ride.cluster.resume(*numbers)

    return frozen


def network(mode: Mode, client: str, *where: Where) -> Act:
    """The network between one worker and these nodes is in this mode."""

    @contextmanager
    def broken(ride: Ride) -> Iterator[None]:
        proxies = [ride.cluster.proxy(client, number) for number in ride.numbers(where)]
        for proxy in proxies:
            proxy.set(mode)
        try:
            yield
        finally:
            for proxy in proxies:
                proxy.set("pass")

    return broken


def move_leaders() -> Act:
    """Every leader of the workers' topics and of the coordinators' moves to the next node; and
    again when it is over.
    """

    @contextmanager
    def moved(ride: Ride) -> Iterator[None]:
        _move_leaders(ride)
        yield
        _move_leaders(ride)

    return moved


def roll_brokers() -> Act:
    """Each node is stopped and started, one after the other, as for an upgrade."""

    @contextmanager
    def rolled(ride: Ride) -> Iterator[None]:
        for number in ALL:
            with stop(number)(ride):
                pass
            ride.meanwhile(ride.cluster.wait_until_whole)
        yield

    return rolled


def restart_worker() -> Act:
    """One worker is stopped in an orderly way and started at once."""

    @contextmanager
    def restarted(ride: Ride) -> Iterator[None]:
        ride.restart_in_order(ride.site.workers[0])
        yield

    return restarted


def kill_worker() -> Act:
    """One worker is killed, and started when it is over."""

    @contextmanager
    def killed(ride: Ride) -> Iterator[None]:
        worker = ride.site.workers[0]
        with ride.without(worker):
            worker.kill()
            yield

    return killed


def roll_workers() -> Act:
    """Each worker is stopped in an orderly way and started, one after the other: these ends are
    ordered.
    """

    @contextmanager
    def rolled(ride: Ride) -> Iterator[None]:
        for worker in ride.site.workers:
            ride.restart_in_order(worker)
        yield

    return rolled


def _away(how: Callable[..., None], *where: Where) -> Act:
    @contextmanager
    def away(ride: Ride) -> Iterator[None]:
        numbers = ride.numbers(where)
        ride.meanwhile(how, ride.cluster, *numbers)
        try:
            yield
        finally:
            # Not in another thread: what one starts is killed when it ends.
            ride.cluster.launch(*numbers)
            ride.meanwhile(ride.cluster.wait_until_they_serve, *numbers)

    return away


def _move_leaders(ride: Ride) -> None:
    site, cluster = ride.site, ride.cluster
    topics = (
        site.input_topic,
        site.output_topic,
        site.changelog_topic,
        OFFSETS_TOPIC,
        TRANSACTIONS_TOPIC,
    )
    wanted = {
        (topic, partition): leader % NODES + 1
        for topic in topics
        for partition, leader in cluster.leaders(topic).items()
    }
    ride.meanwhile(cluster.lead, wanted)


# -- lists of faults -------------------------------------------------------------------------------


def each_node(what: Callable[..., Act], seconds: Sequence[float]) -> list[ClusterFault]:
    """The same to each node in turn, for so long."""
    verb = what.__name__
    return [
        ClusterFault(f"{verb} {number} for {s:g} s", s, (what(number),))
        for number, s in zip(ALL, seconds, strict=True)
    ]


def each_network(mode: Mode, seconds: float) -> list[ClusterFault]:
    """The same between one worker and each node in turn, the workers too, then between one worker
    and all nodes.
    """
    some = [
        ClusterFault(
            f"{mode} {client} and {number} for {seconds:g} s",
            seconds,
            (network(mode, client, number),),
        )
        for number, client in zip(ALL, (CLIENTS[0], CLIENTS[1], CLIENTS[0]), strict=True)
    ]
    everywhere = network(mode, CLIENTS[1], *ALL)
    return [
        *some,
        ClusterFault(f"{mode} {CLIENTS[1]} and all for {seconds:g} s", seconds, (everywhere,)),
    ]


def random_faults(count: int, seed: int) -> list[ClusterFault]:
    """Nodes and networks, one or both at once, for 1 to 20 seconds."""
    chance = random.Random(seed)
    faults = []
    for _ in range(count):
        seconds = chance.choice([1.0, 4.0, 9.0, 20.0])
        acts: list[tuple[str, Act]] = []
        if chance.random() < 0.7:
            what, number = chance.choice([stop, kill, freeze]), chance.choice(ALL)
            acts.append((f"{what.__name__} {number}", what(number)))
        if chance.random() < 0.4 or not acts:
            modes: tuple[Mode, ...] = ("swallow", "mute", "reset")
            mode, client, number = chance.choice(modes), chance.choice(CLIENTS), chance.choice(ALL)
            acts.append((f"{mode} {client} and {number}", network(mode, client, number)))
        name = " with ".join(name for name, _ in acts)
        faults.append(
            ClusterFault(f"{name} for {seconds:g} s", seconds, tuple(act for _, act in acts))
        )
    return faults
