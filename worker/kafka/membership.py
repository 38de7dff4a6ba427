"""Under which membership of its consumer group a worker commits, in the form that librdkafka hands to the broker."""

import struct
from typing import NamedTuple

from worker.errors import SurroundingsError
from worker.kafka.clients import Clients


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
