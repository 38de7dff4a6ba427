"""A membership as librdkafka writes it, of a consumer that joined no group (one that did: tests/real_kafka)."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from tests.harness.fake_clients import FakeClients
from worker.errors import SurroundingsError
from worker.kafka.clients import KafkaClients
from worker.kafka.membership import Membership, check_group_access, check_group_metadata, group_metadata
from worker.settings import Settings

CLIENTS = KafkaClients(Settings(bootstrap_servers="127.0.0.1:1"))


def test_the_group_metadata_is_what_confluent_kafka_makes() -> None:
    consumer = CLIENTS.standalone_consumer("größe", "read_committed")
    try:
        assert bytes(consumer.consumer_group_metadata()) == group_metadata("größe", Membership(-1, ""))
    finally:
        consumer.close()
    check_group_metadata(CLIENTS, "group")


def test_another_metadata_format_is_refused_at_start() -> None:
    other = SimpleNamespace(consumer_group_metadata=lambda: b"CGMDv3:something", close=lambda: None)
    with pytest.raises(SurroundingsError, match="pyproject"):
        check_group_metadata(FakeClients(consumer=lambda: other), "group")


class Admin:
    """Describes a group, or refuses to."""

    def __init__(self, answer: Any) -> None:
        self._answer: Future[Any] = Future()
        if isinstance(answer, Exception):
            self._answer.set_exception(answer)
        else:
            self._answer.set_result(SimpleNamespace(authorized_operations=answer))

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> Any:
        return dict.fromkeys(groups, self._answer)


@pytest.mark.parametrize(
    "answer",
    [KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), [AclOperation.DESCRIBE]],
)
def test_a_group_that_may_not_be_joined_is_told_before_it_is(answer: Any) -> None:
    with pytest.raises(SurroundingsError, match="READ on the group hotels"):
        check_group_access(FakeClients(admin=lambda: Admin(answer)), "hotels")


@pytest.mark.parametrize(
    "answer",
    [None, [AclOperation.READ], KafkaException(KafkaError(KafkaError._TIMED_OUT)), TimeoutError()],
)
def test_whatever_else_is_answered_refuses_nothing(answer: Any) -> None:
    check_group_access(FakeClients(admin=lambda: Admin(answer)), "hotels")
