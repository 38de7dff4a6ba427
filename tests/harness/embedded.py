"""The embedded broker for tests, with faults; `from tests.harness.embedded import embedded_broker`
in a suite's conftest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pytest

from worker.demo.broker import EmbeddedBroker

_POINTER: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int


class FaultyBroker(EmbeddedBroker):
    """An embedded broker that can refuse requests."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        super().__init__(topics)
        function = self._library.rd_kafka_mock_push_request_errors_array
        function.restype = None
        function.argtypes = (_POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(_INT))

    def fail_requests(self, api_key: int, errors: Iterable[int]) -> None:
        """Answer the next requests of this kind (the Kafka protocol's API key) with these error
        codes, one each; 0: well.
        """
        codes = list(errors)
        array = (_INT * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._running(), api_key, len(codes), array
        )


@pytest.fixture
def embedded_broker() -> Iterator[FaultyBroker]:
    """A broker without topics; `create_topic` adds them."""
    with FaultyBroker() as broker:
        yield broker
