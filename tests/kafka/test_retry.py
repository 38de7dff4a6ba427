"""A broker that is not ready is asked again; every other answer is the answer."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from worker.kafka import retry as answers
from worker.kafka.retry import patiently


def answering(*codes: int) -> tuple[Callable[[], str], list[int]]:
    """What asks a broker that says these codes and then answers; and the codes still to come."""
    left = list(codes)

    def ask() -> str:
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return "answer"

    return ask, left


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PAUSE_SECONDS", 0.001)


def test_it_is_asked_until_it_answers() -> None:
    ask, _ = answering(
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    )
    assert patiently(ask) == "answer"


def test_what_will_not_pass_is_raised_at_once() -> None:
    ask, left = answering(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.NOT_COORDINATOR)
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION"):
        patiently(ask)
    assert len(left) == 1


def test_patience_ends() -> None:
    ask, left = answering(*[KafkaError.NOT_COORDINATOR] * 100_000)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        patiently(ask, {KafkaError.NOT_COORDINATOR: 0.05})
    assert left
