"""A broker's topics in memory, behind the admin client and the consumer that ask for them."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from tests.harness.fake_clients import FakeClients
from worker.settings import Settings

SETTINGS = Settings(
    bootstrap_servers="127.0.0.1:1",
    input_topic="reviews",
    output_topic="summaries",
    app_id="app",
    data_dir=Path("unused"),
)
ALL = {"reviews", "summaries", "reviews.dlq", "app-entities-changelog"}


class FakeAdmin:
    """A broker's topics; `others` are made by somebody else in the moment before ours."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = {name.replace("_", "."): count for name, count in partitions.items()}
        self.ids: dict[str, str] = {}  # of topics that have another than their name
        self.policies = {"summaries": "compact", "app-entities-changelog": "compact"}
        self.largest: dict[str, int] = {}  # max.message.bytes, if not plenty
        self.tombstones_ms = 2**60  # delete.retention.ms of all
        self.unknown: set[str] = set()  # topics that metadata has, and others do not know yet
        self.hidden: set[str] = set()  # topics that the client may not describe
        self.members: list[str] = []  # client ids of the group
        self.made: list[Any] = []
        self.others: dict[str, int] = {}
        self.others_at_second_look: dict[str, int] = {}
        self.committed: list[int] = []
        self.looks = 0
        self.refusal: int | None = None
        self.failures: list[int] = []  # what is answered first when offsets are asked for

    def list_topics(self, timeout: float) -> Any:
        self.looks += 1
        if self.looks == 2:
            self.partitions |= self.others_at_second_look
        topics = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(count)), error=None)
            for name, count in self.partitions.items()
            if name not in self.hidden
        }
        topics["broken"] = SimpleNamespace(partitions={}, error="no leader")
        return SimpleNamespace(topics=topics, cluster_id="one")

    def poll(self, timeout: float) -> int:
        return 0

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        found = {name: Future[Any]() for name in topics.topic_names}
        for name, future in found.items():
            if name in self.hidden:
                denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
                future.set_exception(KafkaException(denied))
            elif name not in self.partitions:
                unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                future.set_exception(KafkaException(unknown))
            else:
                partitions = [None] * self.partitions[name]
                topic_id = self.ids.get(name, name)
                future.set_result(
                    SimpleNamespace(
                        topic_id=topic_id,
                        partitions=partitions,
                        authorized_operations=list(AclOperation),
                    )
                )
        return found

    def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, Future[Any]]:
        described: Future[Any] = Future()
        members = [SimpleNamespace(client_id=member, host="/10.0.0.7") for member in self.members]
        described.set_result(SimpleNamespace(members=members, type=ConsumerGroupType.CLASSIC))
        return {names[0]: described}

    def create_topics(self, new: list[Any], operation_timeout: float) -> dict[str, Future[None]]:
        self.made += new
        self.partitions |= self.others
        return {topic.topic: self._create(topic) for topic in new}

    def _create(self, topic: Any) -> Future[None]:
        future: Future[None] = Future()
        if self.refusal is not None:
            future.set_exception(KafkaException(KafkaError(self.refusal)))
        elif topic.topic in self.partitions:
            future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
        else:
            self.partitions[topic.topic] = topic.num_partitions
            future.set_result(None)
        return future

    def create_partitions(self, new: list[Any]) -> dict[str, Future[None]]:
        self.partitions |= self.others
        found = {topic.topic: Future[None]() for topic in new}
        for topic in new:
            if self.refusal is None and topic.new_total_count > self.partitions[topic.topic]:
                self.partitions[topic.topic] = topic.new_total_count
                found[topic.topic].set_result(None)
            else:
                code = self.refusal or KafkaError.INVALID_PARTITIONS
                found[topic.topic].set_exception(KafkaException(KafkaError(code)))
        return found

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        found = {}
        for resource in resources:
            found[resource] = Future[Any]()
            config = defaultdict(lambda: SimpleNamespace(value="1"))
            config["cleanup.policy"] = SimpleNamespace(
                value=self.policies.get(resource.name, "delete")
            )
            largest = str(self.largest.get(resource.name, 2**30))
            config["max.message.bytes"] = SimpleNamespace(value=largest)
            config["delete.retention.ms"] = SimpleNamespace(value=str(self.tombstones_ms))
            if resource.name in self.unknown:
                unknown = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
                found[resource].set_exception(unknown)
            else:
                found[resource].set_result(config)
        return found


class FakeGroup:
    """The worker group's committed offsets, as a consumer of it sees them."""

    def __init__(self, admin: FakeAdmin) -> None:
        self._committed, self._failures = admin.committed, admin.failures

    def committed(self, asked: list[Any], timeout: float) -> list[Any]:
        if self._failures:
            raise KafkaException(KafkaError(self._failures.pop(0)))
        offsets = self._committed + [-1001] * len(asked)
        return [
            SimpleNamespace(
                partition=tp.partition, offset=offsets[tp.partition], error=None, metadata=None
            )
            for tp in asked
        ]

    def close(self) -> None:
        pass


def clients_of(admin: FakeAdmin) -> FakeClients:
    """Clients that reach this broker."""
    return FakeClients(admin=lambda: admin, consumer=lambda: FakeGroup(admin))
