"""The worker group as its broker knows it: who is in it, what each was given, and where each says that its web server is.

The address and the standbys are in what Faust's assignor hands through the broker: the address in the subscription, the standbys
as partitions of the changelog in the assignment. The broker passes both on as bytes, in Kafka's consumer protocol.
"""

import json
import struct
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from worker.kafka.reader import TIMEOUT_SECONDS, broker_errors
from worker.kafka.retry import retry

NO_GROUP = "Dead"
"""The state of a group that the broker does not know."""


class Member(NamedTuple):
    """A worker as a member of its group."""

    member_id: str
    host: str
    """From where it is connected to the broker."""
    url: str | None
    """Its web address as it tells the others."""
    assigned: dict[str, list[int]]
    """By topic the partitions it was given: of the input those it processes, of the changelog also its standbys."""


class WorkerGroup(NamedTuple):
    """State as Kafka names it (`Stable`, `Empty`, `PreparingRebalance`, ...), and the members by their ids."""

    state: str
    members: list[Member]


def read_group(admin: AdminClient, group: str) -> WorkerGroup:
    """The group now. Raises SurroundingsError where no broker answers."""
    with broker_errors(f"the broker does not describe the group {group}"):
        found: Any = retry(lambda: admin.list_groups(group, timeout=TIMEOUT_SECONDS))
    for described in found:
        if described.id == group:
            members = (_member(one) for one in described.members)
            return WorkerGroup(
                str(described.state), sorted(members, key=lambda one: (one.url or "", one.member_id))
            )
    return WorkerGroup(NO_GROUP, [])


def committed_now(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    """By partition what the group has committed, where it has; does not wait for a transaction that is under way.

    Raises SurroundingsError where no broker answers.
    """
    asked = [ConsumerGroupTopicPartitions(group)]
    with broker_errors(f"the broker does not tell the offsets of the group {group}"):
        found = retry(
            lambda: admin.list_consumer_group_offsets(
                asked, require_stable=False, request_timeout=TIMEOUT_SECONDS
            )[group].result()
        )
    return {
        one.partition: one.offset for one in found.topic_partitions if one.topic == topic and one.offset >= 0
    }


def _member(described: Any) -> Member:
    return Member(
        member_id=described.id,
        host=described.client_host.removeprefix("/"),
        url=subscribed_url(described.metadata),
        assigned=assigned_partitions(described.assignment),
    )


def subscribed_url(subscription: bytes) -> str | None:
    """The web address in a member's subscription; None where there is none, as of a member that is no worker."""
    try:
        reader = _Bytes(subscription)
        reader.number("h")  # version
        for _ in range(reader.number("i")):
            reader.text()
        url = json.loads(reader.block())["url"]
    except (struct.error, ValueError, KeyError, TypeError):
        return None
    return str(url)


def assigned_partitions(assignment: bytes) -> dict[str, list[int]]:
    """By topic the partitions in a member's assignment; empty while the group has not assigned any."""
    found: dict[str, list[int]] = {}
    try:
        reader = _Bytes(assignment)
        reader.number("h")  # version
        for _ in range(reader.number("i")):
            topic = reader.text()
            found[topic] = sorted(reader.number("i") for _ in range(reader.number("i")))
    except (struct.error, ValueError):
        return {}
    return found


class _Bytes:
    """Kafka's primitive types, read one after the other. Raises struct.error and ValueError at what is none."""

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
