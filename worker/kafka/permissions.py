"""The permissions of a worker on its topics, and what is missing where a broker refuses.

A broker that refuses a request names neither the topic nor the operation, but it describes which
operations a client may do with a topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from worker.errors import Crash, SetupError
from worker.kafka.clients import Clients
from worker.settings import Settings

Operations = tuple[str, ...]
READ: Final[Operations] = ("READ",)
WRITE: Final[Operations] = ("WRITE",)
OPERATIONS: Final = {"input": READ, "source": READ, "changelog": READ + WRITE}
"""Operations of `run` or a bridge by the role of a topic, else WRITE; both imply DESCRIBE."""
ANSWER_SECONDS: Final = 3.0  # seconds for an answer while the process ends
ALL_MISSING: Final = "`coversumm-worker config --check` lists all that is missing"


def grant_command(settings: Settings, operations: Iterable[str], option: str) -> str:
    """The command that allows operations on a resource, `--topic NAME` for instance."""
    who = settings.sasl_username or "NAME"
    chosen = " ".join(f"--operation {operation}" for operation in operations)
    return f"kafka-acls.sh --add --allow-principal User:{who} {chosen} {option}"


def hidden(settings: Settings, topic: str, operations: Operations) -> SetupError:
    """The error of a topic that this client may not describe."""
    return SetupError(
        f"this client may not describe the topic {topic} (TOPIC_AUTHORIZATION_FAILED), so it is "
        f"unknown whether it exists: allow {' and '.join(operations)} on it: "
        f"{grant_command(settings, operations, f'--topic {topic}')}; {ALL_MISSING}"
    )


def missing(granted: Iterable[Any] | None, needed: Iterable[str]) -> list[str]:
    """The operations that a description of a resource lacks."""
    allowed = {operation.name for operation in granted or ()}
    return [operation for operation in needed if operation not in allowed]


def named(
    cause: BaseException, settings: Settings, clients: Clients, needed: Mapping[str, Operations]
) -> BaseException:
    """The error, after a broker's refusal with the permissions that are missing.

    `needed`: operations by topic. Asks a broker only after a refusal, for some seconds.
    """
    codes = set() if isinstance(cause, SetupError) else set(_refusals(cause))
    found: list[str] = []

    def name(operations: list[str], of: str, option: str) -> None:
        command = grant_command(settings, operations, option)
        found.append(f"missing: {' and '.join(operations)} on the {of}: {command}")

    if KafkaError.TOPIC_AUTHORIZATION_FAILED in codes:
        with suppress(Exception):  # the cause itself counts more
            for topic, operations in _lacking(clients.admin(), needed):
                name(operations, f"topic {topic}", f"--topic {topic}")
    if KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED in codes:
        own = settings.transactional_id
        name(["WRITE"], f"transactional id {own}", f"--transactional-id {own}")
    return Crash("; ".join([str(cause), *found, ALL_MISSING])) if found else cause


def _refusals(cause: BaseException | None) -> Iterator[int]:
    while cause is not None:
        if isinstance(cause, KafkaException):
            yield cause.args[0].code()
        yield getattr(cause, "errno", KafkaError.NO_ERROR)  # of aiokafka's errors
        cause = cause.__cause__


def _lacking(admin: Any, needed: Mapping[str, Operations]) -> Iterator[tuple[str, list[str]]]:
    asked = {"include_authorized_operations": True, "request_timeout": ANSWER_SECONDS}
    for topic, future in admin.describe_topics(TopicCollection([*needed]), **asked).items():
        granted: Iterable[Any] = ()
        try:
            granted = future.result(ANSWER_SECONDS + 1).authorized_operations
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                continue
        if lacking := missing(granted, needed[topic]):
            yield topic, lacking
