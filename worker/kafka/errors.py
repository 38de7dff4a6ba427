"""What passes by itself: errors of brokers that are away, start, or hand over what they lead.

A cluster does this every week: its brokers are restarted one after another, and with each the
leaders of partitions and the coordinators of groups and transactions move. Who meets such an error
asks again.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from worker.clock import Clock
from worker.errors import SetupError, Unanswered
from worker.settings import Settings

log = logging.getLogger(__name__)

PASSING: Final = frozenset(
    {
        # nobody answers
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._DESTROY,  # a client that was replaced while someone waited for it
        # a broker that is away left the metadata, and librdkafka dropped it with its requests
        KafkaError._DESTROY_BROKER,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        # whoever answers does not lead, or does not lead yet
        KafkaError.NOT_CONTROLLER,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.KAFKA_STORAGE_ERROR,
        # too few replicas
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        # a transaction is not decided yet
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        # "unexpected server error": what a broker that is shutting down says of what it was just
        # doing
        KafkaError.UNKNOWN,
    }
)


def passes(error: BaseException) -> bool:
    """Whether what failed so may succeed when it is asked for again."""
    if isinstance(error, KafkaException):
        return error.args[0].code() in PASSING
    return isinstance(error, Unanswered)


def unanswered(what: str, error: KafkaError) -> Unanswered:
    """The error with what could not be found out, in one line."""
    return Unanswered(f"{what} ({error.name()}: {error.str()})")


def group_refused(group: str) -> Exception:
    """The same for a client that may not join its group, which another library found out."""
    return refusal(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), group)


def refusal(error: KafkaError, group: str, topic: str = "") -> Exception:
    """SetupError that names the permission where one is missing; else KafkaException.

    A message with an error may have no partition and no offset, so the error is looked at first.
    """
    wanted = {
        KafkaError.GROUP_AUTHORIZATION_FAILED: f"group {group}",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: f"topic {topic}",
    }.get(error.code())
    if wanted is None:
        return KafkaException(error)
    return SetupError(
        f"the broker does not let this client read as it must ({error.name()}): allow it READ on the {wanted}; "
        "`coversumm-worker config --check` has the command, and what else is missing"
    )


PAUSE_SECONDS = 0.2
T = TypeVar("T")
NOT_YET = dict.fromkeys(
    (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._DESTROY_BROKER,
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
        KafkaError._DESTROY_BROKER,
    ),
    30.0,
)
"""The same of offsets, of partitions that are known to be there."""


def retry(ask: Callable[[], T], patience: Mapping[int, float] = NOT_YET, clock: Clock = time) -> T:
    """The answer to `ask`, which is called again while it fails with an error that may pass.

    `patience` has, by error code, for how many seconds after the first call. Raises what the last
    call raised.
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


START_SECONDS = 120.0
"""How long a process that starts asks again while brokers are away."""


def patiently(ask: Callable[[], T], clock: Clock = time) -> T:
    """The answer to `ask`, which is called again while brokers are away: for a process that a
    platform starts beside them, and that would end with "a restart does not help".

    `ask` may be repeated at any point. After `START_SECONDS` it raises what the last call raised;
    an error that does not pass is raised at once, also as the cause of a SetupError.
    """
    give_up_s = clock.monotonic() + START_SECONDS
    while True:
        try:
            return ask()
        except (KafkaException, SetupError) as error:
            cause = error.__cause__ if isinstance(error, SetupError) else error
            if cause is None or not passes(cause) or clock.monotonic() > give_up_s:
                raise
            log.info("asking again: %s", error)
            clock.sleep(PAUSE_SECONDS)


# Those that say what went wrong, the likeliest to help first.
_CONNECTIONS = (
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError._RESOLVE,
    KafkaError._TRANSPORT,
)


def plain(text: str) -> str:
    """librdkafka's text about a connection without the state it was in: `HOST:PORT: Connect to ...
    failed: why`.
    """
    without_state = re.sub(r" \(after \d+ms in state \w+(, [^)]*)?\)", "", text)
    return re.sub(r"^(\w+://)?(\[?[\w.:-]+\]?:\d+)/\w+: ", r"\2: ", without_state)


class Diagnosis:
    """An error callback of librdkafka that remembers the errors, to say later what is wrong."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._errors: dict[int, str] = {}

    def __call__(self, error: KafkaError) -> None:
        """Remember an error; of each code the last one counts."""
        self._errors[error.code()] = error.str()

    @property
    def denied(self) -> bool:
        """Whether a broker answered and refused the client: waiting longer is of little use."""
        told = " ".join(self._errors.values())
        known = KafkaError._AUTHENTICATION in self._errors or KafkaError._SSL in self._errors
        return known or "alert" in told or "PLAINTEXT broker" in told

    @property
    def unreachable(self) -> bool:
        """Whether nothing listens at an address, or its name is not known: a wrong address, or a
        broker that is not there yet.
        """
        refused = "Connection refused" in self._errors.get(KafkaError._TRANSPORT, "")
        return refused or KafkaError._RESOLVE in self._errors

    @property
    def told(self) -> str:
        """What the client last said of a connection, in its words; empty where it said nothing of
        one.
        """
        told = [self._errors[code] for code in _CONNECTIONS if code in self._errors]
        return plain(told[0]) if told else ""

    def reason(self) -> str:
        """What to look at, the likeliest cause first."""
        settings = self._settings
        protocol = f"COVERSUMM_SECURITY_PROTOCOL={settings.security_protocol}"
        denied = self._errors.get(KafkaError._AUTHENTICATION)
        if denied is not None and "handshake failed" in denied:
            return (
                f"the broker does not take {protocol} with COVERSUMM_SASL_MECHANISM={settings.sasl_mechanism} there: "
                "set those of the listener"
            )
        if denied is not None:
            return (
                f"the broker does not accept COVERSUMM_SASL_USERNAME={settings.sasl_username} with COVERSUMM_SASL_PASSWORD "
                f"and COVERSUMM_SASL_MECHANISM={settings.sasl_mechanism}"
            )
        tls = self._errors.get(KafkaError._SSL, "")
        if "verify failed" in tls:
            return (
                "the broker's certificate is not signed by an authority of COVERSUMM_SSL_CA_LOCATION "
                f"({settings.ssl_ca_location or 'the system'}), or not for this address"
            )
        lost = self._errors.get(KafkaError._TRANSPORT, "")
        if "PLAINTEXT broker" in lost + tls:
            return f"the broker does not speak TLS there: {protocol} is not the listener's"
        if "alert" in lost + tls:
            return (
                "the broker does not accept the client's certificate: COVERSUMM_SSL_CERTIFICATE_LOCATION and "
                "COVERSUMM_SSL_KEY_LOCATION"
            )
        if KafkaError._RESOLVE in self._errors:
            return "no such host is known here: check the address"
        return f"check the address, the network and {protocol}"
