"""Asking a broker again while its answer is "not yet": a group's coordinator is being made, moves, or loads its offsets; a
partition's leader has just been chosen."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from worker.clock import Clock

PAUSE_SECONDS = 0.2

T = TypeVar("T")
NOT_YET = dict.fromkeys(
    (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    ),
    30.0,
)
"""By error code, for how many seconds after the first question it is worth asking again."""
NOT_LED_YET = dict.fromkeys(
    (
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # one broker knows of a topic, and the one that is to lead it not yet
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ),
    30.0,
)
"""The same of offsets, of partitions that are known to be there."""


def retry(ask: Callable[[], T], patience: Mapping[int, float] = NOT_YET, clock: Clock = time) -> T:
    """The answer to `ask`, which is called again while it fails with an error that may pass.

    `patience` has, by error code, for how many seconds after the first call. Raises what the last call raised.
    """
    started = clock.monotonic()
    while True:
        try:
            return ask()
        except KafkaException as cause:
            seconds = patience.get(cause.args[0].code())
            if seconds is None or clock.monotonic() - started > seconds:
                raise
            clock.sleep(PAUSE_SECONDS)
