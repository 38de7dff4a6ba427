"""The one place that makes librdkafka clients.

Whoever needs one takes a `Clients`. `KafkaClients` is the real one; the simulation passes its own.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from worker.kafka.contact import Contact
from worker.kafka.errors import Diagnosis, plain
from worker.settings import Settings

CODES: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
    }
)
"""Errors about reaching a broker."""
FACILITIES: Final = frozenset(
    {"FAIL", "FATAL", "REQTMOUT", "GETPID", "TXNERR", "ADDPARTS", "ADDOFFSETS", "ENDTXN"}
)
"""What librdkafka calls its messages about a connection that failed, requests that timed out with
it, a transactional id that a coordinator does not give out yet, and steps of a transaction that
failed, for good where another client took its id: whoever called is told, and tells it.
"""


def is_new(record: logging.LogRecord) -> bool:
    """A filter for librdkafka's logger: whether a message says more than that a broker cannot be
    reached.
    """
    facility = record.args[0] if isinstance(record.args, tuple) and record.args else ""
    return facility not in FACILITIES or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


class ErrorLog:
    """An error callback of librdkafka: it logs what is not about reaching a broker, as librdkafka
    does without one.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def __call__(self, error: KafkaError) -> None:
        """Log an error."""
        level = logging.DEBUG if error.code() in CODES else logging.ERROR
        self._log.log(level, "%s: %s", error.name(), error.str())


class ContactErrors(ErrorLog):
    """The same for a client whose contact is watched: why no broker is reached becomes the reason
    there.

    Args:
        settings: name what to look at.
        contact: is told the reason.
        client: whose errors they are.
        log: gets the other errors.
    """

    def __init__(
        self, settings: Settings, contact: Contact, client: str, log: logging.Logger
    ) -> None:
        super().__init__(log)
        self._settings = settings
        self._contact = contact
        self._client = client

    def __call__(self, error: KafkaError) -> None:
        """Log an error, or tell the contact of it."""
        super().__call__(error)
        if reason := reason_of(self._settings, error):
            self._contact.failed(self._client, reason)


def reason_of(settings: Settings, error: KafkaError) -> str:
    """Why a broker cannot be reached, by an error of a client; empty where it does not say, or is
    about something else.
    """
    if error.code() not in CODES or error.code() in (
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
    # Its memory: what waits to be taken, and an answer of a broker beyond it, which has to leave
    # room for other partitions.
    "queued.max.messages.kbytes": 32 * 1024,
    "fetch.max.bytes": 16 * 2**20,
    "fetch.message.max.bytes": 4 * 2**20,
    # So long a full queue stops fetching. At librdkafka's 1 s it is empty long before, and a
    # restore mostly stands still.
    "fetch.queue.backoff.ms": 10,
}
"""For a consumer that reads partitions to their end: the end is reported, and an offset outside the
log is an error.
"""
PATIENCE: Final[Mapping[str, Any]] = {
    # Nothing that is asked here may take a broker longer: what waits (a fetch, a replica) waits for
    # less. At librdkafka's 60 s, a request that a frozen broker holds is asked of its successor
    # only long after there is one.
    "socket.timeout.ms": 10_000,
    # From TCP to the end of the login. At 30 s, one frozen broker among three holds up a new client
    # for so long.
    "socket.connection.setup.timeout.ms": 5_000,
    "api.version.request.timeout.ms": 5_000,
    # A broker is back from a restart within seconds; at 10 s whoever needs it might find out only
    # 10 s later.
    "reconnect.backoff.max.ms": 2_000,
}
"""How long brokers are waited for, against a session of 10 s and a transaction of as many."""
WORKER_LOG: Final = logging.getLogger("librdkafka")
"""For the clients of the worker; that no broker is reached is for its contact to say."""
WORKER_LOG.addFilter(is_new)
SILENT: Final = logging.getLogger("librdkafka.tools")
"""For the clients of the tools: what goes wrong is raised, in one line."""
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


class Clients(Protocol):
    """Makes clients that reach one Kafka; `options` are librdkafka's, beside those that reach the
    broker.
    """

    def standalone_consumer(
        self, group: str, isolation: Isolation, options: Mapping[str, Any] = {}
    ) -> Consumer:
        """A consumer that never joins its group and commits nothing: for explicit assignments and
        questions about offsets.
        """

    def producer(self, options: Mapping[str, Any]) -> Producer:
        """A producer."""

    def admin(self, on_error: OnError | None = None) -> AdminClient:
        """A client for topics, groups and configurations; `on_error` gets the errors that
        librdkafka only logs.
        """


class KafkaClients:
    """Clients of librdkafka.

    Args:
        settings: address and security of the brokers.
        log: where librdkafka's own messages go; the worker's own clients take `WORKER_LOG`.
    """

    def __init__(self, settings: Settings, log: logging.Logger = SILENT) -> None:
        self._config: dict[str, Any] = {
            **PATIENCE,
            **settings.kafka_client_config(),
            "logger": log,
            "error_cb": ErrorLog(log),
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
        own: dict[str, Any] = {"allow.auto.create.topics": False}  # a look creates nothing
        own |= {} if on_error is None else {"error_cb": on_error}
        return AdminClient({**self._config, **own})
