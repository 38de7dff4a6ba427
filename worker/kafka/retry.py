"""What some answers of a broker mean: not yet (a group's coordinator is just being made, moves, or loads its offsets); fenced."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

PAUSE_SECONDS = 0.2

T = TypeVar("T")
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""What broker and client answer when another producer took over the transactional id."""
_NOT_YET = dict.fromkeys(
    (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    ),
    30.0,
)


def patiently(ask: Callable[[], T], patience: Mapping[int, float] = _NOT_YET) -> T:
    """The answer; asked again while the broker has none yet. Raises what `ask` raises last.

    `patience` has the errors that may pass, and how many seconds after the first question each is still waited for.
    """
    started = time.monotonic()
    while True:
        try:
            return ask()
        except KafkaException as cause:
            seconds = patience.get(cause.args[0].code())
            if seconds is None or time.monotonic() - started > seconds:
                raise
            time.sleep(PAUSE_SECONDS)
