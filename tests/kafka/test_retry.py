"""A broker that is not ready is asked again; every other answer is the answer."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.fake_clients import FakeClock
from worker.errors import SetupError
from worker.kafka.errors import LEADER_PATIENCE, broker_errors, patiently, retry


def answering(*codes: int) -> tuple[Callable[[], str], list[int]]:
    """What asks a broker that says these codes and then answers; and the codes still to come."""
    left = list(codes)

    def ask() -> str:
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return "answer"

    return ask, left


def test_it_is_asked_until_it_answers() -> None:
    ask, _ = answering(
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    )
    assert retry(ask, clock=FakeClock()) == "answer"


def test_what_will_not_pass_is_raised_at_once() -> None:
    ask, left = answering(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.NOT_COORDINATOR)
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION"):
        retry(ask, clock=FakeClock())
    assert len(left) == 1


def test_patience_ends() -> None:
    ask, left = answering(*[KafkaError.NOT_COORDINATOR] * 100_000)
    clock = FakeClock()
    began_s = clock.now_s
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        retry(ask, {KafkaError.NOT_COORDINATOR: 5.0}, clock)
    assert 5.0 < clock.now_s - began_s < 5.5
    assert left


def test_a_first_call_that_nobody_answered_does_not_use_up_the_patience() -> None:
    ask, _ = answering(KafkaError._UNKNOWN_PARTITION)
    clock = FakeClock()

    def slow() -> str:
        clock.sleep(LEADER_PATIENCE[KafkaError._UNKNOWN_PARTITION] + 1)
        return ask()

    assert retry(slow, LEADER_PATIENCE, clock) == "answer"


def test_a_partition_that_is_there_is_waited_for_until_it_is_led() -> None:
    ask, _ = answering(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
    assert retry(ask, LEADER_PATIENCE, FakeClock()) == "answer"
    ask, _ = answering(*[KafkaError.UNKNOWN_TOPIC_OR_PART] * 160)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC"):
        retry(ask, LEADER_PATIENCE, FakeClock())


def test_a_partition_without_a_leader_is_waited_for_as_long_as_brokers_that_are_away() -> None:
    """Three brokers that came back one after the other took 37 s to lead it on a busy machine."""
    ask, _ = answering(*[KafkaError._UNKNOWN_PARTITION] * 590)
    assert retry(ask, LEADER_PATIENCE, FakeClock()) == "answer"
    ask, _ = answering(*[KafkaError._UNKNOWN_PARTITION] * 700)
    with pytest.raises(KafkaException, match="UNKNOWN_PARTITION"):
        retry(ask, LEADER_PATIENCE, FakeClock())


def test_a_connection_that_was_dropped_under_a_request_is_asked_on_again() -> None:
    ask, _ = answering(KafkaError._DESTROY_BROKER)
    assert retry(ask, LEADER_PATIENCE, FakeClock()) == "answer"
    ask, _ = answering(KafkaError._DESTROY_BROKER)
    assert retry(ask, clock=FakeClock()) == "answer"


def with_setup_errors(ask: Callable[[], str]) -> Callable[[], str]:
    """The same, with the errors of a command."""

    def asking() -> str:
        with broker_errors("offsets cannot be read"):
            return ask()

    return asking


def test_a_start_ends_at_once_with_what_will_not_pass() -> None:
    ask, left = answering(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TIMED_OUT)
    with pytest.raises(SetupError, match="GROUP_AUTHORIZATION"):
        patiently(with_setup_errors(ask), FakeClock())
    assert len(left) == 1

    def refused() -> str:
        left.append(0)
        raise SetupError("the plan is of another replay")

    with pytest.raises(SetupError, match="another replay"):
        patiently(refused, FakeClock())
    assert len(left) == 2
