"""What some answers of a broker mean: not yet (a group's coordinator is just being made, moves, or loads its offsets); fenced."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

PATIENCE_SECONDS = 30
PAUSE_SECONDS = 0.2

T = TypeVar("T")
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""What broker and client answer when another producer took over the transactional id."""
_NOT_YET = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)


def patiently(ask: Callable[[], T], timeout_seconds: float = PATIENCE_SECONDS) -> T:
    """The answer; asked again while the broker says that it has none yet. Raises what `ask` raises last."""
    give_up = time.monotonic() + timeout_seconds
    while True:
        try:
            return ask()
        except KafkaException as cause:
            if cause.args[0].code() not in _NOT_YET or time.monotonic() > give_up:
                raise
            time.sleep(PAUSE_SECONDS)
