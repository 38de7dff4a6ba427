"""A Kafka broker inside the process of a test, librdkafka's mock cluster, with faults;
`from tests.harness.embedded import embedded_broker` in a suite's conftest.

It needs only the installed confluent-kafka wheel, whose library exports the mock cluster's
functions. It listens on TCP on 127.0.0.1, for clients of any process. It keeps 5 MiB or 100,000
batches of a partition, does not compact, has no admin requests, does not keep the source offsets of
a transaction, and shows readers open transactions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import confluent_kafka.cimpl
import pytest

_PRODUCER: Final = 0
_MESSAGE_BYTES: Final = 512
_REBALANCE_MS: Final = 300  # how long the first rebalance of a group waits for more members
_POINTER: Final = ctypes.c_void_p
_TEXT: Final = ctypes.c_char_p
_INT: Final = ctypes.c_int

# name -> (result, arguments)
_FUNCTIONS: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set_log_cb": (None, (_POINTER, _POINTER)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_POINTER,)),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_topic_create": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        (_POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(_INT)),
    ),
}


class EmbeddedBroker(AbstractContextManager["EmbeddedBroker"]):
    """A broker without topics; a context manager that stops it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(confluent_kafka.cimpl.__file__)  # and those it is linked to
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        configuration = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set_log_cb(configuration, None)
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        # a producer that never connects
        self._client = self._library.rd_kafka_new(_PRODUCER, configuration, message, _MESSAGE_BYTES)
        assert self._client is not None, message.value.decode()
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, _REBALANCE_MS)
        servers: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.bootstrap_servers = servers.decode()

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic that does not exist."""
        error = self._library.rd_kafka_mock_topic_create(
            self._cluster, name.encode(), partitions, 1
        )
        assert error == 0, f"the topic {name} with {partitions} partitions: error {error}"

    def fail_requests(self, api_key: int, errors: Iterable[int]) -> None:
        """Answer the next requests of this kind (the Kafka protocol's API key) with these error
        codes, one each; 0: well.
        """
        codes = list(errors)
        array = (_INT * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, api_key, len(codes), array
        )


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """A broker without topics; `create_topic` adds them."""
    with EmbeddedBroker() as broker:
        yield broker
