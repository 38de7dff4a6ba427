"""State thrown away, in an order that leaves nothing that passes for right: `reset`.

1. *Local*: the databases of a data directory. Interrupted after it: the worker restores them from the changelog.
2. *Offsets*: the group with its committed offsets. Interrupted after it: the worker reads the input again from its start, and the
   restored state, which knows what was applied, ignores all of it.
3. *Changelog*: deleted and made anew. Interrupted between the two: the worker, whose group has not begun, makes it.

The other way round, offsets would be left without the state they stand for: the worker refuses that. Any step alone is as
safe; the offsets alone change nothing, since the state remembers.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from worker.errors import SurroundingsError
from worker.kafka.reader import TIMEOUT_SECONDS, TopicReader, broker_errors, client_config
from worker.kafka.retry import patiently
from worker.kafka.topics import changelog_topic
from worker.operations.history import summary_body
from worker.settings import Settings
from worker.storage.lock import held, refuse_running
from worker.storage.snapshot import databases

REMOVED = ".removed"
"""What a database's name ends with from the moment it is none any more until its files are gone."""
TOPIC_SECONDS = 120
"""How long the broker may take to delete the changelog."""
SAMPLED = 1000
"""Messages of each output partition that are looked at for their epoch; a topic is meant to have one."""


class Step(Protocol):
    """One thing that is thrown away. Making it looks at what there is, and changes nothing."""

    def facts(self) -> dict[str, Any]:
        """What there is to throw away, for people and programs."""

    def act(self) -> None:
        """Throw it away."""


@contextmanager
def planned(
    settings: Settings, *, local: bool, offsets: bool, changelog: bool, dry_run: bool
) -> Iterator[list[Step]]:
    """The steps in their order; the data directory is kept from workers meanwhile.

    Raises SurroundingsError where a worker is running. Asks no broker for `local` alone.
    """
    with _kept(settings.data_dir, dry_run=dry_run) if local else nullcontext():
        steps: list[Step] = [LocalState(settings.data_dir)] if local else []
        if offsets or changelog:
            admin = AdminClient(client_config(settings))
            refuse_members(admin, settings.app_id)
            steps += [GroupOffsets(admin, settings.app_id)] if offsets else []
            steps += [Changelog(admin, settings)] if changelog else []
        yield steps


def _kept(data_dir: Path, *, dry_run: bool) -> AbstractContextManager[None]:
    refuse_running(data_dir)
    return held(data_dir) if not dry_run and data_dir.exists() else nullcontext()


def refuse_members(admin: AdminClient, group: str) -> None:
    """Raise SurroundingsError, with their names, where the group has members."""
    with broker_errors(f"the broker does not describe the group {group}"):
        described = patiently(
            lambda: admin.describe_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[group].result()
        )
    if described.members:
        names = ", ".join(sorted(f"{member.client_id} on {member.host}" for member in described.members))
        raise _in_use(group, names)


def _in_use(group: str, names: str) -> SurroundingsError:
    return SurroundingsError(
        f"the group {group} (COVERSUMM_APP_ID) has running workers: {names}; stop them all first. One that was killed counts "
        "until its session is over (COVERSUMM_SESSION_TIMEOUT_MS)"
    )


class LocalState:
    """The databases of a data directory; its lock file stays."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        left = data_dir.glob(f"v*/tables/*{REMOVED}")  # by a reset that was interrupted
        self._folders = [*databases(data_dir).values(), *sorted(left)]
        self._bytes = sum(
            path.stat().st_size for folder in self._folders for path in folder.rglob("*") if path.is_file()
        )

    def facts(self) -> dict[str, Any]:
        """See `Step`."""
        return {
            "step": "local",
            "data_dir": str(self._data_dir),
            "databases": len(self._folders),
            "bytes": self._bytes,
        }

    def act(self) -> None:
        """See `Step`. Each database is gone at once, by its name: half a database would be worse than none."""
        try:
            for folder in self._folders:
                doomed = folder if folder.name.endswith(REMOVED) else folder.with_name(folder.name + REMOVED)
                if doomed != folder:
                    folder.rename(doomed)
                shutil.rmtree(doomed)
        except OSError as cause:
            raise SurroundingsError(f"{cause.filename} cannot be removed ({cause.strerror})") from cause


class GroupOffsets:
    """The offsets that the worker group has committed. Whatever the group knows goes, whichever topic it is of."""

    def __init__(self, admin: AdminClient, group: str) -> None:
        self._admin = admin
        self._group = group
        with broker_errors(f"the broker does not tell the offsets of the group {group}"):
            found = patiently(self._ask).topic_partitions
        self._offsets = sorted((one.topic, one.partition, one.offset) for one in found)

    def _ask(self) -> Any:
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)], require_stable=True, request_timeout=TIMEOUT_SECONDS
        )
        return asked[self._group].result()

    def facts(self) -> dict[str, Any]:
        """See `Step`."""
        by_topic: dict[str, dict[str, int]] = {}
        for topic, partition, offset in self._offsets:
            by_topic.setdefault(topic, {})[str(partition)] = offset
        return {"step": "offsets", "group": self._group, "offsets": by_topic}

    def act(self) -> None:
        """See `Step`. The broker refuses it where a worker has joined meanwhile."""
        try:
            patiently(
                lambda: self._admin.delete_consumer_groups([self._group], request_timeout=TIMEOUT_SECONDS)[
                    self._group
                ].result()
            )
        except KafkaException as cause:
            code = cause.args[0].code()
            if code == KafkaError.NON_EMPTY_GROUP:
                raise _in_use(self._group, "one has just joined") from cause
            if code != KafkaError.GROUP_ID_NOT_FOUND:
                raise SurroundingsError(
                    f"the broker does not delete the group {self._group} ({cause.args[0].str()})"
                ) from cause


class Changelog:
    """The changelog topic, to be made anew with its partition count, replication factor and configuration."""

    def __init__(self, admin: AdminClient, settings: Settings) -> None:
        self._admin = admin
        self._name = changelog_topic(settings)
        self._new: NewTopic | None = None
        self._offsets: dict[str, int] = {}
        if self._name not in self._topics():
            return
        with broker_errors(f"the broker does not describe the topic {self._name}"):
            resource = ConfigResource(ConfigResource.Type.TOPIC, self._name)
            config = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
        partitions = self._topics()[self._name].partitions
        self._new = NewTopic(
            self._name,
            len(partitions),
            len(partitions[0].replicas),
            config={
                name: entry.value
                for name, entry in config.items()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            },
        )
        with TopicReader(settings, self._name, settings.app_id) as reader:
            self._offsets = {str(p): len(reader.bounds(p)) for p in reader.partitions}

    def facts(self) -> dict[str, Any]:
        """See `Step`; `offsets` are so many by partition, rows and transaction markers."""
        return {"step": "changelog", "topic": self._name, "offsets": self._offsets}

    def act(self) -> None:
        """See `Step`."""
        if self._new is None:
            return
        old_id = self._id()
        with broker_errors(f"the broker does not delete the topic {self._name}"):
            self._admin.delete_topics([self._name], request_timeout=TIMEOUT_SECONDS)[self._name].result()
        _wait(lambda: self._name not in self._topics(), f"{self._name} is not gone")
        new = self._new
        with broker_errors(f"the broker does not make the topic {self._name} anew"):
            _wait(lambda: self._created(new), f"{self._name} is not made anew")
        _wait(lambda: self._name in self._topics(), f"{self._name} is not there again")
        if self._id() == old_id:
            raise SurroundingsError(f"the broker did not delete {self._name}: reset it again")

    def _created(self, new: NewTopic) -> bool:
        try:
            self._admin.create_topics([new], request_timeout=TIMEOUT_SECONDS)[self._name].result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return self._name in self._topics()  # else it is still being deleted
        return True

    def _topics(self) -> Any:
        """All topics: asked for one alone, a broker may make it."""
        with broker_errors("no answer from the broker"):
            return self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics

    def _id(self) -> str:
        described = self._admin.describe_topics(
            TopicCollection([self._name]), request_timeout=TIMEOUT_SECONDS
        )
        with broker_errors(f"the broker does not describe the topic {self._name}"):
            return str(described[self._name].result().topic_id)


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    give_up = time.monotonic() + TOPIC_SECONDS
    while not condition():
        if time.monotonic() > give_up:
            raise SurroundingsError(
                f"after {TOPIC_SECONDS} s {complaint}: look at the brokers, then reset again"
            )
        time.sleep(0.2)


def published_epochs(settings: Settings) -> set[int]:
    """The epochs of what the output topic holds, by its first messages; empty where it holds none, or is not there."""
    admin = AdminClient(client_config(settings))
    with broker_errors("no answer from the broker"):
        if settings.output_topic not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics:
            return set()
    epochs = set()
    with TopicReader(settings, settings.output_topic, settings.app_id) as reader:
        for partition in reader.partitions:
            start = reader.bounds(partition).start
            for stored in reader.read(partition, start, start + SAMPLED):
                epoch = summary_body(stored).get("epoch")
                if isinstance(epoch, int):
                    epochs.add(epoch)
    return epochs


def input_beginnings(settings: Settings) -> dict[int, int]:
    """By partition of the input topic, where its log begins now, if its first records were removed: they cannot be read again."""
    admin = AdminClient(client_config(settings))
    with broker_errors("no answer from the broker"):
        if settings.input_topic not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics:
            return {}
    with TopicReader(settings, settings.input_topic, settings.app_id) as reader:
        starts = {partition: reader.bounds(partition).start for partition in reader.partitions}
    return {partition: start for partition, start in starts.items() if start}
