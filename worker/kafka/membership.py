"""Under which membership of its consumer group a worker commits, in the form that librdkafka hands to the broker."""

import struct
from typing import NamedTuple

from worker.errors import SurroundingsError
from worker.kafka.clients import Clients


class Membership(NamedTuple):
    """The consumer group membership of one assignment, captured when it was made.

    Never read live: after a failed heartbeat the coordinator holds (-1, ""), which a broker accepts without any check.

    Attributes:
        generation: of the group.
        member_id: given by the broker, another one at each start of a worker.
        instance_id: of a static member (`group.instance.id`): whose place in the group it is. The broker refuses who held it
            before. None: a member for as long as it runs.
    """

    generation: int
    member_id: str
    instance_id: str | None = None


def group_metadata(group: str, membership: Membership) -> bytes:
    """Encode a membership the way librdkafka serialises `ConsumerGroupMetadata` (version 2).

    The membership is Faust's, the producer confluent-kafka's, so the object cannot come from a confluent consumer.
    """
    instance = b"\x01" if membership.instance_id is None else b"\0" + membership.instance_id.encode() + b"\0"
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
    """Compare `group_metadata` with what the installed confluent-kafka makes; raise SurroundingsError if they differ."""
    if _made_by_confluent(clients, group, instance_id) != group_metadata(
        group, Membership(-1, "", instance_id)
    ):
        raise SurroundingsError(
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
