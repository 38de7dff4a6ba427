"""The topics the worker needs: what they should be, and what a broker has of them.

Output, dead letters and changelog have the input's partition count, so that everything about an
entity is in one partition number. The input topic belongs to its producers: it is never created by
`run`, only by `coversumm-worker topics`.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aiokafka.partitioner import murmur2
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
)
from confluent_kafka.cimpl import NewTopic

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import Diagnosis
from worker.settings import Settings
from worker.state import TABLE_NAME

TIMEOUT_SECONDS = 15.0
DENIED_SECONDS = 5.0
"""Where a broker answered and refused the client: so long a user may be about to be created."""
UNREACHABLE_SECONDS = 2.0
"""Where nothing listens, or the name is not known: for a tool, which somebody waits for."""


def ask_metadata(
    settings: Settings,
    admin: AdminClient,
    diagnosis: Diagnosis,
    *,
    timeout_seconds: float,
    patient: bool,
) -> ClusterMetadata:
    """What a broker says of the cluster.

    Args:
        settings: name the brokers.
        admin: who asks.
        diagnosis: its error callback.
        timeout_seconds: the most it may take.
        patient: a broker that is not there yet may come, as where worker and broker are started
            together.

    Raises:
        SetupError: no broker answers.
    """
    waited = 0.0
    for seconds in _waits(timeout_seconds, patient):
        waited += seconds
        try:
            return admin.list_topics(timeout=seconds)
        except KafkaException as cause:
            admin.poll(0)  # calls the error callback
            denied = diagnosis.denied and waited >= min(DENIED_SECONDS, timeout_seconds)
            if denied or (diagnosis.unreachable and not patient) or waited >= timeout_seconds:
                raise SetupError(
                    f"no answer from KAFKA_BOOTSTRAP_SERVERS={settings.bootstrap_servers} within {waited:g} s "
                    f"({diagnosis.told or cause.args[0].str()}): {diagnosis.reason()}"
                ) from cause
    raise AssertionError("the last wait ends with an answer or an error")


def reached(settings: Settings, clients: Clients) -> Clients:
    """`clients`, once a broker has answered them: for a tool. Raises SetupError where none
    does.
    """
    diagnosis = Diagnosis(settings)
    ask_metadata(
        settings,
        clients.admin(diagnosis),
        diagnosis,
        timeout_seconds=TIMEOUT_SECONDS,
        patient=False,
    )
    return clients


def _waits(timeout_seconds: float, patient: bool) -> Iterator[float]:
    """Waits for one answer each: up to the moments at which giving up is thought about."""
    ends = [
        DENIED_SECONDS * number for number in range(1, int(timeout_seconds // DENIED_SECONDS) + 1)
    ]
    ends += [] if patient else [UNREACHABLE_SECONDS]
    before = 0.0
    for end in sorted({*(end for end in ends if end < timeout_seconds), timeout_seconds}):
        yield end - before
        before = end


# Tombstones live this long in the changelog, or as long as it says where it was made with less;
# local state that is older is rebuilt, or deleted rows would come back.
DELETE_RETENTION_MS = 30 * 24 * 3600 * 1000
# What a record batch of one message takes besides the message.
RECORD_OVERHEAD_BYTES = 1024
# Without it Kafka compacts when half of a log is old, which may be never: what was erased would
# stay.
MAX_COMPACTION_LAG_MS = 7 * 24 * 3600 * 1000
METADATA_TIMEOUT_SECONDS = 15
CREATE_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be: its role in the pipeline, name and configuration."""

    role: str
    name: str
    config: Mapping[str, str] = field(default_factory=dict)


def changelog_topic(settings: Settings) -> str:
    """The changelog's name, as Faust makes it."""
    return f"{settings.app_id}-{TABLE_NAME}-changelog"


def topic_specs(settings: Settings) -> dict[str, TopicSpec]:
    """The worker's four topics by role."""
    compacted = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(MAX_COMPACTION_LAG_MS)}
    largest = {"max.message.bytes": str(settings.max_message_bytes + RECORD_OVERHEAD_BYTES)}
    specs = (
        TopicSpec("input", settings.input_topic, {"cleanup.policy": "delete"}),
        TopicSpec("output", settings.output_topic, compacted | largest),
        TopicSpec("dead letters", settings.dlq_topic, {"cleanup.policy": "delete"} | largest),
        TopicSpec(
            "changelog",
            changelog_topic(settings),
            # Local state older than this is rebuilt, so that no removed row comes back.
            {**compacted, "delete.retention.ms": str(DELETE_RETENTION_MS)},
        ),
    )
    return {spec.role: spec for spec in specs}


def policy_complaint(spec: TopicSpec, policy: str) -> str | None:
    """A sentence about a cleanup policy that loses data: a compacted input, an output or changelog
    that deletes.
    """
    wanted = spec.config["cleanup.policy"]
    if policy == wanted or spec.role == "dead letters":
        return None
    return f"the {spec.role} topic {spec.name} has cleanup.policy={policy}, it should be {wanted}"


class Topics:
    """What a broker has of the worker's topics.

    Args:
        settings: name the topics and the brokers.
        clients: reach them.
        specs: which ones by role; by default those of any worker.
        patient: a broker that is not there yet may come; a tool's user would rather know at once.

    Raises:
        SetupError: the broker cannot be reached.
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
        self.partitions = self._read()

    def refresh(self) -> None:
        """Ask again."""
        self.partitions = self._read()

    def _read(self) -> dict[str, int]:
        """Partition counts by topic name."""
        metadata = ask_metadata(
            self._settings,
            self._admin,
            self._diagnosis,
            timeout_seconds=METADATA_TIMEOUT_SECONDS,
            patient=self._patient,
        )
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None
        }

    @property
    def input_partitions(self) -> int:
        """The input topic's partition count; SetupError when it does not exist."""
        name = self.specs["input"].name
        if name not in self.partitions:
            raise SetupError(
                f"the input topic {name} does not exist: create it where its producers are set up, or with "
                "`coversumm-worker topics --partitions N`; COVERSUMM_INPUT_TOPIC names another"
            )
        return self.partitions[name]

    def missing(self) -> list[TopicSpec]:
        """The topics that do not exist yet, the input among them."""
        return [spec for spec in self.specs.values() if spec.name not in self.partitions]

    def policies(self, specs: Iterable[TopicSpec]) -> dict[str, str]:
        """By topic name, the cleanup policies of those that exist.

        Raises:
            KafkaException, TimeoutError: the broker does not answer, or not this client.
        """
        existing = [spec.name for spec in specs if spec.name in self.partitions]
        if not existing:
            return {}
        futures = self._admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, name) for name in existing]
        )
        found = {
            resource.name: future.result(METADATA_TIMEOUT_SECONDS)
            for resource, future in futures.items()
        }
        return {name: str(found[name]["cleanup.policy"].value) for name in existing}

    def check_policies(self) -> dict[str, str]:
        """By role, sentences about cleanup policies that lose data: see `policy_complaint`.

        Raises:
            KafkaException, TimeoutError: the broker does not answer.
        """
        policies = self.policies(self.specs.values())
        complaints = {
            spec.role: policy_complaint(spec, policies[spec.name])
            for spec in self.specs.values()
            if spec.name in policies
        }
        return {role: complaint for role, complaint in complaints.items() if complaint is not None}

    def create(self, specs: list[TopicSpec], partitions: int, replication_factor: int = -1) -> None:
        """Create topics; one that somebody else creates at the same time counts as created.

        Args:
            specs: which.
            partitions: of each.
            replication_factor: -1 for the broker's default.

        Raises:
            SetupError: the broker refused.
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
                if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SetupError(
                        f"the topic {name} could not be created: {cause.args[0].str()}"
                    ) from cause
        # The broker's answer overrides ours: a topic that somebody else created may have another
        # count.
        self.partitions = {spec.name: partitions for spec in specs} | self._read()


log = logging.getLogger(__name__)


def partition_of(entity_id: str, partitions: int) -> int:
    """The partition a Kafka producer's default partitioner gives the key (murmur2 of its UTF-8)."""
    return int((murmur2(entity_id.encode()) & 0x7FFFFFFF) % partitions)
