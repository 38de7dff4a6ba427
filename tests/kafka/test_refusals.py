"""A consumer that may not read gets a message without partition and offset; the line names the
permission.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.fake_clients import FakeClients, fake_message
from worker.errors import SetupError
from worker.kafka.changelog import ChangelogReader, first_rows
from worker.kafka.errors import refusal


class RefusedConsumer:
    """Gets one error, and was closed."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.is_open = True

    def assign(self, partitions: Any) -> None:
        pass

    def consume(self, count: int, timeout: float) -> list[Any]:
        return [
            fake_message(
                error=KafkaError(self.code), partition=None, offset=None, key=None, value=None
            )
        ]

    def close(self) -> None:
        self.is_open = False


def read_first_rows(clients: FakeClients) -> None:
    list(first_rows(clients, "hotels", "changelog", [0]))


def restore(clients: FakeClients) -> None:
    reader = ChangelogReader(
        clients, "hotels", "changelog", {0: 0}, lambda *_: None, lambda _: None
    )
    reader.restore({0: 5}, lambda *_: None)


@pytest.mark.parametrize("read", [read_first_rows, restore])
@pytest.mark.parametrize(
    ("code", "permission"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "READ on the group hotels"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "READ on the topic changelog"),
    ],
)
def test_a_missing_permission_is_named(
    read: Callable[[FakeClients], None], code: int, permission: str
) -> None:
    consumer = RefusedConsumer(code)
    clients = FakeClients(consumer=lambda: consumer)
    with pytest.raises(SetupError, match=permission):
        read(clients)
    assert {asked.group for asked in clients.asked} == {"hotels"}, (
        "no other group needs a permission"
    )
    assert not consumer.is_open


def test_other_errors_are_what_they_are() -> None:
    error = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    cause = refusal(error, "hotels", "changelog")
    assert isinstance(cause, KafkaException)
    assert cause.args == (error,)
