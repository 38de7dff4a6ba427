"""`reset`: throws away state, in an order that is safe to interrupt.

1. *Local*: the databases of a data directory. After it, the worker restores them from the
   changelog.
2. *Offsets*: the group with its committed offsets. After it, the worker reads the input from its
   start, and the restored state, which knows what was applied, ignores all of it.
3. *Changelog*: deleted and created again. Between the two, the worker, whose group has no offsets,
   creates it.

In the other order, offsets would remain without their state, which the worker refuses. Each step
alone is safe too; the offsets alone change nothing.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors, retry
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.reader import TopicReader
from worker.kafka.topic_ids import RecreatedTopic
from worker.kafka.topics import changelog_topic, reached
from worker.published.publication import publications
from worker.registry.lookup import AsJson
from worker.settings import Settings
from worker.storage.lock import held, refuse_running
from worker.storage.snapshot import databases

POLL_SECONDS = 0.5
EXPIRY_SECONDS = 2.0
"""Seconds until a broker notices that a session has expired."""
REMOVED = ".removed"
"""Suffix of a database that counts as removed, while its files are deleted."""


class Removal(Protocol):
    """A step of the reset. Construction changes nothing."""

    def facts(self) -> dict[str, Any]:
        """What the step throws away."""

    def act(self) -> None:
        """Throw it away."""


def planned(
    settings: Settings,
    *,
    local: bool,
    offsets: bool,
    changelog: bool,
    on_wait: Callable[[str], None] = lambda _: None,
) -> list[Removal]:
    """The steps in their order; changes nothing.

    Calls `on_wait` with a message, then waits, while the sessions of stopped workers have not
    expired. Raises SetupError if a worker is running. Needs no broker for `local` alone.
    """
    steps: list[Removal] = []
    if local:
        refuse_running(settings.data_dir)
        steps.append(LocalState(settings.data_dir))
    if offsets or changelog:
        clients = reached(settings, KafkaClients(settings))
        admin = clients.admin()
        refuse_members(admin, settings.app_id, settings.session_timeout_ms / 1000, on_wait)
        steps += [ResetOffsets(admin, settings.app_id)] if offsets else []
        steps += [ChangelogTopic(settings, clients, admin)] if changelog else []
    return steps


def lock_data_dir(data_dir: Path) -> AbstractContextManager[None]:
    """Keep workers out of a data directory, if it exists."""
    return held(data_dir) if data_dir.exists() else nullcontext()


def refuse_members(
    admin: AdminClient,
    group: str,
    session_seconds: float,
    on_wait: Callable[[str], None],
    clock: Clock = time,
) -> None:
    """Wait for the sessions of stopped workers; raise SetupError with their names if some stay."""
    give_up = clock.monotonic() + session_seconds + EXPIRY_SECONDS
    names = _members(admin, group)
    if names:
        on_wait(f"waiting up to {session_seconds:g} s for the end of the sessions of {names}")
    while names and clock.monotonic() < give_up:
        clock.sleep(POLL_SECONDS)
        names = _members(admin, group)
    if names:
        raise _in_use(group, names)


def _members(admin: AdminClient, group: str) -> str:
    """The members' names, in order; empty without members."""
    with broker_errors(f"the broker does not describe the group {group}"):
        described = retry(
            lambda: admin.describe_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[
                group
            ].result()
        )
    return ", ".join(sorted(f"{member.client_id} on {member.host}" for member in described.members))


def _in_use(group: str, names: str) -> SetupError:
    return SetupError(
        f"the group {group} (COVERSUMM_APP_ID) has running workers: {names}; stop them all first. "
        "A killed worker counts until its session expires (COVERSUMM_SESSION_TIMEOUT_MS)"
    )


class LocalState:
    """The databases of a data directory; its lock file stays."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._bytes = sum(
            path.stat().st_size
            for folder in self._folders
            for path in folder.rglob("*")
            if path.is_file()
        )
        self._count = len(self._folders)

    @property
    def _folders(self) -> list[Path]:
        interrupted = self._data_dir.glob(f"v*/tables/*{REMOVED}")
        return [*databases(self._data_dir).values(), *sorted(interrupted)]

    def facts(self) -> dict[str, Any]:
        """See `Removal`."""
        return {
            "step": "local",
            "data_dir": str(self._data_dir),
            "databases": self._count,
            "bytes": self._bytes,
        }

    def act(self) -> None:
        """See `Removal`. Renames each database first: half a database would be worse than none."""
        try:
            for folder in self._folders:
                if not folder.name.endswith(REMOVED):
                    folder = folder.rename(folder.with_name(folder.name + REMOVED))
                shutil.rmtree(folder)
        except OSError as cause:
            raise SetupError(f"{cause.filename} cannot be removed ({cause.strerror})") from cause


class ResetOffsets:
    """The committed offsets of the worker group, of all topics."""

    def __init__(self, admin: AdminClient, group: str) -> None:
        self._admin = admin
        self._group = group
        with broker_errors(f"could not fetch the offsets of the group {group}"):
            found = retry(self._fetch).topic_partitions
        self._offsets = sorted((one.topic, one.partition, one.offset) for one in found)

    def _fetch(self) -> Any:
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)],
            require_stable=True,
            request_timeout=TIMEOUT_SECONDS,
        )
        return asked[self._group].result()

    def facts(self) -> dict[str, Any]:
        """See `Removal`."""
        by_topic: dict[str, dict[str, int]] = {}
        for topic, partition, offset in self._offsets:
            by_topic.setdefault(topic, {})[str(partition)] = offset
        return {"step": "offsets", "group": self._group, "offsets": by_topic}

    def act(self) -> None:
        """See `Removal`. The broker refuses if a worker has just joined."""
        try:
            retry(
                lambda: self._admin.delete_consumer_groups(
                    [self._group], request_timeout=TIMEOUT_SECONDS
                )[self._group].result()
            )
        except KafkaException as cause:
            code = cause.args[0].code()
            if code == KafkaError.NON_EMPTY_GROUP:
                raise _in_use(self._group, "one has just joined") from cause
            if code != KafkaError.GROUP_ID_NOT_FOUND:
                raise SetupError(
                    f"the broker does not delete the group {self._group} ({cause.args[0].str()})"
                ) from cause


class ChangelogTopic:
    """The changelog topic, deleted and created again."""

    def __init__(self, settings: Settings, clients: Clients, admin: AdminClient) -> None:
        self._name = changelog_topic(settings)
        self._topic = RecreatedTopic(admin, self._name)
        self._offsets: dict[str, int] = {}
        if self._topic.exists:
            with TopicReader(clients, self._name, settings.app_id) as reader:
                self._offsets = {str(p): len(reader.bounds(p)) for p in reader.partitions}

    def facts(self) -> dict[str, Any]:
        """See `Removal`; `offsets` are counts by partition, of rows and transaction markers."""
        return {"step": "changelog", "topic": self._name, "offsets": self._offsets}

    def act(self) -> None:
        """See `Removal`."""
        self._topic.recreate()


SAMPLED = 1000
"""Messages of each output partition that are read for their epoch; a topic should have one."""


def input_beginnings(settings: Settings) -> dict[int, int]:
    """The first offset of each input partition whose first records were removed."""
    clients = KafkaClients(settings)
    if not _exists(clients, settings.input_topic):
        return {}
    with TopicReader(clients, settings.input_topic, settings.app_id) as reader:
        starts = {partition: reader.bounds(partition).start for partition in reader.partitions}
    return {partition: start for partition, start in starts.items() if start}


def published_epochs(settings: Settings, *, of_facets: bool = False) -> set[int]:
    """The epochs in the output topic, or in that of facets, by its first messages; empty if it has
    none.
    """
    clients, topic = KafkaClients(settings), settings.output_topic
    if of_facets:
        topic = settings.facets_topic
    if not _exists(clients, topic):
        return set()
    epochs: set[int] = set()
    as_json = AsJson(settings)
    with TopicReader(clients, topic, settings.app_id) as reader:
        for partition in reader.partitions:
            start = reader.bounds(partition).start
            for stored in reader.read(partition, start, start + SAMPLED):
                found = publications(as_json(stored.record), of_facets=of_facets)
                epochs |= {one.body.epoch for one in found if one.body is not None}
    return epochs


def _exists(clients: Clients, topic: str) -> bool:
    """Whether the topic exists. Lists all topics: a broker may create one that is asked for."""
    with broker_errors("no answer from the broker"):
        return topic in clients.admin().list_topics(timeout=TIMEOUT_SECONDS).topics
