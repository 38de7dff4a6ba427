"""Creates every librdkafka client.

Code that needs one takes a `Clients`: `KafkaClients` is the real one, the simulation has its own.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from worker.credentials.tokens import TokenError, TokenRefused, kafka_tokens
from worker.errors import SetupError, Unanswered
from worker.kafka.contact import Contact
from worker.kafka.errors import UNREACHABLE, Diagnosis, plain
from worker.settings import Settings
from worker.settings.kinds import pairs

T = TypeVar("T")

FACILITIES: Final = frozenset(
    {"FAIL", "FATAL", "REQTMOUT", "GETPID", "TXNERR", "ADDPARTS", "ADDOFFSETS", "ENDTXN"}
)
"""librdkafka's messages about errors that it also returns to the caller, who reports them.

They are: failed connections, requests that timed out with them, a transactional id that the
coordinator does not grant yet, and failed steps of a transaction.
"""


def is_new(record: logging.LogRecord) -> bool:
    """A log filter: whether librdkafka's message says more than that a broker is unreachable, or
    that one of `COVERSUMM_CLIENT_OPTIONS` is for another kind of client.
    """
    args = record.args if isinstance(record.args, tuple) and record.args else ("",)
    is_new = args[0] not in FACILITIES and "will be ignored by this" not in str(args[-1])
    return is_new or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


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
        if error.code() not in UNREACHABLE or error.code() in (
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TIMED_OUT,
        ):
            return  # it does not say why
        diagnosis = Diagnosis(self.settings)
        diagnosis(error)
        reason = diagnosis.reason() if diagnosis.denied else plain(error.str())
        # A broker that dies, a proxy without one, or a provider without a token refuses nothing.
        tokens = kafka_tokens(self.settings)
        is_away = tokens is not None and type(tokens.failed) is TokenError
        is_refusal = diagnosis.denied and not re.search("Disconnected|Local: ", error.str())
        self.contact.failed(self.client, reason, is_refusal=is_refusal and not is_away)

    def refused(self, text: str, *, is_tls: bool) -> None:
        """Report that a broker refused this client, or it the broker, as another library says."""
        self(KafkaError(KafkaError._SSL if is_tls else KafkaError._AUTHENTICATION, text))


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
    """Clients of librdkafka, which log to `log`; the worker's clients use `WORKER_LOG`.

    Raises SetupError without a token, if the settings ask for one; its cause is Unanswered if there
    may be one later.
    """

    def __init__(self, settings: Settings, log: logging.Logger = SILENT) -> None:
        self._settings, self._tokens = settings, kafka_tokens(settings)
        self._extensions = pairs(settings.sasl_oauth_extensions)
        self._options = pairs(settings.client_options)
        self._config: dict[str, Any] = {
            **PATIENCE,
            "logger": log,
            "error_cb": partial(log_error, log),
        }
        if self._tokens is None:
            return
        self._config["oauth_cb"] = self._token
        try:
            self._tokens.token()
        except TokenRefused as refused:
            raise SetupError(str(refused)) from None
        except TokenError as cause:
            raise SetupError(str(cause)) from Unanswered(str(cause))

    def standalone_consumer(
        self, group: str, isolation: Isolation, options: Mapping[str, Any] = {}
    ) -> Consumer:
        own = {"group.id": group, "enable.auto.commit": False, "isolation.level": isolation}
        return self._make(lambda config: Consumer(config), {**own, **options})

    def producer(self, options: Mapping[str, Any]) -> Producer:
        return self._make(lambda config: Producer(config), options)

    def admin(self, on_error: OnError | None = None) -> AdminClient:
        own: dict[str, Any] = {"allow.auto.create.topics": False}  # a lookup creates nothing
        own |= {} if on_error is None else {"error_cb": on_error}
        return self._make(lambda config: AdminClient(config), own)

    def _token(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """librdkafka's callback: token, expiry, principal and extensions."""
        assert self._tokens is not None
        token = self._tokens.token()
        return token.text, token.expires, "", self._extensions

    def _make(self, kind: Callable[[dict[str, Any]], T], options: Mapping[str, Any]) -> T:
        """A client with the files as they are now. Raises SetupError for an unknown option, and
        KafkaException without a token, or while files are being replaced.

        confluent-kafka would wait 10 s for a token that the callback does not return.
        """
        try:
            if self._tokens is not None:
                self._tokens.token()
            login = self._settings.kafka_client_config()
            return kind({**self._config, **login, **options, **self._options})
        except (OSError, ValueError) as cause:
            is_final = isinstance(cause, TokenRefused)
            code = KafkaError._AUTHENTICATION if is_final else KafkaError._TRANSPORT
            raise KafkaException(KafkaError(code, str(cause))) from None
        except KafkaException as cause:
            error = cause.args[0]
            if "location failed: " in error.str():
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, error.str())) from None
            if error.code() != KafkaError._INVALID_ARG or not self._options:
                raise
            raise SetupError(f"COVERSUMM_CLIENT_OPTIONS: {error.str()}") from cause
