"""State thrown away, in an order that never leaves a state that looks right and is not: `reset`.

1. *Local*: the databases of a data directory. Interrupted after it: the worker restores them from
   the changelog.
2. *Offsets*: the group with its committed offsets. Interrupted after it: the worker reads the input
   again from its start, and the restored state, which knows what was applied, ignores all of it.
3. *Changelog*: deleted and created again. Interrupted between the two: the worker, whose group has
   not begun, creates it.

The other way round, offsets would be left without the state they stand for: the worker refuses
that. Any step alone is as safe; the offsets alone change nothing, since the state remembers.
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
from worker.published.published import publication
from worker.settings import Settings
from worker.storage.lock import held, refuse_running
from worker.storage.snapshot import databases

POLL_SECONDS = 0.5
EXPIRY_SECONDS = 2.0
"""A broker notices so late, at most, that a session is over."""
REMOVED = ".removed"
"""A database's name ends with it from the moment it counts as removed until its files are gone."""


class Removal(Protocol):
    """One thing that is thrown away. Construction looks at what there is, and changes nothing."""

    def facts(self) -> dict[str, Any]:
        """What there is to throw away, for people and programs."""

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
    """The steps in their order; nothing is made or changed by planning them.

    Workers that were stopped are members of their group until their sessions are over: that is
    waited for, once `on_wait` was told why. Raises SetupError where a worker is running.
    Asks no broker for `local` alone.
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


def kept_out(data_dir: Path) -> AbstractContextManager[None]:
    """Keep workers out of a data directory while steps act; one that is not there is not made."""
    return held(data_dir) if data_dir.exists() else nullcontext()


def refuse_members(
    admin: AdminClient,
    group: str,
    session_seconds: float,
    on_wait: Callable[[str], None],
    clock: Clock = time,
) -> None:
    """Wait for the sessions of workers that were stopped; raise SetupError, with their
    names, where members stay.
    """
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
    """The members' names, in order; empty where there is none."""
    with broker_errors(f"the broker does not describe the group {group}"):
        described = retry(
            lambda: admin.describe_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[
                group
            ].result()
        )
    return ", ".join(sorted(f"{member.client_id} on {member.host}" for member in described.members))


def _in_use(group: str, names: str) -> SetupError:
    return SetupError(
        f"the group {group} (COVERSUMM_APP_ID) has running workers: {names}; stop them all first. One that was killed counts "
        "until its session is over (COVERSUMM_SESSION_TIMEOUT_MS)"
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
        left = self._data_dir.glob(f"v*/tables/*{REMOVED}")  # by a reset that was interrupted
        return [*databases(self._data_dir).values(), *sorted(left)]

    def facts(self) -> dict[str, Any]:
        """See `Removal`."""
        return {
            "step": "local",
            "data_dir": str(self._data_dir),
            "databases": self._count,
            "bytes": self._bytes,
        }

    def act(self) -> None:
        """See `Removal`: all that is there now. Each is gone at once, by its name: half a database
        would be worse than none.
        """
        try:
            for folder in self._folders:
                doomed = (
                    folder
                    if folder.name.endswith(REMOVED)
                    else folder.with_name(folder.name + REMOVED)
                )
                if doomed != folder:
                    folder.rename(doomed)
                shutil.rmtree(doomed)
        except OSError as cause:
            raise SetupError(f"{cause.filename} cannot be removed ({cause.strerror})") from cause


class ResetOffsets:
    """The offsets that the worker group has committed. All of them go, whichever topic
    they are of.
    """

    def __init__(self, admin: AdminClient, group: str) -> None:
        self._admin = admin
        self._group = group
        with broker_errors(f"the broker does not tell the offsets of the group {group}"):
            found = retry(self._ask).topic_partitions
        self._offsets = sorted((one.topic, one.partition, one.offset) for one in found)

    def _ask(self) -> Any:
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
        """See `Removal`. The broker refuses it where a worker has joined meanwhile."""
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
        """See `Removal`; `offsets` has how many there are by partition, rows and transaction
        markers.
        """
        return {"step": "changelog", "topic": self._name, "offsets": self._offsets}

    def act(self) -> None:
        """See `Removal`."""
        self._topic.recreate()


SAMPLED = 1000
"""Messages of each output partition that are looked at for their epoch; a topic is meant to have
one.
"""


def input_beginnings(settings: Settings) -> dict[int, int]:
    """By partition of the input topic, where its log begins now, if its first records were removed:
    they cannot be read again.
    """
    clients = KafkaClients(settings)
    if not _exists(clients, settings.input_topic):
        return {}
    with TopicReader(clients, settings.input_topic, settings.app_id) as reader:
        starts = {partition: reader.bounds(partition).start for partition in reader.partitions}
    return {partition: start for partition, start in starts.items() if start}


def published_epochs(settings: Settings) -> set[int]:
    """The epochs of what the output topic holds, by its first messages; empty where it holds none,
    or does not exist.
    """
    clients = KafkaClients(settings)
    if not _exists(clients, settings.output_topic):
        return set()
    epochs = set()
    with TopicReader(clients, settings.output_topic, settings.app_id) as reader:
        for partition in reader.partitions:
            start = reader.bounds(partition).start
            for stored in reader.read(partition, start, start + SAMPLED):
                body = publication(stored.record).body
                if body is not None:
                    epochs.add(body.epoch)
    return epochs


def _exists(clients: Clients, topic: str) -> bool:
    """Asked of all topics: asked for one alone, a broker may create it."""
    with broker_errors("no answer from the broker"):
        return topic in clients.admin().list_topics(timeout=TIMEOUT_SECONDS).topics
