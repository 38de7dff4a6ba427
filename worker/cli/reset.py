"""`reset`: throw away local state, offsets and changelog, in an order that is safe to interrupt.

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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import DECLINED, agreed, check_can_ask, yes_option
from worker.cli.tables import PROSE, Column, show
from worker.clock import Clock
from worker.errors import SetupError
from worker.events.publishing import SUMMARIES, TOPICS, OutputTopic
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors, retry
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.reader import TopicReader
from worker.kafka.topic_ids import RecreatedTopic
from worker.kafka.topics import Topics, changelog_topic, reached
from worker.published.published import published_epochs
from worker.replay.request import ReplayIdentity
from worker.settings import Settings
from worker.storage.lock import held, refuse_running
from worker.storage.snapshot import databases

POLL_SECONDS = 0.5
EXPIRY_SECONDS = 2.0
"""Seconds until a broker notices that a session has expired."""
REMOVED = ".removed"
"""Suffix of a database that counts as removed, while its files are deleted."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A step of the reset, which `act` carries out.

    Attributes:
        facts: what it throws away; `step` is its name.
        target: of what, for people.
        what: what goes, for people.
    """

    facts: dict[str, Any]
    target: str
    what: list[str]
    act: Callable[[], None]

    @property
    def step(self) -> str:
        """Its name."""
        return str(self.facts["step"])


COLUMNS = Column("step"), Column("of", "target"), Column("what goes", "what", prose=PROSE)


@click.command(
    "reset",
    cls=Command,
    examples=[
        ("coversumm-worker reset --dry-run", "show what would go"),
        ("coversumm-worker reset --local", "restore a damaged data directory at the next start"),
    ],
)
@click.option("--local", is_flag=True, help="This data directory's databases; needs no broker.")
@click.option("--offsets", is_flag=True, help="The group's committed offsets.")
@click.option("--changelog", is_flag=True, help="The changelog topic: delete it, create it again.")
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@yes_option
@output.json_option
def command(
    local: bool, offsets: bool, changelog: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Throw away the worker's state: --local, --offsets, --changelog, or by default all three, to
    start over from the beginning of the input topic.

    --local alone repairs a damaged data directory: the worker restores it from the changelog and
    publishes nothing again. After all three the worker reads and publishes everything again: set a
    new COVERSUMM_EPOCH and COVERSUMM_OUTPUT_TOPIC (with facets also COVERSUMM_FACETS_TOPIC), or
    consumers get every change a second time.

    Refuses while a worker runs: with --local the one of this data directory, else any of the group.
    Waits for the sessions of stopped workers to expire (COVERSUMM_SESSION_TIMEOUT_MS). The data
    directories of other machines need no reset: their workers notice the new changelog.

    Says what goes and what follows, then asks. Exit code 1 if the answer is no.
    """
    settings = Settings.from_environment()
    check_can_ask(yes, dry_run)
    if not (local or offsets or changelog):
        local = offsets = changelog = True
    steps = planned(
        settings, local=local, offsets=offsets, changelog=changelog, on_wait=output.note
    )
    if as_json:
        for step in steps:
            output.note(f"{step.step}: {step.target}: {'; '.join(step.what)}")
    else:
        show(steps, COLUMNS, as_json)
    output.note(_consequence(offsets=offsets, changelog=changelog))
    if offsets and changelog:
        _warn_of_lost_input(settings, input_beginnings(settings))
        for kind in TOPICS if settings.facets else (SUMMARIES,):
            _warn_of_old_output(settings, published_epochs(settings, kind=kind), kind)
    if dry_run:
        if as_json:
            for step in steps:
                output.print_json({**step.facts, "status": "planned"})
        return 0
    if not agreed("Throw all of this away?", yes):
        return DECLINED
    with lock_data_dir(settings.data_dir) if local else nullcontext():
        for step in steps:
            step.act()
            if as_json:
                output.print_json({**step.facts, "status": "done"})
            else:
                output.say(f"{step.step}: done")
    return 0


def _consequence(*, offsets: bool, changelog: bool) -> str:
    """What the next start of a worker does."""
    if offsets and changelog:
        return (
            "the next `run` builds everything again from the beginning of the input topic, and "
            "publishes it again"
        )
    if changelog:
        return (
            "the state of all committed input is lost, and the next `run` is refused: "
            "--offsets too lets it start over"
        )
    if offsets:
        return (
            "the next `run` reads the input topic from its beginning; it ignores what the state "
            "has applied, and publishes nothing again"
        )
    return "the next `run` restores the databases from the changelog, and publishes nothing again"


def _warn_of_lost_input(settings: Settings, beginnings: dict[int, int]) -> None:
    if beginnings:
        begins = ", ".join(
            f"partition {partition} at {start:,}" for partition, start in sorted(beginnings.items())
        )
        output.note(
            f"warning: the first records of {settings.input_topic} are gone ({begins}): only the "
            "changelog has their effect, which is lost with it"
        )


def _warn_of_old_output(settings: Settings, epochs: set[int], kind: OutputTopic) -> None:
    if not epochs:
        return
    found = ", ".join(map(str, sorted(epochs)))
    consequence = (
        "everything is published again, into the same topic with the same sequences"
        if settings.epoch in epochs
        else f"the epoch {settings.epoch} would overwrite them, for the topic is compacted"
    )
    output.note(
        f"warning: {kind.of(settings)} still holds {kind.name} of epoch {found}: {consequence}. "
        f"Set COVERSUMM_EPOCH and {kind.setting} to new ones before the next `run` (and "
        "COVERSUMM_APP_ID, to build it "
        "beside the old one without a reset). Dead letters are written again too"
    )


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
        clients = reached(settings, KafkaClients(settings))
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
        [f"{count} databases, {size:,} bytes"],
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
    for one in sorted(found, key=lambda one: (one.topic, one.partition)):
        offsets.setdefault(one.topic, {})[str(one.partition)] = one.offset
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
    if settings.input_topic not in Topics(settings, clients).partitions:
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
