"""Checks of a broker: it has and allows what `run` needs.

Kafka describes what a client may do with topics, groups and the cluster, and validates the creation
of a topic without doing it. It does not describe transactional ids: only a transaction would show,
and would fence a worker.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
)
from confluent_kafka.cimpl import NewTopic

from worker.credentials.files import client_context, server_context
from worker.errors import Crash, SetupError, many
from worker.kafka.changelog import first_rows
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import retry
from worker.kafka.group import ASSIGNOR, shown_members
from worker.kafka.permissions import READ, Operations, grant_command, missing
from worker.kafka.reader import TopicReader, reach
from worker.kafka.topic_mapping import mapping_of, with_schemas
from worker.kafka.topics import COMPLAINTS, Topics, TopicSpec
from worker.processing.config import configured_engine, processor_config
from worker.registry.client import SchemaRegistry, patiently
from worker.settings import Settings
from worker.state.errors import StateError
from worker.state.keys import APPLIED, FINGERPRINT
from worker.state.partition import refuse_other
from worker.state.rows import decode_applied, decode_fingerprint

OK: Final = "ok"
FAILED: Final = "failed"
NOT_CHECKED: Final = "not checked"
TIMEOUT_SECONDS: Final = 15.0
_DENIED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
REACHES: Final = (10, 1000, 100_000)
"""Offsets before a changelog's end to search for the last applied row; one reach after the other,
because aborted rows may follow it.
"""
NO_ANSWER: Final = "no answer from the broker"


@dataclass(frozen=True, slots=True)
class ConfigCheck:
    """A check of the subject `of`; NOT_CHECKED without an answer. `remedy` says what to do."""

    of: str
    check: str
    status: Literal["ok", "failed", "not checked"]
    found: str
    remedy: str | None = None

    @property
    def advice(self) -> str:
        """The finding and the remedy."""
        return f"{self.found}; {self.remedy}" if self.remedy else self.found


def checks(settings: Settings) -> Iterator[ConfigCheck]:
    """Check the broker. Raises SetupError if it does not answer, and for wrong files."""
    with_schemas(settings, mapping_of(settings))
    server_context(settings)
    client_context(settings)
    if settings.schema_registry_url is not None:
        yield _check_registry(settings)
    clients = KafkaClients(settings)
    topics = Topics(settings, clients)
    yield ConfigCheck("broker", "answers", OK, settings.bootstrap_servers)
    broker = _Broker(topics, clients, clients.admin(), settings)
    for spec in topics.specs.values():
        yield from broker.check_topic(spec)
    yield from broker.check_group()
    yield broker.check_transactions()
    yield _check_state(settings, clients, topics)


def _check_registry(settings: Settings) -> ConfigCheck:
    try:
        patiently(SchemaRegistry.of(settings).ask)
    except SetupError as cause:
        return ConfigCheck("schema registry", "answers", FAILED, "no", str(cause))
    return ConfigCheck("schema registry", "answers", OK, str(settings.schema_registry_url))


def _check_state(settings: Settings, clients: Clients, topics: Topics) -> ConfigCheck:
    """Check that the first rows of the changelog have the fingerprint of these settings, and its
    last rows no newer formats. Loads the embedder, whose model is part of the fingerprint.
    """
    changelog = topics.specs["changelog"].name
    of, what = f"state in {changelog}", "built with these settings"
    try:
        exists = topics.exists(changelog, topics.specs["changelog"].operations)
        partitions = range(topics.partitions[changelog] if exists else 0)
        rows = first_rows(clients, settings.app_id, changelog, partitions)
        fingerprints = [
            decode_fingerprint(row.key, row.value)
            for row in rows
            if row.key == FINGERPRINT and row.value is not None
        ]
        if not fingerprints:
            return ConfigCheck(of, what, OK, "there is none yet")
        engine = configured_engine(settings)
        wanted = processor_config(settings, topics.input_partitions, engine).fingerprint
        for fingerprint in fingerprints:
            refuse_other(fingerprint, wanted)
        with TopicReader(clients, changelog, settings.app_id) as reader:
            for partition in reader.partitions:
                _check_formats(reader, partition)
    except StateError as cause:
        return ConfigCheck(of, what, FAILED, str(cause))
    except (SetupError, Crash) as cause:
        return ConfigCheck(of, what, NOT_CHECKED, str(cause))
    return ConfigCheck(of, what, OK, f"in {many(len(fingerprints), 'partitions')}")


def _check_formats(reader: TopicReader, partition: int) -> None:
    """Decode the last applied row, which ends every transaction with rows. Raises StateError."""
    for distance in REACHES:
        rows = [
            row.record for row in reader.read(partition, reader.bounds(partition).stop - distance)
        ]
        for row in reversed(rows):
            if row.key == APPLIED and row.value is not None:
                decode_applied(APPLIED, row.value)
                return


@dataclass(frozen=True, slots=True)
class _Broker:
    """Checks of the broker's resources."""

    topics: Topics
    clients: Clients
    admin: AdminClient
    settings: Settings

    def check_topic(self, spec: TopicSpec) -> Iterator[ConfigCheck]:
        """Check that the topic exists with the right settings, and may be used."""
        of = f"{spec.role} topic {spec.name}"
        try:
            found = _answer(
                lambda: self.admin.describe_topics(
                    TopicCollection([spec.name]),
                    include_authorized_operations=True,
                    request_timeout=TIMEOUT_SECONDS,
                )[spec.name]
            )
        except KafkaException as cause:
            yield self._absent(spec, of, cause.args[0])
            return
        yield ConfigCheck(of, "exists", OK, many(len(found.partitions), "partitions"))
        yield self._count(spec, of, len(found.partitions))
        yield from self._config(spec, of)
        yield self._allowed(
            of, spec.operations, found.authorized_operations, f"--topic {spec.name}"
        )

    def _absent(self, spec: TopicSpec, of: str, error: KafkaError) -> ConfigCheck:
        if error.code() in _DENIED:
            return self._allowed(of, spec.operations, (), f"--topic {spec.name}")
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ConfigCheck(of, "exists", NOT_CHECKED, error.str())
        if spec.role == "input":
            remedy = (
                "create it where its producers are set up, or with `coversumm-worker topics "
                "--partitions N`; COVERSUMM_INPUT_TOPIC names another"
            )
            return ConfigCheck(of, "exists", FAILED, "there is none", remedy)
        # `run` may create it: the broker validates the creation only
        count = self.topics.partitions.get(self.topics.specs["input"].name, 1)
        new = NewTopic(spec.name, count, -1, config=dict(spec.config))
        try:
            _answer(lambda: self.admin.create_topics([new], validate_only=True)[spec.name])
        except KafkaException as cause:
            found = cause.args[0].str()
            if cause.args[0].code() == KafkaError._TIMED_OUT:
                return ConfigCheck(of, "may be created", NOT_CHECKED, found)
            remedy = "allow CREATE, or run `coversumm-worker topics` as a user with that permission"
            return ConfigCheck(of, "may be created", FAILED, found, remedy)
        return ConfigCheck(of, "may be created", OK, "there is none yet: `run` creates it")

    def _count(self, spec: TopicSpec, of: str, count: int) -> ConfigCheck:
        wanted = self.topics.partitions.get(self.topics.specs["input"].name, count)
        if count == wanted:
            return ConfigCheck(of, "partitions", OK, str(count))
        remedy = (
            f"the input topic has {wanted}; `coversumm-worker topics --dry-run` says what to do"
        )
        return ConfigCheck(of, "partitions", FAILED, str(count), remedy)

    def _config(self, spec: TopicSpec, of: str) -> Iterator[ConfigCheck]:
        try:
            config = self.topics.config(spec)
        except SetupError as unknown:
            yield ConfigCheck(of, "cleanup policy", NOT_CHECKED, str(unknown))
            return
        if config is None:
            yield ConfigCheck(of, "cleanup policy", NOT_CHECKED, NO_ANSWER)
            return
        for what, key, complaint in COMPLAINTS:
            if complaint(spec, config) is not None:
                yield ConfigCheck(of, what, FAILED, config[key], f"set {key}={spec.config[key]}")
            elif key in spec.config:
                yield ConfigCheck(of, what, OK, config[key])
        if spec.role == "input":
            yield self._history(spec, of, config)

    def _history(self, spec: TopicSpec, of: str, config: Mapping[str, str]) -> ConfigCheck:
        """The reach of the input; never a failure, since only replays need more."""
        try:
            found = reach(self.clients, spec.name, self.settings.app_id, config)
        except SetupError as cause:
            return ConfigCheck(of, "history", NOT_CHECKED, str(cause))
        return ConfigCheck(of, "history", OK, found or "it has its first records, and keeps all")

    def check_group(self) -> Iterator[ConfigCheck]:
        """Check that the worker may join its group, as its changelog readers do, and that no
        other clients are in it.
        """
        name = self.settings.app_id
        of = f"group {name}"
        granted: list[Any] = []
        try:
            found = _answer(
                lambda: self.admin.describe_consumer_groups(
                    [name], include_authorized_operations=True, request_timeout=TIMEOUT_SECONDS
                )[name]
            )
            granted = found.authorized_operations or []
            if found.members and found.partition_assignor not in ("", ASSIGNOR):
                remedy = "stop them, or set another COVERSUMM_APP_ID"
                yield ConfigCheck(of, "only workers", FAILED, shown_members(found.members), remedy)
        except KafkaException as cause:
            if cause.args[0].code() not in _DENIED:
                yield ConfigCheck(of, "permissions", NOT_CHECKED, cause.args[0].str())
                return
        yield self._allowed(of, READ, granted, f"--group {name}")

    def check_transactions(self) -> ConfigCheck:
        """Check that this client may do anything; Kafka does not describe transactional ids."""
        name = self.settings.transactional_id
        of = f"transactional id {name}"
        try:
            cluster = _answer(
                lambda: self.admin.describe_cluster(
                    include_authorized_operations=True, request_timeout=TIMEOUT_SECONDS
                )
            )
        except KafkaException:
            cluster = None
        granted = () if cluster is None else cluster.authorized_operations or ()
        if AclOperation.CLUSTER_ACTION in granted:
            return ConfigCheck(of, "permissions", OK, "this client may do anything")
        command = grant_command(self.settings, ("WRITE",), f"--transactional-id {name}")
        found, remedy = "Kafka does not describe it", f"it needs WRITE: {command}"
        return ConfigCheck(of, "permissions", NOT_CHECKED, found, remedy)

    def _allowed(self, of: str, needed: Operations, granted: Any, option: str) -> ConfigCheck:
        if not (lacking := missing(granted, needed)):
            return ConfigCheck(of, "permissions", OK, ", ".join(needed))
        command = grant_command(self.settings, lacking, option)
        return ConfigCheck(of, "permissions", FAILED, f"missing: {', '.join(lacking)}", command)


def _answer(ask: Callable[[], Any]) -> Any:
    """The result of a future. Raises KafkaException.

    At the first request for a group Kafka creates its topic of offsets, without a coordinator yet.
    """
    try:
        return retry(lambda: ask().result(TIMEOUT_SECONDS))
    except TimeoutError as cause:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, NO_ANSWER)) from cause
