"""The worker's topics: their names and configurations, and how they are created and checked.

Output, dead letters and changelog have the input's partition count, so that everything about an
entity is in one partition number. The input topic belongs to its producers: only
`coversumm-worker topics` creates it, never `run`.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from worker.errors import SetupError, many
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import REFUSED, Diagnosis, broker_errors, patiently
from worker.kafka.offsets import committed_offsets
from worker.kafka.permissions import OPERATIONS, WRITE, Operations, grant_command, hidden
from worker.kafka.topic_ids import EMBEDDED, described
from worker.settings import Settings
from worker.state import TABLE_NAME
from worker.state.errors import NEW_EPOCH, PartitionsChanged

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 15.0  # for metadata, in all attempts together
DENIED_SECONDS = 5.0  # grace period for a user that is still being created, after a refusal
UNREACHABLE_SECONDS = 2.0
"""Seconds until a tool gives up if nothing listens, or the host name does not resolve."""
SILENT_SECONDS = 1.0  # seconds until a worker that starts logs that it waits for a broker
CREATE_TIMEOUT_SECONDS = 30
DELETE_RETENTION_MS = 30 * 24 * 3600 * 1000
"""How long the changelog keeps tombstones, unless it was created with less.

Older local state is rebuilt, or deleted rows would return.
"""
CONFIGS = ("DESCRIBE_CONFIGS",)  # the operation that shows a topic's configuration
KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}  # of a created input: a replay needs it all
RECORD_OVERHEAD_BYTES = 1024  # most bytes that a record batch of one message adds to the message
MAX_COMPACTION_LAG_MS = 7 * 24 * 3600 * 1000
"""Without it Kafka compacts once half of a log is old, perhaps never, and erased data stays."""


def partition_of(key: str | bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner gives a key (murmur2 of its UTF-8)."""
    from aiokafka.partitioner import murmur2  # loads all of aiokafka, which few commands need

    data = key.encode() if isinstance(key, str) else key
    return int((murmur2(data) & 0x7FFFFFFF) % partitions)


def ask_metadata(
    settings: Settings, admin: AdminClient, diagnosis: Diagnosis, *, patient: bool = False
) -> ClusterMetadata:
    """A broker's metadata of the cluster. Raises SetupError if none answers.

    `diagnosis` is the client's error callback; `patient`: waits for a broker that cannot be reached
    yet.
    """
    waited = 0.0
    for seconds in _waits(patient):
        waited += seconds
        try:
            return admin.list_topics(timeout=seconds)
        except KafkaException as cause:
            admin.poll(0)  # calls the error callback
            denied = diagnosis.denied and waited >= min(DENIED_SECONDS, TIMEOUT_SECONDS)
            if denied or (diagnosis.unreachable and not patient) or waited >= TIMEOUT_SECONDS:
                raise SetupError(
                    f"no answer from KAFKA_BOOTSTRAP_SERVERS={settings.bootstrap_servers} within "
                    f"{waited:g} s ({diagnosis.last_error or cause.args[0].str()}): "
                    f"{diagnosis.reason()}"
                ) from cause
            if waited == SILENT_SECONDS:
                log.warning(
                    "no answer yet from KAFKA_BOOTSTRAP_SERVERS=%s (%s): waiting up to %g s",
                    settings.bootstrap_servers,
                    diagnosis.last_error or cause.args[0].str(),
                    TIMEOUT_SECONDS,
                )
    raise AssertionError("the last wait ends with an answer or an error")


def reached(settings: Settings) -> KafkaClients:
    """A tool's clients, once a broker has answered. Raises SetupError if none does."""
    clients, diagnosis = KafkaClients(settings), Diagnosis(settings)
    ask_metadata(settings, clients.admin(diagnosis), diagnosis)
    return clients


def _waits(patient: bool) -> Iterator[float]:
    """Timeouts of the attempts, each up to the next moment to give up or to log."""
    ends = {
        DENIED_SECONDS * count for count in range(1, int(TIMEOUT_SECONDS // DENIED_SECONDS) + 1)
    }
    ends |= {SILENT_SECONDS if patient else UNREACHABLE_SECONDS, TIMEOUT_SECONDS}
    before = 0.0
    for end in sorted(ends):
        yield end - before
        before = end


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be: its role in the pipeline, name and configuration."""

    role: str
    name: str
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def operations(self) -> Operations:
        """The operations of `run` or a bridge on the topic."""
        return OPERATIONS.get(self.role, WRITE)


def changelog_topic(settings: Settings) -> str:
    """The changelog's name, as Faust makes it."""
    return f"{settings.app_id}-{TABLE_NAME}-changelog"


def topic_specs(settings: Settings) -> dict[str, TopicSpec]:
    """The worker's topics by role; that of facets only if any are defined."""
    compacted = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(MAX_COMPACTION_LAG_MS)}
    largest = {"max.message.bytes": str(settings.max_message_bytes + RECORD_OVERHEAD_BYTES)}
    specs = (
        TopicSpec("input", settings.input_topic, {"cleanup.policy": "delete", **KEPT}),
        TopicSpec("output", settings.output_topic, compacted | largest),
        *(
            [TopicSpec("facets", settings.facets_topic, compacted | largest)]
            if settings.facets
            else []
        ),
        TopicSpec("dead letters", settings.dlq_topic, {"cleanup.policy": "delete"} | largest),
        TopicSpec(
            "changelog",
            changelog_topic(settings),
            {**compacted, "delete.retention.ms": str(DELETE_RETENTION_MS), **largest},
        ),
    )
    return {spec.role: spec for spec in specs}


def policy_complaint(spec: TopicSpec, config: Mapping[str, str]) -> str | None:
    """A sentence about a cleanup policy that loses data, if it does.

    It does for a compacted input, and for an output or changelog that deletes.
    """
    policy = config["cleanup.policy"]
    wanted = spec.config.get("cleanup.policy", policy)
    if policy == wanted or spec.role == "dead letters":
        return None
    return f"the {spec.role} topic {spec.name} has cleanup.policy={policy}, it should be {wanted}"


def size_complaint(spec: TopicSpec, config: Mapping[str, str]) -> str | None:
    """A sentence about a topic that refuses the worker's largest messages, if it does."""
    found = int(config["max.message.bytes"])
    wanted = int(spec.config.get("max.message.bytes", found))
    if (least := wanted - RECORD_OVERHEAD_BYTES) <= found:
        return None
    return (
        f"the {spec.role} topic {spec.name} has max.message.bytes={found}, less than "
        f"COVERSUMM_MAX_MESSAGE_BYTES={least}: set max.message.bytes={wanted} on the topic, or "
        "lower COVERSUMM_MAX_MESSAGE_BYTES"
    )


def tombstone_complaint(spec: TopicSpec, config: Mapping[str, str]) -> str | None:
    """A sentence about a changelog that forgets deletions early, if it does."""
    found, wanted = int(config["delete.retention.ms"]), spec.config.get("delete.retention.ms", "0")
    if found >= int(wanted):
        return None
    return (
        f"the {spec.role} topic {spec.name} has delete.retention.ms={found}, less than {wanted}: "
        "local state that is older is restored from the start, and a restore that takes longer "
        f"never ends; set delete.retention.ms={wanted} on the topic"
    )


COMPLAINTS: Final = (
    ("cleanup policy", "cleanup.policy", policy_complaint),
    ("largest message", "max.message.bytes", size_complaint),
    ("life of deletions", "delete.retention.ms", tombstone_complaint),
)
"""Checks of a topic: name, configuration, and what gives the complaint."""


class Topics:
    """The worker's topics on a broker, or those of `specs`, by role.

    `patient`: see `ask_metadata`; a tool's user prefers an early error. Raises SetupError if no
    broker answers.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        *,
        specs: Mapping[str, TopicSpec] | None = None,
        patient: bool = False,
    ) -> None:
        self.specs = topic_specs(settings) if specs is None else specs
        self._settings = settings
        self._patient = patient
        self._diagnosis = Diagnosis(settings)
        self._admin = clients.admin(self._diagnosis)
        self.refresh()

    def refresh(self) -> None:
        """Ask the broker for all partition counts, by name."""
        found = ask_metadata(self._settings, self._admin, self._diagnosis, patient=self._patient)
        self.partitions = {
            name: len(topic.partitions) for name, topic in found.topics.items() if not topic.error
        }
        # librdkafka's embedded broker describes no topics, and allows everything
        self._lists_all = str(found.cluster_id).startswith(EMBEDDED)

    def exists(self, name: str, operations: Operations) -> bool:
        """True if the topic exists. Raises SetupError if no broker tells this client.

        The list of all topics lacks those that this client may not describe, so a broker is asked
        for this one by name. `operations` are those to allow in that case.
        """
        if name in self.partitions or self._lists_all:
            return name in self.partitions
        with broker_errors(f"could not describe the topic {name}"):
            try:
                found = described(self._admin, name)
            except KafkaException as cause:
                if cause.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise hidden(self._settings, name, operations) from cause
                raise
        if found is not None:
            self.partitions[name] = len(found.partitions)
        return found is not None

    @property
    def input_partitions(self) -> int:
        """The input topic's partition count. Raises SetupError if the topic does not exist."""
        name = self.specs["input"].name
        if not self.exists(name, self.specs["input"].operations):
            raise SetupError(
                f"the input topic {name} does not exist: create it where its producers are set up, "
                "or with `coversumm-worker topics --partitions N`; COVERSUMM_INPUT_TOPIC names "
                "another"
            )
        return self.partitions[name]

    def missing(self) -> list[TopicSpec]:
        """The topics that do not exist yet, the input among them. Raises as `exists` does."""
        return [spec for spec in self.specs.values() if not self.exists(spec.name, spec.operations)]

    def config(self, spec: TopicSpec) -> dict[str, str] | None:
        """The topic's configuration; None if this broker does not know the topic yet.

        Raises SetupError if the broker does not answer, or not this client.
        """
        what, advice = f"the configuration of the {spec.role} topic {spec.name}", ""
        resource = ConfigResource(ConfigResource.Type.TOPIC, spec.name)
        try:
            found = self._admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
        except TimeoutError as cause:
            raise SetupError(f"{what} is unknown: no answer from the broker") from cause
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            if error.code() in REFUSED:
                command = grant_command(self._settings, CONFIGS, f"--topic {spec.name}")
                advice = f": allow DESCRIBE_CONFIGS on it: {command}"
            raise SetupError(f"{what} is unknown ({error.name()}){advice}") from cause
        return {name: str(entry.value) for name, entry in found.items()}

    def create(self, specs: list[TopicSpec], partitions: int, replication_factor: int = -1) -> None:
        """Create topics; those that another process creates at the same time count as created.

        `replication_factor` -1 is the broker's default. Raises SetupError if the broker refuses.
        """
        if not specs:
            return
        new = [
            NewTopic(s.name, partitions, replication_factor, config=dict(s.config)) for s in specs
        ]
        for name, future in self._admin.create_topics(
            new, operation_timeout=CREATE_TIMEOUT_SECONDS
        ).items():
            try:
                future.result(CREATE_TIMEOUT_SECONDS)
            except KafkaException as cause:
                error = cause.args[0]
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SetupError(
                        f"the topic {name} could not be created ({error.name()}: {error.str()})"
                    ) from cause
        # The broker's answer counts: another process may have created a topic with another count.
        self.refresh()
        self.partitions = {spec.name: partitions for spec in specs} | self.partitions

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic, up to this count. Raises SetupError if the broker refuses."""
        future = self._admin.create_partitions([NewPartitions(name, partitions)])[name]
        try:
            future.result(CREATE_TIMEOUT_SECONDS)
        except KafkaException as cause:
            self.refresh()  # another process may have added them
            if self.partitions[name] < partitions:
                raise SetupError(
                    f"the topic {name} has {many(self.partitions[name], 'partitions')} and needs "
                    f"{partitions}, which could not be added: {cause.args[0].str()}"
                ) from cause
        self.partitions[name] = max(partitions, self.partitions[name])


def prepare_topics(
    settings: Settings,
    clients: Clients,
    die: Callable[[BaseException], Any],
    specs: Mapping[str, TopicSpec] | None = None,
) -> int:
    """Create the worker's missing topics except the input, check all, return the partition count.

    Topics are created only for a group without committed offsets: any other group had all of them,
    so a missing one was deleted. A thread calls `die` for what `check_configs` refuses.

    Raises SetupError if a topic is not as it must be, or the broker does not answer.
    """
    topics = Topics(settings, clients, specs=specs, patient=True)
    partitions = patiently(lambda: topics.input_partitions)
    missing = patiently(topics.missing)

    def has_begun() -> bool:
        return patiently(lambda: has_progress(clients, settings, partitions))

    if missing and has_begun():
        topics.refresh()  # the group's first worker may have been about to create them
        patiently(lambda: _refuse_lost(topics, settings.app_id))
    patiently(lambda: topics.create(missing, partitions))
    for refused in refused_counts(topics, topics.input_partitions, has_begun):
        raise refused
    threading.Thread(target=_check_beside, args=[topics, die], name="configs", daemon=True).start()
    return partitions


def has_progress(clients: Clients, settings: Settings, partitions: int) -> bool:
    """True if the group has committed any offset of the input. Raises SetupError."""
    group = settings.app_id
    try:
        with closing(clients.standalone_consumer(group, "read_committed")) as consumer:
            return bool(
                committed_offsets(
                    consumer, settings.input_topic, range(partitions), TIMEOUT_SECONDS
                )
            )
    except KafkaException as cause:
        raise SetupError(
            f"could not fetch the committed offsets of the group {group} ({cause.args[0].str()})"
        ) from cause


def _refuse_lost(topics: Topics, group: str) -> None:
    """Refuse a missing changelog or output. Nothing depends on the dead letters' old content."""
    missing = {spec.role: spec.name for spec in topics.missing()}
    if "changelog" in missing:
        raise SetupError(
            f"the changelog topic {missing['changelog']} is gone, and with it the state of "
            "everything that is committed; start over with `coversumm-worker reset`, or "
            f"{NEW_EPOCH}"
        )
    for role, setting in (("output", "OUTPUT_TOPIC"), ("facets", "FACETS_TOPIC")):
        if role in missing:
            raise SetupError(
                f"the {role} topic {missing[role]} does not exist, though the group {group} has "
                "read part of its input: what was published there is gone. Publish all of it again "
                f"with `coversumm-worker reset`, or name another COVERSUMM_{setting}, made with "
                "`coversumm-worker topics`, to publish only what changes from here on"
                + (f". If COVERSUMM_FACETS is new: {NEW_EPOCH}" if role == "facets" else "")
            )


def refused_counts(topics: Topics, wanted: int, has_begun: Callable[[], bool]) -> list[SetupError]:
    """Errors of topics without the `wanted` partition count, the input's.

    If the group has begun and its changelog is among them, the input's count has changed: then that
    is the only error.
    """
    others = {
        spec.role: (spec.name, topics.partitions[spec.name])
        for spec in topics.specs.values()
        if topics.partitions.get(spec.name, wanted) != wanted
    }
    input_topic = topics.specs["input"].name
    if "changelog" in others and has_begun():
        return [PartitionsChanged(input_topic, others["changelog"][1], wanted)]
    return [
        SetupError(
            f"the {role} topic {name} has {many(found, 'partitions')}, the input topic "
            f"{input_topic} has {wanted}: they must be equal; name another one, and "
            "`coversumm-worker topics` creates it with as many"
        )
        for role, (name, found) in others.items()
    ]


def _check_beside(topics: Topics, die: Callable[[BaseException], Any]) -> None:
    """Runs beside the start, which need not wait: an answer may be slow, or never arrive."""
    try:
        check_configs(topics)
    except SetupError as refused:
        die(refused)


def check_configs(topics: Topics) -> None:
    """Raise SetupError for a topic that loses state or refuses messages; log other complaints."""
    for spec in topics.specs.values():
        try:
            config = topics.config(spec)
        except SetupError as unknown:
            log.warning("%s", unknown)
            continue
        if config is None:
            continue
        if complaint := size_complaint(spec, config):
            raise SetupError(complaint)
        if complaint := policy_complaint(spec, config):
            if spec.role == "changelog":
                raise SetupError(
                    f"{complaint}: the state cannot be restored from a log that forgets"
                )
            log.warning("%s", complaint)
        if complaint := tombstone_complaint(spec, config):
            log.warning("%s", complaint)
