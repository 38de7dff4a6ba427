"""The embedded broker for tests, with faults; `from tests.harness.embedded import embedded_broker`
in a suite's conftest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pytest

from worker.demo.broker import EmbeddedBroker

_BROKER_ID: Final = 1
_POINTER: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int

# name -> (result, arguments)
_FUNCTIONS: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "rd_kafka_mock_broker_set_rtt": (_INT, (_POINTER, ctypes.c_int32, _INT)),
    "rd_kafka_mock_broker_set_down": (_INT, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_broker_set_up": (_INT, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        (_POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(_INT)),
    ),
    "rd_kafka_mock_clear_request_errors": (None, (_POINTER, ctypes.c_int16)),
}


class FaultyBroker(EmbeddedBroker):
    """An embedded broker that can be slow, be down, or refuse requests."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        super().__init__(topics)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments

    def delay_answers(self, milliseconds: int) -> None:
        """Answer every request so much later; 0: at once."""
        self._check(
            self._library.rd_kafka_mock_broker_set_rtt(self._running(), _BROKER_ID, milliseconds),
            f"a delay of {milliseconds} ms",
        )

    def go_down(self) -> None:
        """Close all connections and refuse new ones; what is stored stays."""
        self._check(
            self._library.rd_kafka_mock_broker_set_down(self._running(), _BROKER_ID), "going down"
        )

    def come_up(self) -> None:
        """End `go_down`."""
        self._check(
            self._library.rd_kafka_mock_broker_set_up(self._running(), _BROKER_ID), "coming up"
        )

    def fail_requests(self, api_key: int, errors: Iterable[int]) -> None:
        """Answer the next requests of this kind (the Kafka protocol's API key) with these error
        codes, one each; 0: well.
        """
        codes = list(errors)
        array = (_INT * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._running(), api_key, len(codes), array
        )

    def forgive_requests(self, api_key: int) -> None:
        """Take back what is left of `fail_requests`."""
        self._library.rd_kafka_mock_clear_request_errors(self._running(), api_key)


@pytest.fixture
def embedded_broker() -> Iterator[FaultyBroker]:
    """A broker without topics; `create_topic` adds them."""
    with FaultyBroker() as broker:
        yield broker
