"""The errors of Kafka and librdkafka by meaning, and how they are retried and reported.

- `RETRIABLE`: a broker is away, starts, or hands over what it leads; the same call may succeed
  later. A rolling restart of a cluster causes these every time.
- `FENCED`: another producer took over the transactional id.
- `OVERTAKEN`: the group's coordinator no longer accepts the membership.
- `REFUSED`: the same request will be refused again.
- `PURGED`: the client dropped a record because its transaction failed; the cause is another error.
- `UNREACHABLE`: a connection to a broker failed.

Every other error of a commit leaves it in doubt (`worker.errors.InDoubt`).
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from worker.clock import Clock
from worker.credentials.files import expired
from worker.credentials.tokens import kafka_tokens
from worker.errors import SetupError, Unanswered
from worker.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRIABLE: Final = frozenset(
    {
        # no broker answers
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._DESTROY,  # the client was replaced during the call
        # a broker that is away left the metadata, and librdkafka dropped its requests
        KafkaError._DESTROY_BROKER,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        # the broker that answers does not lead, or not yet
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
        # "unexpected server error": a broker that shuts down answers this to requests in flight
        KafkaError.UNKNOWN,
    }
)
FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
OVERTAKEN: Final = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
)
REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.POLICY_VIOLATION,
    }
)
PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
UNREACHABLE: Final = frozenset(
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

COORDINATOR_PATIENCE: Final = dict.fromkeys(
    (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._DESTROY_BROKER,
    ),
    30.0,
)
"""Seconds to retry a request to a coordinator, by error code."""
START_SECONDS = 120.0  # seconds for which a starting process asks again while brokers are away
LEADER_PATIENCE: Final = dict.fromkeys(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # the future leader may not know the topic yet
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._DESTROY_BROKER,
    ),
    30.0,
) | {KafkaError._UNKNOWN_PARTITION: START_SECONDS}  # what librdkafka says of one without a leader
"""Seconds to retry a request to the leader of a partition that exists, by error code."""
PAUSE_SECONDS = 0.2  # seconds between two attempts


def is_retriable(error: BaseException) -> bool:
    """True if the call that raised this may succeed later."""
    if isinstance(error, KafkaException):
        return error.args[0].code() in RETRIABLE
    return isinstance(error, Unanswered)


def retry(
    ask: Callable[[], T], patience: Mapping[int, float] = COORDINATOR_PATIENCE, clock: Clock = time
) -> T:
    """Call `ask` until it returns; raise its error once that is out of patience.

    `patience` has the seconds since the first failure for which an error code is retried. The time
    of the first call does not count: one that no broker answered may have used up all of them.
    """
    failed_at: float | None = None
    while True:
        try:
            return ask()
        except KafkaException as cause:
            now, seconds = clock.monotonic(), patience.get(cause.args[0].code())
            failed_at = now if failed_at is None else failed_at
            if seconds is None or now - failed_at > seconds:
                raise
            clock.sleep(PAUSE_SECONDS)


def patiently(ask: Callable[[], T], clock: Clock = time) -> T:
    """Return the answer to `ask`, which is called again while brokers are away.

    For a process that starts at the same time as its brokers. `ask` must be repeatable. After
    `START_SECONDS` it raises the last error. An error that is not retriable is raised at once, also
    as the cause of a SetupError.
    """
    give_up_s = clock.monotonic() + START_SECONDS
    said = ""
    while True:
        try:
            return ask()
        except (KafkaException, SetupError) as error:
            cause = error.__cause__ if isinstance(error, SetupError) else error
            if cause is None or not is_retriable(cause) or clock.monotonic() > give_up_s:
                raise
            if str(error) != said:
                said = str(error)
                log.info("asking again: %s", error)
            clock.sleep(PAUSE_SECONDS)


@contextmanager
def broker_errors(what: str) -> Iterator[None]:
    """Turn a KafkaException into a SetupError whose line begins with `what`."""
    try:
        yield
    except KafkaException as cause:
        error = cause.args[0]
        raise SetupError(
            f"{what} ({error.name()}: {error.str()}): check KAFKA_BOOTSTRAP_SERVERS, the network "
            "and the permissions"
        ) from cause


def unanswered(what: str, error: KafkaError) -> Unanswered:
    """A retriable error, in one line that begins with `what`."""
    return Unanswered(f"{what} ({error.name()}: {error.str()})")


def group_refused(group: str) -> Exception:
    """The error of a client that may not join its group, as another library reported it."""
    return refusal(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), group)


def session_refused(settings: Settings) -> SetupError:
    """The error of a session timeout outside the bounds of the broker."""
    return SetupError(
        f"the broker refuses COVERSUMM_SESSION_TIMEOUT_MS={settings.session_timeout_ms}: set it "
        "between group.min.session.timeout.ms and group.max.session.timeout.ms of the broker"
    )


def refusal(error: KafkaError, group: str, topic: str = "") -> Exception:
    """SetupError that names the missing permission, if one is missing; else KafkaException."""
    wanted = {
        KafkaError.GROUP_AUTHORIZATION_FAILED: f"group {group}",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: f"topic {topic}",
    }.get(error.code())
    if wanted is None:
        return KafkaException(error)
    return SetupError(
        f"the broker does not let this client read ({error.name()}): allow it READ on the "
        f"{wanted}; `coversumm-worker config --check` prints the command and lists what else is "
        "missing"
    )


def plain(text: str) -> str:
    """librdkafka's text about a connection without the connection's state: `HOST:PORT: why`."""
    without_state = re.sub(r" \(after \d+ms in state \w+(, [^)]*)?\)", "", text)
    return re.sub(r"^(\w+://)?(\[?[\w.:-]+\]?:\d+)/\w+: ", r"\2: ", without_state)


TOKENS: Final = {
    "OAUTHBEARER": "COVERSUMM_SASL_OAUTH_TOKEN_URL, COVERSUMM_SASL_OAUTH_CLIENT_ID, and the scope, "
    "audience and extensions that the broker expects",
    "AWS_MSK_IAM": "COVERSUMM_SASL_AWS_REGION, and that the AWS role may kafka-cluster:Connect",
}
"""What to check if a broker refuses the token of a mechanism."""


class Diagnosis:
    """An error callback of librdkafka that keeps the errors, to explain a failed connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._errors: dict[int, str] = {}

    def __call__(self, error: KafkaError) -> None:
        """Keep an error; the last one of each code counts."""
        self._errors[error.code()] = error.str()

    @property
    def denied(self) -> bool:
        """True if a broker answered and refused the client, so that more waiting hardly helps."""
        texts = " ".join(self._errors.values())
        known = KafkaError._AUTHENTICATION in self._errors or KafkaError._SSL in self._errors
        return known or "alert" in texts or "PLAINTEXT broker" in texts

    @property
    def unreachable(self) -> bool:
        """True if nothing listens at the address, or its name does not resolve."""
        refused = "Connection refused" in self._errors.get(KafkaError._TRANSPORT, "")
        return refused or KafkaError._RESOLVE in self._errors

    @property
    def last_error(self) -> str:
        """The client's text about a failed connection; empty if it reported none."""
        by_helpfulness = (
            KafkaError._AUTHENTICATION,
            KafkaError._SSL,
            KafkaError._RESOLVE,
            KafkaError._TRANSPORT,
        )
        found = [self._errors[code] for code in by_helpfulness if code in self._errors]
        return plain(found[0]) if found else ""

    def reason(self) -> str:
        """The likeliest cause, and the settings to check."""
        settings = self._settings
        protocol = f"COVERSUMM_SECURITY_PROTOCOL={settings.security_protocol}"
        denied = self._errors.get(KafkaError._AUTHENTICATION)
        tokens = kafka_tokens(settings)
        if denied is not None and tokens is not None and tokens.failed:
            return str(tokens.failed)  # a broker that drops an expired token says less
        if denied is not None and "handshake failed" in denied:
            return (
                f"the broker does not accept {protocol} with "
                f"COVERSUMM_SASL_MECHANISM={settings.sasl_mechanism} there: set those of the "
                "listener"
            )
        if denied is not None and tokens is not None:
            what = TOKENS[str(settings.sasl_mechanism)]
            return f"the broker does not accept the token: check {what}"
        if denied is not None:
            return (
                f"the broker does not accept COVERSUMM_SASL_USERNAME={settings.sasl_username} with "
                f"COVERSUMM_SASL_PASSWORD{'_LOCATION' if settings.sasl_password_location else ''} "
                f"and COVERSUMM_SASL_MECHANISM={settings.sasl_mechanism}"
            )
        tls = self._errors.get(KafkaError._SSL, "")
        if "verify failed" in tls:
            return (
                "the broker's certificate is not signed by an authority of "
                f"COVERSUMM_SSL_CA_LOCATION ({settings.ssl_ca_location or 'the system'}), has "
                "expired, or is not for this address"
            )
        lost = self._errors.get(KafkaError._TRANSPORT, "")
        if "PLAINTEXT broker" in lost + tls:
            return f"the broker does not speak TLS there: {protocol} is not the listener's"
        if "alert" in lost + tls:
            return (
                "the broker does not accept the client's certificate: "
                "COVERSUMM_SSL_CERTIFICATE_LOCATION and COVERSUMM_SSL_KEY_LOCATION"
                f"{expired(settings)}"
            )
        if KafkaError._RESOLVE in self._errors:
            return "the host name does not resolve: check the address"
        clocks = "; if they are right, compare the clocks: brokers disconnect an expired token"
        hint = clocks if settings.sasl_mechanism in TOKENS else ""
        return f"check the address, the network and {protocol}{hint}"
