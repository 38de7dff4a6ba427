"""Which errors are asked about again, and which are the end."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from worker.errors import Crash, InDoubt, Overtaken, SetupError, Unanswered
from worker.kafka.errors import is_retriable, unanswered


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.PRODUCER_FENCED,
        KafkaError._FENCED,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.INVALID_MSG,
    ],
)
def test_what_would_be_said_again_does_not(code: int) -> None:
    assert not is_retriable(KafkaException(KafkaError(code)))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unanswered("no answer"), True),
        (Crash("x"), False),
        (InDoubt("x"), False),
        (Overtaken("x"), False),
        (SetupError("x"), False),
        (RuntimeError("disk full"), False),
        (TimeoutError(), False),
    ],
)
def test_only_those_that_say_so_pass(error: BaseException, expected: bool) -> None:
    assert is_retriable(error) == expected


def test_what_is_not_answered_says_what_was_asked_and_why() -> None:
    assert str(
        unanswered("the group g is not described", KafkaError(KafkaError._TRANSPORT))
    ).startswith("the group g is not described (_TRANSPORT: ")
