"""The worker group as its broker knows it: who is in it, what each was given, and where each says
that its web server is.

The group's coordinator alone tells members and partitions. The address is in what Faust's assignor
hands through the broker with a member's subscription, as bytes in Kafka's consumer protocol; only
an older question gets them, which every broker of the cluster must answer. So addresses may be
unknown while the group is not.
"""

import json
import struct
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import retry
from worker.kafka.reader import TIMEOUT_SECONDS, broker_errors
from worker.settings.kinds import web_origin

ADDRESS_SECONDS = 5.0
"""How long all brokers together may take to tell the addresses."""
UNKNOWN, EMPTY, STABLE, REBALANCING = "unknown", "empty", "stable", "rebalancing"
STATES = {
    "DEAD": UNKNOWN,
    "EMPTY": EMPTY,
    "STABLE": STABLE,
    "PREPARING_REBALANCING": REBALANCING,
    "COMPLETING_REBALANCING": REBALANCING,
    "ASSIGNING": REBALANCING,
    "RECONCILING": REBALANCING,
}
"""By Kafka's name; `unknown` is a group that the broker has not heard of."""


class GroupMember(NamedTuple):
    """A worker as a member of its group."""

    member_id: str
    host: str
    """From where it is connected to the broker."""
    url: str | None
    """Its web address as it tells the others, where that is known."""
    assigned: dict[str, list[int]]
    """By topic the partitions it was given: of the input those it processes, of the changelog also
    its standbys.
    """


class WorkerGroup(NamedTuple):
    """Its state (a value of `STATES`), and the members in the order of their addresses."""

    state: str
    members: list[GroupMember]


def read_group(admin: AdminClient, group: str) -> WorkerGroup:
    """The group now. Raises SetupError where no broker answers."""
    with broker_errors(f"the broker does not describe the group {group}"):
        try:
            described = retry(
                lambda: admin.describe_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[
                    group
                ].result()
            )
        except KafkaException as cause:
            if cause.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return WorkerGroup(UNKNOWN, [])
            raise
    urls = _urls(admin, group) if described.members else {}
    members = [_member(one, urls.get(one.member_id)) for one in described.members]
    state = STATES.get(described.state.name, described.state.name.lower())
    return WorkerGroup(state, sorted(members, key=lambda one: (one.url or "", one.member_id)))


def committed_now(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    """By partition what the group has committed, where it has; does not wait for a transaction that
    is under way.

    Raises SetupError where no broker answers.
    """
    asked = [ConsumerGroupTopicPartitions(group)]
    with broker_errors(f"the broker does not tell the offsets of the group {group}"):
        found = retry(
            lambda: admin.list_consumer_group_offsets(
                asked, require_stable=False, request_timeout=TIMEOUT_SECONDS
            )[group].result()
        )
    return {
        one.partition: one.offset
        for one in found.topic_partitions
        if one.topic == topic and one.offset >= 0
    }


def _member(described: Any, url: str | None) -> GroupMember:
    assigned: dict[str, list[int]] = {}
    for one in described.assignment.topic_partitions:
        assigned.setdefault(one.topic, []).append(one.partition)
    given = {topic: sorted(partitions) for topic, partitions in assigned.items()}
    return GroupMember(described.member_id, described.host.removeprefix("/"), url, given)


def _urls(admin: AdminClient, group: str) -> dict[str, str | None]:
    """By member its web address; empty where some broker does not answer."""
    try:
        found: Any = admin.list_groups(group, timeout=ADDRESS_SECONDS)
    except KafkaException:
        return {}
    return {member.id: subscribed_url(member.metadata) for one in found for member in one.members}


def subscribed_url(subscription: bytes) -> str | None:
    """The web address in a member's subscription; None where there is none, as of a member that is
    no worker.
    """
    try:
        reader = _Bytes(subscription)
        reader.number("h")  # version
        for _ in range(reader.number("i")):
            reader.text()
        return web_origin(str(json.loads(reader.block())["url"]))
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None


class _Bytes:
    """Kafka's primitive types, read one after the other. Raises struct.error and ValueError at what
    is none.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, kind: str) -> int:
        """A big-endian integer, `kind` as in `struct`."""
        (value,) = struct.unpack_from(f">{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return int(value)

    def text(self) -> str:
        """A string under its length in two bytes."""
        return self._take(self.number("h")).decode()

    def block(self) -> bytes:
        """Bytes under their length in four."""
        return self._take(self.number("i"))

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._at:
            raise ValueError("bytes that end early")
        self._at += length
        return self._data[self._at - length : self._at]


class Membership(NamedTuple):
    """The consumer group membership of one assignment, captured when it was made.

    Never read live: after a failed heartbeat the coordinator holds (-1, ""), which a broker accepts
    without any check.

    Attributes:
        generation: of the group.
        member_id: given by the broker, another one at each start of a worker.
        instance_id: of a static member (`group.instance.id`): whose place in the group it is. The
            broker refuses who held it before. None: a member for as long as it runs.
    """

    generation: int
    member_id: str
    instance_id: str | None = None


def group_metadata(group: str, membership: Membership) -> bytes:
    """Encode a membership the way librdkafka serialises `ConsumerGroupMetadata` (version 2).

    The membership is Faust's, the producer confluent-kafka's, so the object cannot come from a
    confluent consumer.
    """
    instance = (
        b"\x01"
        if membership.instance_id is None
        else b"\0" + membership.instance_id.encode() + b"\0"
    )
    return (
        b"CGMDv2:"
        + struct.pack("<i", membership.generation)
        + group.encode()
        + b"\0"
        + membership.member_id.encode()
        + b"\0"
        + instance
    )


def check_group_metadata(clients: Clients, group: str, instance_id: str | None) -> None:
    """Compare `group_metadata` with what the installed confluent-kafka makes; raise
    SetupError if they differ.
    """
    if _made_by_confluent(clients, group, instance_id) != group_metadata(
        group, Membership(-1, "", instance_id)
    ):
        raise SetupError(
            "the installed confluent-kafka writes another group metadata format than this worker knows: "
            "install the version that pyproject.toml pins"
        )


def _made_by_confluent(clients: Clients, group: str, instance_id: str | None) -> bytes:
    options = {} if instance_id is None else {"group.instance.id": instance_id}
    consumer = clients.standalone_consumer(group, "read_committed", options)
    try:
        return bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
