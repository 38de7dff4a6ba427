"""The steps of a reset: the state of a data directory, a group's offsets, and a changelog."""

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from worker.clock import Clock
from worker.errors import SetupError, many
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors, retry
from worker.kafka.group import described_group
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.permissions import READ
from worker.kafka.reader import TopicReader
from worker.kafka.topic_ids import RecreatedTopic
from worker.kafka.topics import Topics, changelog_topic, reached
from worker.replay.request import ReplayIdentity
from worker.settings import Settings
from worker.storage.lock import held, refuse_running
from worker.storage.snapshot import databases

POLL_SECONDS = 0.5
EXPIRY_SECONDS = 2.0  # seconds until a broker notices that a session has expired
REMOVED = ".removed"  # suffix of a database that counts as removed, while its files are deleted


@dataclass(frozen=True, slots=True)
class Removal:
    """A step of the reset, which `act` carries out."""

    facts: dict[str, Any]  # what it throws away; `step` is its name
    target: str  # of what, for people
    what: list[str]  # what goes, for people
    act: Callable[[], None]

    @property
    def step(self) -> str:
        """Its name."""
        return str(self.facts["step"])


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
        steps.append(_local_state(settings.data_dir))
    if offsets or changelog:
        clients = reached(settings)
        admin = clients.admin()
        refuse_members(admin, settings.app_id, settings.session_timeout_ms / 1000, on_wait)
        steps += [_group_offsets(admin, settings.app_id)] if offsets else []
        steps += [_changelog(settings, clients, admin)] if changelog else []
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
        described = described_group(admin, group)
    return ", ".join(
        sorted(
            f"{member.group_instance_id or member.client_id} at {member.host.removeprefix('/')}"
            for member in described.members
        )
    )


def _in_use(group: str, names: str) -> SetupError:
    return SetupError(
        f"the group {group} (COVERSUMM_APP_ID) has running workers: {names}; stop them all first. "
        "A killed worker counts until its session expires (COVERSUMM_SESSION_TIMEOUT_MS)"
    )


def _folders(data_dir: Path) -> list[Path]:
    interrupted = data_dir.glob(f"v*/tables/*{REMOVED}")
    return [*databases(data_dir).values(), *sorted(interrupted)]


def _local_state(data_dir: Path) -> Removal:
    """The databases of a data directory; its lock file stays."""
    folders = _folders(data_dir)
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    count, size = len(folders), sum(path.stat().st_size for path in files)
    return Removal(
        {"step": "local", "data_dir": str(data_dir), "databases": count, "bytes": size},
        str(data_dir),
        [f"{many(count, 'databases')}, {size:,} bytes"],
        partial(_remove_databases, data_dir),
    )


def _remove_databases(data_dir: Path) -> None:
    """Renames each database first: half a database would be worse than none."""
    try:
        for folder in _folders(data_dir):
            if not folder.name.endswith(REMOVED):
                folder = folder.rename(folder.with_name(folder.name + REMOVED))
            shutil.rmtree(folder)
    except OSError as cause:
        raise SetupError(f"{cause.filename} cannot be removed ({cause.strerror})") from cause


def _group_offsets(admin: AdminClient, group: str) -> Removal:
    """The committed offsets of the worker group, of all topics."""

    def fetch() -> Any:
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)],
            require_stable=True,
            request_timeout=TIMEOUT_SECONDS,
        )
        return asked[group].result()

    with broker_errors(f"could not fetch the offsets of the group {group}"):
        found = retry(fetch).topic_partitions
    offsets: dict[str, dict[str, int]] = {}
    for offset in sorted(found, key=lambda offset: (offset.topic, offset.partition)):
        offsets.setdefault(offset.topic, {})[str(offset.partition)] = offset.offset
    what = [
        f"{topic}: " + ", ".join(f"{partition} at {offset:,}" for partition, offset in of.items())
        for topic, of in offsets.items()
    ]
    return Removal(
        {"step": "offsets", "group": group, "offsets": offsets},
        group,
        what or ["nothing committed"],
        partial(_delete_group, admin, group),
    )


def _delete_group(admin: AdminClient, group: str) -> None:
    """The broker refuses if a worker has just joined."""
    try:
        retry(
            lambda: admin.delete_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[
                group
            ].result()
        )
    except KafkaException as cause:
        code = cause.args[0].code()
        if code == KafkaError.NON_EMPTY_GROUP:
            raise _in_use(group, "one has just joined") from cause
        if code != KafkaError.GROUP_ID_NOT_FOUND:
            raise SetupError(
                f"the broker does not delete the group {group} ({cause.args[0].str()})"
            ) from cause


def _changelog(settings: Settings, clients: Clients, admin: AdminClient) -> Removal:
    """The changelog topic, deleted and created again. Transaction markers count as records."""
    name = changelog_topic(settings)
    topic = RecreatedTopic(admin, name)
    counts: dict[str, int] = {}
    if topic.exists:
        with TopicReader(clients, name, settings.app_id) as reader:
            counts = {str(p): len(reader.bounds(p)) for p in reader.partitions}
    records = ", ".join(f"{partition}: {count:,}" for partition, count in counts.items())
    return Removal(
        {"step": "changelog", "topic": name, "offsets": counts},
        name,
        [f"records by partition: {records}" if records else "there is none"],
        topic.recreate,
    )


def input_beginnings(settings: Settings) -> dict[int, int]:
    """The first offset of each input partition whose first records were removed."""
    clients = KafkaClients(settings)
    if not Topics(settings, clients).exists(settings.input_topic, READ):
        return {}
    with TopicReader(clients, settings.input_topic, settings.app_id) as reader:
        starts = {partition: reader.bounds(partition).start for partition in reader.partitions}
    return {partition: start for partition, start in starts.items() if start}


def start_over(names: ReplayIdentity, on_wait: Callable[[str], None]) -> None:
    """Delete state, offsets, output, dead letters, and the plan last: then it can be repeated.

    Raises SetupError if one of the replay's processes runs.
    """
    settings = names.settings
    clients = KafkaClients(settings)
    admin = clients.admin()
    steps = planned(settings, local=True, offsets=True, changelog=True, on_wait=on_wait)
    with lock_data_dir(settings.data_dir):
        for step in steps:
            step.act()
    for topic in (*names.published_topics, settings.dlq_topic):
        RecreatedTopic(admin, topic).recreate()
    plan = RecreatedTopic(admin, names.plan_topic)
    with broker_errors(f"could not empty the topic {names.plan_topic}"):
        plan.recreate()
