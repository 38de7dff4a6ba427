"""The worker group as its broker knows it: its members, their partitions and web addresses.

Only the group's coordinator knows members and partitions. Faust's assignor sends the address with a
member's subscription, as bytes of Kafka's consumer protocol. Only an older request returns these,
and every broker of the cluster must answer it: so addresses may be unknown when the group is known.
"""

import json
import struct
from contextlib import closing, suppress
from typing import Any, NamedTuple

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from confluent_kafka import ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import broker_errors, retry
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.settings.kinds import web_origin

ADDRESS_SECONDS = 5.0  # seconds for all brokers together to return the addresses
ASSIGNOR = "faust"  # the workers' assignor, by which a group of other clients is known
MEMBERS_SHOWN = 3  # most clients that an error names
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
"""By Kafka's name; the broker does not know an `unknown` group."""


class GroupMember(NamedTuple):
    """A worker as a member of its group."""

    member_id: str  # given by the broker
    host: str  # its address as the broker sees it
    url: str | None  # the web address that it announces, if known
    assigned: dict[str, list[int]]
    """Its partitions by topic. Those of the input it processes; those of the changelog include
    its standbys.
    """


class WorkerGroup(NamedTuple):
    """A group's state (a value of `STATES`), and its members in the order of their addresses."""

    state: str
    members: list[GroupMember]


def read_group(admin: AdminClient, group: str) -> WorkerGroup:
    """The group now. Raises SetupError if no broker answers."""
    with broker_errors(f"could not describe the group {group}"):
        try:
            described = described_group(admin, group)
        except KafkaException as cause:
            if cause.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return WorkerGroup(UNKNOWN, [])
            raise
    urls = _urls(admin, group) if described.members else {}
    members = [_member(member, urls.get(member.member_id)) for member in described.members]
    state = STATES.get(described.state.name, described.state.name.lower())
    return WorkerGroup(
        state, sorted(members, key=lambda member: (member.url or "", member.member_id))
    )


def described_group(admin: AdminClient, group: str) -> Any:
    """The group as its coordinator describes it. Raises KafkaException."""
    return retry(
        lambda: admin.describe_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[
            group
        ].result()
    )


def refuse_foreign(admin: AdminClient, group: str) -> None:
    """Raise SetupError if a member of a bridge's group is not a bridge, and KafkaException.

    Any consumer with the bridges' assignor may join and takes partitions. The client ids of bridges
    begin with their group.
    """
    members = described_group(admin, group).members
    if others := [member for member in members if not member.client_id.startswith(f"{group}-")]:
        raise _foreign(group, others)


def foreign_group(
    clients: Clients, group: str, unless_new: BaseException | None = None
) -> BaseException:
    """The error of a client that a group refuses because of members of another kind.

    `unless_new`: an error that says less, returned unless the group has Kafka's newer protocol.
    """
    members: list[Any] = []
    is_new = False
    admin = clients.admin()  # its futures fail once it is collected
    with suppress(KafkaException, TimeoutError):
        found = admin.describe_consumer_groups([group], request_timeout=ADDRESS_SECONDS)
        described = found[group].result(ADDRESS_SECONDS)
        members, is_new = described.members, described.type is ConsumerGroupType.CONSUMER
    if unless_new is not None and not is_new:
        return unless_new
    return _foreign(group, members)


def shown_members(members: list[Any]) -> str:
    """Their client ids and addresses, the first ones."""
    shown = sorted(f"{member.client_id} at {member.host.removeprefix('/')}" for member in members)
    return ", ".join(shown[:MEMBERS_SHOWN])


def _foreign(group: str, members: list[Any]) -> SetupError:
    return SetupError(
        f"the group {group} has clients that are no workers "
        f"({shown_members(members) or 'they left, or could not be listed'}): stop them, or set "
        "another COVERSUMM_APP_ID"
    )


def _member(described: Any, url: str | None) -> GroupMember:
    assigned: dict[str, list[int]] = {}
    for partition in described.assignment.topic_partitions:
        assigned.setdefault(partition.topic, []).append(partition.partition)
    in_order = {topic: sorted(partitions) for topic, partitions in assigned.items()}
    return GroupMember(described.member_id, described.host.removeprefix("/"), url, in_order)


def _urls(admin: AdminClient, group: str) -> dict[str, str | None]:
    """Web addresses by member; empty if some broker does not answer."""
    try:
        found: Any = admin.list_groups(group, timeout=ADDRESS_SECONDS)
    except KafkaException:
        return {}
    members = (member for group in found for member in group.members)
    return {member.id: subscribed_url(member.metadata) for member in members}


def subscribed_url(subscription: bytes) -> str | None:
    """The web address in a member's subscription; None without one, as of a foreign member."""
    try:
        about = ConsumerProtocolMemberMetadata.decode(subscription).user_data
        return web_origin(str(json.loads(about)["url"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class Membership(NamedTuple):
    """The group membership of one assignment, captured when the assignment was made.

    Never read live: after a failed heartbeat the coordinator holds (-1, ""), which a broker accepts
    without any check.
    """

    generation: int  # of the group
    member_id: str  # given by the broker, a new one at each start of a worker
    instance_id: str | None = None
    """Of a static member (`group.instance.id`): its place in the group. The broker refuses the
    previous holder. None: a member until the process ends.
    """


def group_metadata(group: str, membership: Membership) -> bytes:
    """Encode a membership as librdkafka serialises `ConsumerGroupMetadata` (version 2).

    The membership is Faust's and the producer confluent-kafka's, so no confluent consumer has it.
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
    """Raise SetupError if the installed confluent-kafka encodes a membership differently."""
    options = {} if instance_id is None else {"group.instance.id": instance_id}
    with closing(clients.standalone_consumer(group, "read_committed", options)) as consumer:
        theirs = bytes(consumer.consumer_group_metadata())
    if theirs != group_metadata(group, Membership(-1, "", instance_id)):
        raise SetupError(
            "the installed confluent-kafka writes another group metadata format than this worker "
            "knows: install the version that pyproject.toml pins"
        )
