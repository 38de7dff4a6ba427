"""The topics the worker needs: found, created and checked before it joins its group.

Output, dead letters and changelog have the input's partition count, so that everything about an entity is in one
partition number. The input topic belongs to its producers: it is never created by `run`, only by `coversumm-worker topics`.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from worker.errors import SurroundingsError
from worker.kafka.diagnosis import AccessErrors
from worker.kafka.retry import patiently
from worker.settings import Settings
from worker.state import TABLE_NAME
from worker.state.errors import NEW_EPOCH

log = logging.getLogger(__name__)
_CLIENT_LOG = logging.getLogger("librdkafka")

# Tombstones live this long in the changelog, or as long as it says where it was made with less; local state that is older is
# rebuilt, or deleted rows would come back.
DELETE_RETENTION_MS = 30 * 24 * 3600 * 1000
# What a record batch of one message takes besides the message.
RECORD_OVERHEAD_BYTES = 1024
# Without it Kafka compacts when half of a log is old, which may be never: what was erased would stay.
MAX_COMPACTION_LAG_MS = 7 * 24 * 3600 * 1000
METADATA_TIMEOUT_SECONDS = 15
DENIED_TIMEOUT_SECONDS = 5
"""The same where the broker answered and did not let us in: a user may be about to be made, no longer."""
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


class Topics:
    """What a broker has of the worker's topics.

    Raises:
        SurroundingsError: the broker cannot be reached.
    """

    def __init__(self, settings: Settings) -> None:
        self.specs = topic_specs(settings)
        self._servers = settings.bootstrap_servers
        self._group = settings.app_id
        self._client_config = settings.kafka_client_config()
        self._access = AccessErrors(settings)
        self._admin = AdminClient(self._client_config | {"error_cb": self._access}, logger=_CLIENT_LOG)
        self.partitions = self._read()

    def _read(self) -> dict[str, int]:
        """Partition counts by topic name."""
        give_up = time.monotonic() + METADATA_TIMEOUT_SECONDS
        slice_seconds = min(DENIED_TIMEOUT_SECONDS, METADATA_TIMEOUT_SECONDS)
        while True:
            try:
                metadata = self._admin.list_topics(timeout=slice_seconds)
                break
            except KafkaException as cause:
                self._admin.poll(0)  # what the client was told
                if self._access.denied or time.monotonic() >= give_up:
                    seconds = slice_seconds if self._access.denied else METADATA_TIMEOUT_SECONDS
                    raise SurroundingsError(
                        f"no answer from KAFKA_BOOTSTRAP_SERVERS={self._servers} within {seconds:g} s "
                        f"({cause.args[0].str()}): {self._access.reason()}"
                    ) from cause
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    @property
    def input_partitions(self) -> int:
        """The input topic's partition count; SurroundingsError when it does not exist."""
        name = self.specs["input"].name
        if name not in self.partitions:
            raise SurroundingsError(
                f"the input topic {name} does not exist: create it where its producers are set up, or with "
                "`coversumm-worker topics --partitions N`; COVERSUMM_INPUT_TOPIC names another"
            )
        return self.partitions[name]

    def missing(self) -> list[TopicSpec]:
        """The topics that do not exist yet, the input among them."""
        return [spec for spec in self.specs.values() if spec.name not in self.partitions]

    def has_progress(self) -> bool:
        """Whether the worker group has committed any offset of the input; SurroundingsError when nobody answers."""
        client = Consumer(
            {
                **self._client_config,
                "group.id": self._group,
                "enable.auto.commit": False,
                "logger": _CLIENT_LOG,
            }
        )
        try:
            name = self.specs["input"].name
            asked = [TopicPartition(name, p) for p in range(self.input_partitions)]
            committed = patiently(lambda: client.committed(asked, timeout=METADATA_TIMEOUT_SECONDS))
            return any(found.offset >= 0 for found in committed)
        except KafkaException as cause:
            raise SurroundingsError(
                f"the broker does not tell the offsets of the group {self._group} ({cause.args[0].str()})"
            ) from cause
        finally:
            client.close()

    def refuse_lost(self) -> None:
        """Look again, and raise SurroundingsError where the changelog or the output is still missing.

        A dead-letter topic that was removed is made anew: what goes there does not build on what was there.
        """
        self.partitions = self._read()  # the group's first worker may have been about to make them
        missing = {spec.role: spec.name for spec in self.missing()}
        if "changelog" in missing:
            raise SurroundingsError(
                f"the changelog topic {missing['changelog']} is gone, and with it the state of everything that is committed; "
                f"start over with `coversumm-worker reset`, or {NEW_EPOCH}"
            )
        if "output" in missing:
            raise SurroundingsError(
                f"the output topic {missing['output']} does not exist, though the group {self._group} has read part of its "
                "input: what was published there is gone. Make it with `coversumm-worker topics` to publish only what is new "
                "from here on, or publish all of it again: `coversumm-worker reset`"
            )

    def check(self) -> None:
        """Raise SurroundingsError when an existing topic does not have the input's partition count."""
        wanted = self.input_partitions
        for spec in self.specs.values():
            found = self.partitions.get(spec.name, wanted)
            if found != wanted:
                raise SurroundingsError(
                    f"the {spec.role} topic {spec.name} has {found} partitions, the input topic "
                    f"{self.specs['input'].name} has {wanted}: they must be equal; give the {spec.role} topic the same count, "
                    "or name another one"
                )

    def check_policies(self) -> dict[str, str]:
        """By role, sentences about cleanup policies that lose data: a compacted input, an output or changelog that deletes.

        Raises:
            KafkaException, TimeoutError: the broker does not tell.
        """
        existing = [spec for spec in self.specs.values() if spec.name in self.partitions]
        futures = self._admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, s.name) for s in existing]
        )
        found = {
            resource.name: future.result(METADATA_TIMEOUT_SECONDS) for resource, future in futures.items()
        }
        complaints = {}
        for spec in existing:
            wanted, policy = spec.config["cleanup.policy"], found[spec.name]["cleanup.policy"].value
            if policy != wanted and spec.role != "dead letters":
                complaints[spec.role] = (
                    f"the {spec.role} topic {spec.name} has cleanup.policy={policy}, it should be {wanted}"
                )
        return complaints

    def create(self, specs: list[TopicSpec], partitions: int, replication_factor: int = -1) -> None:
        """Create topics; one that somebody else made meanwhile counts as made.

        Args:
            specs: which.
            partitions: of each.
            replication_factor: -1 for the broker's default.

        Raises:
            SurroundingsError: the broker refused.
        """
        if not specs:
            return
        new = [NewTopic(s.name, partitions, replication_factor, config=dict(s.config)) for s in specs]
        for name, future in self._admin.create_topics(new, operation_timeout=CREATE_TIMEOUT_SECONDS).items():
            try:
                future.result(CREATE_TIMEOUT_SECONDS)
            except KafkaException as cause:
                if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SurroundingsError(
                        f"the topic {name} could not be created: {cause.args[0].str()}"
                    ) from cause
        # What the broker says goes first: somebody else's topic may have another count.
        self.partitions = {spec.name: partitions for spec in specs} | self._read()


def prepare_topics(settings: Settings, die: Callable[[BaseException], Any]) -> int:
    """Check the worker's topics and create the missing ones but the input; return the partition count.

    Only a group that has not begun gets its topics made: what a later one misses was there, and somebody removed it.
    `die` is called, from a thread of its own, where it turns out later that the state cannot be restored from its changelog.
    """
    topics = Topics(settings)
    partitions = topics.input_partitions
    missing = topics.missing()
    if missing and topics.has_progress():
        topics.refuse_lost()
    topics.create(missing, partitions)
    topics.check()
    threading.Thread(target=_watch_policies, args=[topics, die], name="policies", daemon=True).start()
    return partitions


def _watch_policies(topics: Topics, die: Callable[[BaseException], Any]) -> None:
    """Beside the start, which need not wait for it: an answer may take its time, or never come."""
    try:
        complaints = topics.check_policies()
    except (KafkaException, TimeoutError) as cause:
        log.info("the broker does not tell the topics' cleanup policies: %r", cause)
        return
    for role, complaint in complaints.items():
        if role == "changelog":
            die(SurroundingsError(f"{complaint}: the state cannot be restored from a log that forgets"))
        log.warning("%s", complaint)
