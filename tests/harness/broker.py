"""A real Apache Kafka for the tests, of one node, and what it has in common with one of several
(`cluster.py`).

Run by itself it is a broker for the hand: `python -m tests.harness.broker`.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.eventually import eventually
from tests.harness.node import BrokerError, KafkaNode, free_port, new_cluster_id
from tests.harness.patience import PATIENCE_SECONDS

# Every internal topic has few partitions; nothing waits for members or brokers that may come.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A killed broker is let in again when its last session has expired: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Timed-out transactions are looked for every 10 s by default; a dead worker's should not hold
    # the readers that long.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    # The broker has a few cores at most; more cleaning and recovery threads only take them from the
    # workers.
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}

# The transaction log wants three replicas and there is one broker: producing works, every
# transaction fails.
WITHOUT_TRANSACTIONS = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Kafka:
    """What tests ask of a Kafka, whatever it is made of."""

    bootstrap_servers: str
    nodes: Sequence[KafkaNode]

    def admin(self) -> AdminClient:
        """An admin client of it."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def node(self, number: int) -> KafkaNode:
        """The node of this number, from 1."""
        return self.nodes[number - 1]

    def in_sync(self) -> bool:
        """Whether every replica of every partition is in sync; no while no node answers."""
        try:
            topics = self.admin().list_topics(timeout=5).topics.values()
        except KafkaException:
            return False
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return bool(partitions) and all(
            len(partition.isrs) == len(partition.replicas) for partition in partitions
        )

    def displaced(self) -> list[str]:
        """The partitions that lack a replica, or are led by another than the first; a complaint
        while no node answers.
        """
        try:
            topics = self.admin().list_topics(timeout=5).topics
        except KafkaException as cause:
            return [str(cause)]
        return [
            f"{topic}-{number}"
            for topic, described in topics.items()
            for number, partition in described.partitions.items()
            if len(partition.isrs) < len(partition.replicas)
            or partition.leader != partition.replicas[0]
        ]

    def wait_until_whole(self) -> None:
        """Return when no partition is displaced: nothing is going to move."""
        eventually(lambda: not self.displaced(), lambda: f"not whole: {self.displaced()}")

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        """Create one topic, a replica on each node; return when all its partitions have a leader,
        as whatever comes expects.
        """
        admin = self.admin()  # its futures fail once it is collected
        topic = NewTopic(name, partitions, len(self.nodes), config=dict(config or {}))
        deadline_s = time.monotonic() + PATIENCE_SECONDS
        asked_before = False
        while True:
            try:
                admin.create_topics([topic], request_timeout=10)[name].result()
                break
            except KafkaException as cause:
                code = cause.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS and asked_before:
                    break
                # A broker that was paused has been seen to leave a request unanswered once it went
                # on.
                if (
                    code not in {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}
                    or time.monotonic() > deadline_s
                ):
                    raise
                asked_before = True
        self._wait_until_it_is_led(admin, name, deadline_s)

    def _wait_until_it_is_led(self, admin: AdminClient, topic: str, deadline_s: float) -> None:
        """The controller makes a topic; a broker knows of it, and leads its partitions, a moment
        later.
        """
        while time.monotonic() < deadline_s:
            found = admin.list_topics(timeout=10).topics.get(topic)
            if found is not None and all(part.leader >= 0 for part in found.partitions.values()):
                return
            time.sleep(0.02)
        logs = "\n".join(node.log_end() for node in self.nodes)
        raise BrokerError(f"the topic {topic} was made and is not served\n{logs}")


class KafkaBroker(KafkaNode, Kafka):
    """One Kafka node on 127.0.0.1.

    Args:
        directory: its data, its log, its configuration.
        settings: server properties over the defaults above.
        heap_mib: of its Java.
        protocols: security protocols it is to speak besides PLAINTEXT, each on a port of its own
            (`addresses`).
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap_mib: int = 512,
        protocols: Iterable[str] = (),
    ):
        port, controller_port = free_port(), free_port()
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.nodes = [self]
        self.addresses = {protocol: f"127.0.0.1:{free_port()}" for protocol in protocols}
        listeners = [f"{name}://{address}" for name, address in self.addresses.items()]
        listeners.append(f"PLAINTEXT://{self.bootstrap_servers}")
        protocol_of = {
            "CONTROLLER": "PLAINTEXT",
            "PLAINTEXT": "PLAINTEXT",
            **{name: name for name in self.addresses},
        }
        given = {
            **SETTINGS,
            # A controller alone need not show that it is alive: half of what an idle broker costs.
            "metadata.max.idle.interval.ms": "60000",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller_port}"]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(
                f"{name}:{of}" for name, of in protocol_of.items()
            ),
            **(settings or {}),
        }
        super().__init__(directory, given, new_cluster_id(), port, heap_mib=heap_mib)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def main() -> None:
    """Run one broker until Enter or Ctrl-C, in a temporary directory."""
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch)) as broker:
        print(
            f"export KAFKA_BOOTSTRAP_SERVERS={broker.bootstrap_servers}   # log: {broker.log_path}",
            flush=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            signal.sigwait([signal.SIGINT, signal.SIGTERM]) if not sys.stdin.isatty() else input(
                "Enter stops it "
            )


if __name__ == "__main__":
    main()
