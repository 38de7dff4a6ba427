"""A Kafka broker inside this process: librdkafka's mock cluster.

It needs only the installed confluent-kafka wheel, whose library exports the mock cluster's
functions. The broker listens on TCP on 127.0.0.1, for clients of any process. It runs in threads of
the library, without Python's lock, and dies with this process.

It keeps 5 MiB or 100,000 batches of a partition, does not compact, has no admin requests (so topics
are created here), does not keep the source offsets of a transaction, and shows readers open
transactions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import confluent_kafka.cimpl

from worker.errors import SetupError

_PRODUCER: Final = 0
_MESSAGE_BYTES: Final = 512
_POINTER: Final = ctypes.c_void_p
_TEXT: Final = ctypes.c_char_p
_INT: Final = ctypes.c_int

# name -> (result, arguments)
_FUNCTIONS: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set_log_cb": (None, (_POINTER, _POINTER)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_err2name": (_TEXT, (_INT,)),
    "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_POINTER,)),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_topic_create": (_INT, (_POINTER, _TEXT, _INT, _INT)),
}


class EmbeddedBroker(AbstractContextManager["EmbeddedBroker"]):
    """A broker; a context manager. Raises SetupError if confluent-kafka has no mock cluster.

    `topics` has partition counts by name. The first rebalance of a group waits `rebalance_delay_ms`
    for more members.
    """

    def __init__(
        self, topics: Mapping[str, int] | None = None, *, rebalance_delay_ms: int = 300
    ) -> None:
        self._library = _library()
        self._client = self._new_client()
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(
            self._cluster, rebalance_delay_ms
        )
        self.bootstrap_servers: str = self._library.rd_kafka_mock_cluster_bootstraps(
            self._cluster
        ).decode()
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the broker, and free its memory."""
        if self._cluster is not None:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = None

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic. Raises ValueError if it exists, or for a bad name or count."""
        self._check(
            self._library.rd_kafka_mock_topic_create(self._running(), name.encode(), partitions, 1),
            f"the topic {name} with {partitions} partitions",
        )

    def _new_client(self) -> int:
        """The cluster's client: a producer that never connects and logs nothing."""
        configuration = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set_log_cb(configuration, None)
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        client: int | None = self._library.rd_kafka_new(
            _PRODUCER, configuration, message, _MESSAGE_BYTES
        )
        if client is None:
            raise SetupError(f"the embedded broker could not be started: {message.value.decode()}")
        return client

    def _running(self) -> int:
        if self._cluster is None:
            raise ValueError("the embedded broker is closed")
        cluster: int = self._cluster
        return cluster

    def _check(self, error: int, what: str) -> None:
        if error:
            reason = self._library.rd_kafka_err2name(error).decode()
            raise ValueError(f"{what}: the broker says {reason}")


def _library() -> ctypes.CDLL:
    """The librdkafka that confluent-kafka uses, loaded through its extension module.

    A symbol is looked up in a library and in those it is linked to.
    """
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as cause:
        raise SetupError(
            f"the installed confluent-kafka has no embedded broker ({cause}): "
            "install the version that pyproject.toml pins"
        ) from cause
    return library
