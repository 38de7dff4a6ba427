"""`config --check`: whether a broker has and allows what `run` needs. Changes nothing.

Kafka describes what a client may do with topics, groups and the cluster, and validates the creation
of a topic without doing it. It does not describe transactional ids: only a transaction would show,
and would fence a worker.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
)
from confluent_kafka.cimpl import NewTopic

from worker.errors import Crash, SetupError
from worker.kafka.changelog import FirstRow, first_rows
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.topic_mapping import reading
from worker.kafka.topics import Topics, TopicSpec, policy_complaint
from worker.processing.config import configured_engine, processor_config
from worker.registry.client import SchemaRegistry, patiently
from worker.settings import Settings
from worker.state import Fingerprint
from worker.state.errors import StateError
from worker.state.keys import FINGERPRINT
from worker.state.partition import refuse_other
from worker.state.rows import decode_fingerprint


class ConfigCheck(NamedTuple):
    """A check of the subject `of`. `passed` is None without an answer; `remedy` says what to do."""

    of: str
    what: str
    passed: bool | None
    found: str
    remedy: str = ""


WHAT: Final = "built with these settings"
NO_ANSWER: Final = "no answer from the broker"


def check_state(settings: Settings, clients: Clients, topics: Topics) -> ConfigCheck:
    """Whether the first rows of the changelog have the fingerprint of these settings. Loads the
    embedder, whose model is part of it.
    """
    changelog = topics.specs["changelog"].name
    of = f"state in {changelog}"
    count = topics.partitions.get(changelog)
    if count is None:
        return ConfigCheck(of, WHAT, True, "there is none yet")
    try:
        rows = first_rows(clients, settings.app_id, changelog, range(count))
        fingerprints = [row for row in rows if row.key == FINGERPRINT and row.value is not None]
        if not fingerprints:
            return ConfigCheck(of, WHAT, True, "there is none yet")
        engine = configured_engine(settings)
        wanted = processor_config(settings, topics.input_partitions, engine).fingerprint
    except (SetupError, Crash) as cause:
        return ConfigCheck(of, WHAT, None, str(cause))
    return _compare(of, fingerprints, wanted)


def _compare(of: str, rows: list[FirstRow], wanted: Fingerprint) -> ConfigCheck:
    for row in rows:
        assert row.key is not None
        assert row.value is not None
        try:
            refuse_other(decode_fingerprint(row.key, row.value), wanted)
        except StateError as cause:
            return ConfigCheck(of, WHAT, False, str(cause))
    return ConfigCheck(of, WHAT, True, f"in {len(rows)} partitions")


TIMEOUT_SECONDS: Final = 15.0
OPERATIONS: Final = {
    "input": (AclOperation.READ,),
    "output": (AclOperation.WRITE,),
    "facets": (AclOperation.WRITE,),
    "dead letters": (AclOperation.WRITE,),
    "changelog": (AclOperation.READ, AclOperation.WRITE),
}
"""Operations of `run` on a topic, by role; READ and WRITE imply DESCRIBE."""
_DENIED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
# At the first request for a group Kafka creates its topic of offsets, without a coordinator yet.
_RETRIABLE: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
T = TypeVar("T")


def checks(settings: Settings) -> Iterator[ConfigCheck]:
    """Check the broker. Raises SetupError if it does not answer, or refuses this client, and for a
    wrong mapping.
    """
    reading(settings, 1)
    if settings.schema_registry_url is not None:
        yield check_registry(settings)
    clients = KafkaClients(settings)
    topics = Topics(settings, clients)
    yield ConfigCheck("broker", "answers", True, settings.bootstrap_servers)
    broker = _Broker(topics, clients.admin(), settings)
    for spec in topics.specs.values():
        yield from broker.check_topic(spec)
    yield broker.check_group()
    yield broker.check_transactions()
    yield check_state(settings, clients, topics)


def check_registry(settings: Settings) -> ConfigCheck:
    """Whether the schema registry answers."""
    urls = str(settings.schema_registry_url)
    try:
        patiently(SchemaRegistry.of(settings).ask)
    except SetupError as cause:
        return ConfigCheck("schema registry", "answers", False, "no", str(cause))
    return ConfigCheck("schema registry", "answers", True, urls)


class _Broker:
    """Checks of the broker's resources."""

    def __init__(self, topics: Topics, admin: AdminClient, settings: Settings) -> None:
        self._topics = topics
        self._admin = admin
        self._settings = settings

    def check_topic(self, spec: TopicSpec) -> Iterator[ConfigCheck]:
        """Whether the topic exists with the right settings, and may be used."""
        of = f"{spec.role} topic {spec.name}"
        try:
            found = self._answer(
                lambda: self._admin.describe_topics(
                    TopicCollection([spec.name]),
                    include_authorized_operations=True,
                    request_timeout=TIMEOUT_SECONDS,
                )[spec.name]
            )
        except KafkaException as cause:
            yield self._absent(spec, of, cause.args[0])
            return
        except TimeoutError:
            yield ConfigCheck(of, "exists", None, NO_ANSWER)
            return
        yield ConfigCheck(of, "exists", True, f"{len(found.partitions)} partitions")
        yield self._count(spec, of, len(found.partitions))
        yield self._policy(spec, of)
        yield self._allowed(
            of, OPERATIONS[spec.role], found.authorized_operations, f"--topic {spec.name}"
        )

    def _absent(self, spec: TopicSpec, of: str, error: KafkaError) -> ConfigCheck:
        needed = OPERATIONS[spec.role]
        if error.code() in _DENIED:
            return self._allowed(of, needed, (), f"--topic {spec.name}")
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ConfigCheck(of, "exists", None, error.str())
        if spec.role == "input":
            remedy = (
                "create it where its producers are set up, or with `coversumm-worker topics "
                "--partitions N`; COVERSUMM_INPUT_TOPIC names another"
            )
            return ConfigCheck(of, "exists", False, "there is none", remedy)
        return self._creation(spec, of)

    def _creation(self, spec: TopicSpec, of: str) -> ConfigCheck:
        """Whether `run` may create the topic: the broker validates the creation only."""
        count = self._topics.partitions.get(self._topics.specs["input"].name, 1)
        new = NewTopic(spec.name, count, -1, config=dict(spec.config))
        try:
            self._answer(lambda: self._admin.create_topics([new], validate_only=True)[spec.name])
        except KafkaException as cause:
            remedy = "allow CREATE, or run `coversumm-worker topics` as a user with that permission"
            return ConfigCheck(of, "may be created", False, cause.args[0].str(), remedy)
        except TimeoutError:
            return ConfigCheck(of, "may be created", None, NO_ANSWER)
        return ConfigCheck(of, "may be created", True, "there is none yet: `run` creates it")

    def _count(self, spec: TopicSpec, of: str, count: int) -> ConfigCheck:
        wanted = self._topics.partitions.get(self._topics.specs["input"].name, count)
        if count == wanted:
            return ConfigCheck(of, "partitions", True, str(count))
        remedy = (
            f"the input topic has {wanted}; `coversumm-worker topics --dry-run` says what to do"
        )
        return ConfigCheck(of, "partitions", False, str(count), remedy)

    def _policy(self, spec: TopicSpec, of: str) -> ConfigCheck:
        wanted = spec.config["cleanup.policy"]
        try:
            policy = self._topics.policies([spec]).get(spec.name)
        except KafkaException as cause:
            reason = cause.args[0].str().rstrip(".")
            return ConfigCheck(of, "cleanup policy", None, reason, "allow DESCRIBE_CONFIGS")
        except TimeoutError:
            policy = None
        if policy is None:
            return ConfigCheck(of, "cleanup policy", None, NO_ANSWER)
        if policy_complaint(spec, policy) is None:
            return ConfigCheck(of, "cleanup policy", True, policy)
        return ConfigCheck(of, "cleanup policy", False, policy, f"set cleanup.policy={wanted}")

    def check_group(self) -> ConfigCheck:
        """Whether the worker may join its group, which its changelog readers use too."""
        name = self._settings.app_id
        of = f"group {name}"
        try:
            granted = self._group_operations(name)
        except KafkaException as cause:
            return ConfigCheck(of, "permissions", None, cause.args[0].str())
        except TimeoutError:
            return ConfigCheck(of, "permissions", None, NO_ANSWER)
        return self._allowed(of, (AclOperation.READ,), granted, f"--group {name}")

    def _group_operations(self, group: str) -> list[Any]:
        """The operations on a group that this client has permission for."""
        try:
            found = self._answer(
                lambda: self._admin.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=TIMEOUT_SECONDS
                )[group]
            )
        except KafkaException as cause:
            if cause.args[0].code() in _DENIED:
                return []
            raise
        return list(found.authorized_operations or ())

    def check_transactions(self) -> ConfigCheck:
        """Whether this client may do anything; Kafka does not describe transactional ids."""
        name = self._settings.transactional_id
        of = f"transactional id {name}"
        try:
            cluster = self._answer(
                lambda: self._admin.describe_cluster(
                    include_authorized_operations=True, request_timeout=TIMEOUT_SECONDS
                )
            )
        except (KafkaException, TimeoutError):
            cluster = None
        if cluster is not None and AclOperation.CLUSTER_ACTION in (
            cluster.authorized_operations or ()
        ):
            return ConfigCheck(of, "permissions", True, "this client may do anything")
        command = self._grant_command(("WRITE",), f"--transactional-id {name}")
        return ConfigCheck(
            of, "permissions", None, "Kafka does not describe it", f"it needs WRITE: {command}"
        )

    def _allowed(self, of: str, needed: tuple[Any, ...], granted: Any, option: str) -> ConfigCheck:
        missing = [operation.name for operation in needed if operation not in (granted or ())]
        if not missing:
            return ConfigCheck(of, "permissions", True, ", ".join(one.name for one in needed))
        found, command = f"missing: {', '.join(missing)}", self._grant_command(missing, option)
        return ConfigCheck(of, "permissions", False, found, command)

    def _grant_command(self, operations: Any, option: str) -> str:
        who = self._settings.sasl_username or "NAME"
        chosen = " ".join(f"--operation {operation}" for operation in operations)
        return f"kafka-acls.sh --add --allow-principal User:{who} {chosen} {option}"

    def _answer(self, ask: Callable[[], Any]) -> Any:
        """The result of a future; retries while the group has no coordinator."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return ask().result(TIMEOUT_SECONDS)
            except KafkaException as cause:
                if cause.args[0].code() not in _RETRIABLE or time.monotonic() >= give_up:
                    raise
                time.sleep(0.2)
