"""Under which membership of its consumer group a worker commits, in the form that librdkafka hands to the broker."""

import struct
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from worker.errors import SurroundingsError
from worker.kafka.clients import Clients
from worker.kafka.refusals import refusal
from worker.kafka.retry import retry

ACCESS_SECONDS = 10.0
"""A broker that says nothing in this time refuses nothing; what is wrong with it is told by whoever needs it."""


class Membership(NamedTuple):
    """The consumer group membership of one assignment, captured when it was made.

    Never read live: after a failed heartbeat the coordinator holds (-1, ""), which a broker accepts without any check.
    """

    generation: int
    member_id: str


def group_metadata(group: str, membership: Membership) -> bytes:
    """Encode a membership the way librdkafka serialises `ConsumerGroupMetadata` (version 2, no static membership).

    The membership is Faust's, the producer confluent-kafka's, so the object cannot come from a confluent consumer.
    """
    return (
        b"CGMDv2:"
        + struct.pack("<i", membership.generation)
        + group.encode()
        + b"\0"
        + membership.member_id.encode()
        + b"\0\x01"
    )


def check_group_metadata(clients: Clients, group: str) -> None:
    """Compare `group_metadata` with what the installed confluent-kafka makes; raise SurroundingsError if they differ."""
    consumer = clients.standalone_consumer(group, "read_committed")
    try:
        made = bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
    if made != group_metadata(group, Membership(-1, "")):
        raise SurroundingsError(
            "the installed confluent-kafka writes another group metadata format than this worker knows: "
            "install the version that pyproject.toml pins"
        )


def check_group_access(clients: Clients, group: str) -> None:
    """Raise SurroundingsError where the broker does not let this client join the group.

    The consumer that joins would look for its coordinator in silence, and for ever.
    """
    admin = clients.admin()
    try:
        described = retry(
            lambda: admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=ACCESS_SECONDS
            )[group].result(ACCESS_SECONDS)
        )
    except KafkaException as cause:
        if cause.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise refusal(cause.args[0], group) from cause
    except TimeoutError:
        return
    else:
        allowed = described.authorized_operations
        if allowed is not None and AclOperation.READ not in allowed:
            raise refusal(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), group)
