"""Whether a broker has and allows what `run` needs: asked, never tried, so that nothing changes.

Kafka tells what a client may do with topics, groups and the cluster; the creation of a topic can be
validated without being done. It does not tell about transactional ids: only who begins a
transaction finds out, and that would fence a worker.
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
from worker.kafka.topics import Topics, TopicSpec, policy_complaint
from worker.processing.config import processor_config
from worker.settings import Settings
from worker.state import Fingerprint
from worker.state.errors import StateError
from worker.state.keys import FINGERPRINT
from worker.state.partition import refuse_other
from worker.state.rows import decode_fingerprint
from worker.text.embedders import load_engine


class ConfigCheck(NamedTuple):
    """One thing that was asked. `passed` is None where there was no answer; `found` says what was,
    `remedy` what to do.
    """

    of: str
    what: str
    passed: bool | None
    found: str
    remedy: str = ""


WHAT: Final = "built with these settings"


def check_state(settings: Settings, clients: Clients, topics: Topics) -> ConfigCheck:
    """The first rows of the changelog say with what it was built. The embedder is loaded, for the
    model is part of that.
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
        wanted = _fingerprint(settings, topics.input_partitions)
    except (SetupError, Crash) as cause:
        return ConfigCheck(of, WHAT, None, str(cause))
    return _compared(of, fingerprints, wanted)


def _fingerprint(settings: Settings, partitions: int) -> Fingerprint:
    threads, cache = settings.embedder_threads, settings.model_cache_dir
    engine = load_engine(settings.embedder, threads=threads, cache_dir=cache)
    return processor_config(settings, partitions, engine).fingerprint


def _compared(of: str, rows: list[FirstRow], wanted: Fingerprint) -> ConfigCheck:
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
    "dead letters": (AclOperation.WRITE,),
    "changelog": (AclOperation.READ, AclOperation.WRITE),
}
"""By role, what `run` does with a topic; reading and writing include describing."""
_DENIED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
# The first question about any group makes Kafka set up its own topic of offsets: for a moment
# nobody coordinates.
_SOON: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
T = TypeVar("T")


def checks(settings: Settings) -> Iterator[ConfigCheck]:
    """Ask the broker; one check after another.

    Raises:
        SetupError: it does not answer, or does not let this client in.
    """
    clients = KafkaClients(settings)
    topics = Topics(settings, clients)
    yield ConfigCheck("broker", "answers", True, settings.bootstrap_servers)
    asked = _Asked(topics, clients.admin(), settings)
    for spec in topics.specs.values():
        yield from asked.topic(spec)
    yield asked.group()
    yield asked.transactions()
    yield check_state(settings, clients, topics)


class _Asked:
    """The questions, each to one resource."""

    def __init__(self, topics: Topics, admin: AdminClient, settings: Settings) -> None:
        self._topics = topics
        self._admin = admin
        self._settings = settings

    def topic(self, spec: TopicSpec) -> Iterator[ConfigCheck]:
        """Whether it is there, as it should be, and may be used."""
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
            yield ConfigCheck(of, "exists", None, "no answer from the broker")
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
            remedy = "create it where its producers are set up, or with `coversumm-worker topics --partitions N`"
            return ConfigCheck(
                of,
                "exists",
                False,
                "there is none",
                f"{remedy}; COVERSUMM_INPUT_TOPIC names another",
            )
        return self._creation(spec, of)

    def _creation(self, spec: TopicSpec, of: str) -> ConfigCheck:
        """Whether `run` may create it: the broker validates the creation and does nothing."""
        count = self._topics.partitions.get(self._topics.specs["input"].name, 1)
        new = NewTopic(spec.name, count, -1, config=dict(spec.config))
        try:
            self._answer(lambda: self._admin.create_topics([new], validate_only=True)[spec.name])
        except KafkaException as cause:
            remedy = "allow it CREATE, or create the topic with `coversumm-worker topics` as somebody who may"
            return ConfigCheck(of, "may be created", False, cause.args[0].str(), remedy)
        except TimeoutError:
            return ConfigCheck(of, "may be created", None, "no answer from the broker")
        return ConfigCheck(of, "may be created", True, "there is none yet: `run` creates it")

    def _count(self, spec: TopicSpec, of: str, count: int) -> ConfigCheck:
        wanted = self._topics.partitions.get(self._topics.specs["input"].name, count)
        remedy = f"the input topic has {wanted}; `coversumm-worker topics --dry-run` says what can be done"
        return ConfigCheck(
            of, "partitions", count == wanted, str(count), "" if count == wanted else remedy
        )

    def _policy(self, spec: TopicSpec, of: str) -> ConfigCheck:
        wanted = spec.config["cleanup.policy"]
        try:
            policy = self._topics.policies([spec]).get(spec.name)
        except KafkaException as cause:
            return ConfigCheck(
                of,
                "cleanup policy",
                None,
                cause.args[0].str().rstrip("."),
                "DESCRIBE_CONFIGS would tell",
            )
        except TimeoutError:
            policy = None
        if policy is None:
            return ConfigCheck(of, "cleanup policy", None, "no answer from the broker")
        is_right = policy_complaint(spec, policy) is None
        return ConfigCheck(
            of,
            "cleanup policy",
            is_right,
            policy,
            "" if is_right else f"set cleanup.policy={wanted}",
        )

    def group(self) -> ConfigCheck:
        """Whether the worker may join its group; its readers of the changelog ask under the same
        name.
        """
        name = self._settings.app_id
        of = f"group {name}"
        try:
            granted = self._granted(name)
        except KafkaException as cause:
            return ConfigCheck(of, "permissions", None, cause.args[0].str())
        except TimeoutError:
            return ConfigCheck(of, "permissions", None, "no answer from the broker")
        return self._allowed(of, (AclOperation.READ,), granted, f"--group {name}")

    def _granted(self, group: str) -> list[Any]:
        """What this client may do with a group."""
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

    def transactions(self) -> ConfigCheck:
        """What Kafka tells of transactional ids: nothing, but that somebody may do anything."""
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
        return ConfigCheck(
            of,
            "permissions",
            None,
            "Kafka does not tell",
            f"it needs WRITE: {self._add(('WRITE',), f'--transactional-id {name}')}",
        )

    def _allowed(self, of: str, needed: tuple[Any, ...], granted: Any, option: str) -> ConfigCheck:
        missing = [operation.name for operation in needed if operation not in (granted or ())]
        if not missing:
            return ConfigCheck(
                of, "permissions", True, ", ".join(operation.name for operation in needed)
            )
        found = f"missing: {', '.join(missing)}"
        return ConfigCheck(of, "permissions", False, found, self._add(missing, option))

    def _add(self, operations: Any, option: str) -> str:
        """The command that grants them."""
        who = self._settings.sasl_username or "NAME"
        chosen = " ".join(f"--operation {operation}" for operation in operations)
        return f"kafka-acls.sh --add --allow-principal User:{who} {chosen} {option}"

    def _answer(self, ask: Callable[[], Any]) -> Any:
        """What a future gives; asked again while nobody coordinates the group."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return ask().result(TIMEOUT_SECONDS)
            except KafkaException as cause:
                if cause.args[0].code() not in _SOON or time.monotonic() >= give_up:
                    raise
                time.sleep(0.2)
