"""Creates every librdkafka client.

Code that needs one takes a `Clients`: `KafkaClients` is the real one, the simulation has its own.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from worker.kafka.contact import Contact
from worker.kafka.errors import UNREACHABLE, Diagnosis, plain
from worker.settings import Settings

FACILITIES: Final = frozenset(
    {"FAIL", "FATAL", "REQTMOUT", "GETPID", "TXNERR", "ADDPARTS", "ADDOFFSETS", "ENDTXN"}
)
"""librdkafka's messages about errors that it also returns to the caller, who reports them.

They are: failed connections, requests that timed out with them, a transactional id that the
coordinator does not grant yet, and failed steps of a transaction.
"""


def is_new(record: logging.LogRecord) -> bool:
    """A log filter: whether librdkafka's message says more than that a broker is unreachable."""
    facility = record.args[0] if isinstance(record.args, tuple) and record.args else ""
    return facility not in FACILITIES or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def log_error(log: logging.Logger, error: KafkaError) -> None:
    """An error callback of librdkafka: logs errors, unreachable brokers at DEBUG only."""
    level = logging.DEBUG if error.code() in UNREACHABLE else logging.ERROR
    log.log(level, "%s: %s", error.name(), error.str())


@dataclass(frozen=True)
class ContactErrors:
    """An error callback that also reports to a contact why the named client reaches no broker."""

    settings: Settings
    contact: Contact
    client: str
    log: logging.Logger

    def __call__(self, error: KafkaError) -> None:
        """Log an error, and report it to the contact."""
        log_error(self.log, error)
        if reason := reason_of(self.settings, error):
            self.contact.failed(self.client, reason)


def reason_of(settings: Settings, error: KafkaError) -> str:
    """Why a broker cannot be reached; empty if the error does not say."""
    if error.code() not in UNREACHABLE or error.code() in (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
    ):
        return ""
    diagnosis = Diagnosis(settings)
    diagnosis(error)
    return diagnosis.reason() if diagnosis.denied else plain(error.str())


Isolation = Literal["read_committed", "read_uncommitted"]
OnError = Callable[[KafkaError], None]
READ_TO_END: Final[Mapping[str, Any]] = {
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
    # Memory: the queue, and one answer of a broker beyond it, which must leave room for other
    # partitions.
    "queued.max.messages.kbytes": 32 * 1024,
    "fetch.max.bytes": 16 * 2**20,
    "fetch.message.max.bytes": 4 * 2**20,
    # How long a full queue stops fetching. With librdkafka's 1 s it runs empty, and a restore
    # mostly waits.
    "fetch.queue.backoff.ms": 10,
}
"""For a consumer that reads to the end: reports the end, and fails on an offset outside the log."""
PATIENCE: Final[Mapping[str, Any]] = {
    # No request takes a broker longer: those that wait (a fetch, a replica) wait for less. With
    # librdkafka's 60 s, a request that a frozen broker holds reaches its successor far too late.
    "socket.timeout.ms": 10_000,
    # From TCP to the end of the login. With 30 s, one frozen broker of three delays a new client
    # that long.
    "socket.connection.setup.timeout.ms": 5_000,
    "api.version.request.timeout.ms": 5_000,
    # A broker restarts within seconds; with 10 s a client may notice only 10 s later.
    "reconnect.backoff.max.ms": 2_000,
}
"""How long to wait for brokers; a session and a transaction have 10 s."""
WORKER_LOG: Final = logging.getLogger("librdkafka")
"""For the worker's clients; its contact reports unreachable brokers."""
WORKER_LOG.addFilter(is_new)
SILENT: Final = logging.getLogger("librdkafka.tools")  # for tools, which raise errors in one line
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


class Clients(Protocol):
    """Creates clients of one Kafka; `options` are librdkafka's, beyond those of any client."""

    def standalone_consumer(
        self, group: str, isolation: Isolation, options: Mapping[str, Any] = {}
    ) -> Consumer:
        """A consumer for explicit assignments and offsets; it joins no group, commits nothing."""

    def producer(self, options: Mapping[str, Any]) -> Producer:
        """A producer."""

    def admin(self, on_error: OnError | None = None) -> AdminClient:
        """A client for topics, groups and configurations; `on_error` is its error callback."""


class KafkaClients:
    """Clients of librdkafka, which log to `log`; the worker's clients use `WORKER_LOG`."""

    def __init__(self, settings: Settings, log: logging.Logger = SILENT) -> None:
        self._config: dict[str, Any] = {
            **PATIENCE,
            **settings.kafka_client_config(),
            "logger": log,
            "error_cb": partial(log_error, log),
        }

    def standalone_consumer(
        self, group: str, isolation: Isolation, options: Mapping[str, Any] = {}
    ) -> Consumer:
        """See `Clients`."""
        own = {"group.id": group, "enable.auto.commit": False, "isolation.level": isolation}
        return Consumer({**self._config, **own, **options})

    def producer(self, options: Mapping[str, Any]) -> Producer:
        """See `Clients`."""
        return Producer({**self._config, **options})

    def admin(self, on_error: OnError | None = None) -> AdminClient:
        """See `Clients`."""
        own: dict[str, Any] = {"allow.auto.create.topics": False}  # a lookup creates nothing
        own |= {} if on_error is None else {"error_cb": on_error}
        return AdminClient({**self._config, **own})
