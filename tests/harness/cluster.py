"""A Kafka of three nodes: replication 3, min.insync.replicas 2, the internal topics too. What one
broker cannot show: moves.

Nodes are called by their numbers, 1 to 3. Run by itself it is a cluster for the hand:

    python -m tests.harness.cluster [--session-ms 6000]

prints its address and takes commands on its standard input: `stop 1`, `kill 2 3`, `pause 1`,
`resume 1`, `start 2 3`, `leaders TOPIC`, `lead TOPIC PARTITION NODE`, `coordinators
GROUP_OR_TRANSACTIONAL_ID`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition

from tests.bench.machine import command_line
from tests.harness.broker import SETTINGS, Kafka
from tests.harness.node import BrokerError, KafkaNode, free_port, new_cluster_id
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.proxy import Proxy

NODES = 3
COORDINATORS = 6
"""Partitions of either internal topic: each node leads two, so that groups and transactional ids
spread.
"""
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
REPLICATED = {
    **SETTINGS,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": str(COORDINATORS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": str(COORDINATORS),
    "inter.broker.listener.name": "INTERNAL",
    # A node that is back gets its partitions back within seconds, not five minutes: leaders move
    # twice at each fault.
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "5",
}


class KafkaCluster(Kafka):
    """Three Kafka nodes on 127.0.0.1, each broker and controller; `bootstrap_servers` names all of
    them.

    Args:
        directory: each node has a folder in it.
        settings: server properties over the defaults above, for every node.
        clients: names of clients that are each behind a network of their own: a proxy to each node
            (`proxies`), at the addresses of `servers_of`. Nodes talk to each other directly.
        session_ms: after so long without a heartbeat a broker counts as gone, and others lead what
            it led.
        heap_mib: of each node's Java.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        clients: Sequence[str] = (),
        session_ms: int = 6000,
        heap_mib: int = 400,
    ):
        self.directory = directory
        self.proxies: dict[str, list[Proxy]] = {client: [] for client in clients}
        voters = {number: free_port() for number in range(1, NODES + 1)}
        names = ["PLAINTEXT", "INTERNAL", "CONTROLLER", *map(listener, clients)]
        shared = {
            **REPLICATED,
            "controller.quorum.voters": ",".join(
                f"{n}@127.0.0.1:{port}" for n, port in voters.items()
            ),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "broker.session.timeout.ms": str(session_ms),
            "broker.heartbeat.interval.ms": str(session_ms // 4),
            **(settings or {}),
        }
        cluster_id = new_cluster_id()
        self.nodes: list[KafkaNode] = []
        for number, controller_port in voters.items():
            ports = {name: free_port() for name in names} | {"CONTROLLER": controller_port}
            given = shared | {"node.id": str(number)} | self._listeners(ports)
            place = directory / f"node-{number}"
            self.nodes.append(
                KafkaNode(place, given, cluster_id, ports["PLAINTEXT"], heap_mib=heap_mib)
            )
        self.bootstrap_servers = ",".join(node.address for node in self.nodes)
        self._running = contextlib.ExitStack()

    def _listeners(self, ports: Mapping[str, int]) -> dict[str, str]:
        """A node's settings of where it listens, and where it says it does: a client's is a proxy,
        made here.
        """
        said = {name: port for name, port in ports.items() if name != "CONTROLLER"}
        for client, proxies in self.proxies.items():
            proxies.append(Proxy(ports[listener(client)]))
            said[listener(client)] = proxies[-1].port
        return {
            setting: ",".join(f"{name}://127.0.0.1:{port}" for name, port in listed.items())
            for setting, listed in (("listeners", ports), ("advertised.listeners", said))
        }

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for proxy in chain(*self.proxies.values()):
                stack.enter_context(proxy)
            for node in self.nodes:
                # not in order: the last two would wait for a quorum that is gone
                stack.callback(node.kill)
            self.start(*range(1, NODES + 1))
            self._running = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def servers_of(self, client: str) -> str:
        """The bootstrap servers of one of `clients`: its proxies."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies[client])

    def proxy(self, client: str, number: int) -> Proxy:
        """The proxy between a client and the node of this number."""
        return self.proxies[client][number - 1]

    def start(self, *numbers: int) -> None:
        """Start these, together; return when each serves requests, for which most of the three must
        run.
        """
        for number in numbers:
            self.node(number).launch()
        for number in numbers:
            self.node(number).wait_until_it_serves()

    # -- who leads ---------------------------------------------------------------------------------

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> the node that leads it, -1 where none does; BrokerError where there is no
        such topic.
        """
        found = self.admin().list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic]
        if found.error is not None:
            raise BrokerError(f"{topic}: {found.error}")
        return {number: partition.leader for number, partition in sorted(found.partitions.items())}

    def group_coordinator(self, group: str) -> int:
        """The node that coordinates the group."""
        return self.leaders(OFFSETS_TOPIC)[java_hash(group) % COORDINATORS]

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The node that coordinates the transactions of this id; there must have been one of any
        id.
        """
        return self.leaders(TRANSACTIONS_TOPIC)[java_hash(transactional_id) % COORDINATORS]

    def lead(self, wanted: Mapping[tuple[str, int], int]) -> None:
        """Let nodes lead: (topic, partition) -> node. It comes first among the replicas and is
        elected, as by an operator.
        """
        admin = self.admin()
        described = admin.list_topics(timeout=PATIENCE_SECONDS).topics
        replicas = {
            (topic, number): sorted(
                described[topic].partitions[number].replicas, key=lambda node: node != first
            )
            for (topic, number), first in wanted.items()
        }
        asyncio.run(_reassign(self.bootstrap_servers, replicas))
        partitions = [TopicPartition(topic, number) for topic, number in wanted]
        elected = admin.elect_leaders(ElectionType.PREFERRED, partitions).result()
        for partition, error in elected.items():
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                raise BrokerError(f"{partition}: {error}")


def listener(client: str) -> str:
    """The name of a client's listener, as a broker wants it."""
    return f"CLIENT_{client.upper()}"


def java_hash(text: str) -> int:
    """Java's hash of a string, made positive as Kafka does: modulo the partitions it says who
    coordinates a name.
    """
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    # Kafka's `abs` has 0 for the one number that has no positive.
    return 0 if value == 1 << 31 else min(value, (1 << 32) - value)


async def _reassign(bootstrap_servers: str, replicas: Mapping[tuple[str, int], list[int]]) -> None:
    """Set the order of replicas; confluent-kafka has no call for it."""
    client = AIOKafkaClient(bootstrap_servers=bootstrap_servers)
    await client.bootstrap()
    try:
        topics = [(topic, [(number, nodes, {})], {}) for (topic, number), nodes in replicas.items()]
        request = AlterPartitionReassignmentsRequest(10_000, topics, {})
        answer = await client.send(client.get_random_node(), request)
    finally:
        await client.close()
    refused = [
        partition
        for _, partitions, _ in answer.responses
        for partition in partitions
        if partition[1]
    ]
    if answer.error_code or refused:
        raise BrokerError(f"the order of replicas was not set: {answer}")


def obey(cluster: KafkaCluster, line: str) -> str:
    """One command of the standard input; what to print. ValueError where it is none."""
    command, *words = line.split()
    if command == "start" and words:
        cluster.start(*map(int, words))
        return f"{line.strip()}: done"
    if command in ("stop", "kill", "pause", "resume") and words:
        for number in words:
            getattr(cluster.node(int(number)), command)()
        return f"{line.strip()}: done"
    if command == "leaders" and len(words) == 1:
        return str(cluster.leaders(words[0]))
    if command == "lead" and len(words) == 3:
        cluster.lead({(words[0], int(words[1])): int(words[2])})
        return str(cluster.leaders(words[0]))
    if command == "coordinators" and len(words) == 1:
        group, transactions = (
            cluster.group_coordinator(words[0]),
            cluster.transaction_coordinator(words[0]),
        )
        return f"as a group: {group}, as a transactional id: {transactions}"
    raise ValueError(f"not understood: {line.strip()}")


def main() -> None:
    """Run a cluster in a temporary directory until it is interrupted; without a standard input it
    just runs.
    """
    parser = command_line(__doc__)
    parser.add_argument("--session-ms", type=int, default=6000)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory() as scratch,
        KafkaCluster(Path(scratch), session_ms=given.session_ms) as cluster,
    ):
        print(
            f"export KAFKA_BOOTSTRAP_SERVERS={cluster.bootstrap_servers}   # logs: "
            f"{scratch}/node-*/broker.log",
            flush=True,
        )
        for line in filter(str.strip, sys.stdin):
            try:
                print(obey(cluster, line), flush=True)
            except (
                ValueError,
                KeyError,
                IndexError,
                AssertionError,
                BrokerError,
                KafkaException,
            ) as fault:
                print(f"{type(fault).__name__}: {fault}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
