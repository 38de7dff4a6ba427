"""`topics`: create or check the worker's topics, input included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from worker.cli.group import new_command
from worker.errors import SetupError
from worker.settings import Settings
from worker.view import output
from worker.view.tables import Column, show

if TYPE_CHECKING:
    from worker.kafka.topics import Topics


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic: `status` is `missing`, `created` or `exists`; a policy that is unknown is None."""

    role: str
    topic: str
    partitions: int
    cleanup_policy: str | None
    wanted_cleanup_policy: str
    status: str

    @property
    def cleanup(self) -> str | None:
        """The cleanup policy, for people."""
        if self.cleanup_policy in (None, self.wanted_cleanup_policy):
            return self.cleanup_policy
        return f"{self.cleanup_policy} (should be {self.wanted_cleanup_policy})"


COLUMNS = (
    Column("role"),
    Column("topic"),
    Column("partitions", right=True),
    Column("cleanup", drop=1),
    Column("status"),
)


@new_command(
    "topics",
    ("topics --partitions 8", "create missing topics"),
    ("topics --dry-run", "only check"),
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 100_000),
    help="Partitions of created topics; by default those of the input topic.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 100),
    help="Replicas of created topics; by default the broker's default.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@output.json_option
def command(
    partitions: int | None, replication_factor: int | None, dry_run: bool, as_json: bool
) -> int:
    """Create the worker's topics, input included, or check those that exist: partition counts,
    cleanup policies, largest messages and the changelog's delete.retention.ms. Say how far back the
    input reaches, if replays lack records. Exit code 1 if a check fails.
    """
    from worker.kafka.clients import KafkaClients
    from worker.kafka.reader import reach
    from worker.kafka.topics import COMPLAINTS, Topics, has_progress, refused_counts

    settings = Settings.from_environment()
    clients = KafkaClients(settings)
    topics = Topics(settings, clients)
    count = _wanted_partitions(topics, partitions)
    missing = topics.missing()
    if not dry_run:
        topics.create(missing, count, replication_factor or -1)
    created = [spec for spec in missing if spec.name in topics.partitions]
    configs: dict[str, Mapping[str, str]] = {}
    specs = topics.specs.values()
    for spec in specs:
        try:
            if spec not in missing and (config := topics.config(spec)) is not None:
                configs[spec.name] = config
        except SetupError as unknown:
            output.note(str(unknown))
            if isinstance(unknown.__cause__, TimeoutError):
                break  # no broker answers for the others either
    if (name := settings.input_topic) in configs:
        try:
            reached_back = reach(clients, name, settings.app_id, configs[name])
        except SetupError as cause:
            reached_back = f"its beginning was not checked ({cause})"
        if reached_back is not None:
            output.note(f"the input topic {name}: {reached_back}")
    problems = [
        *refused_counts(topics, count, lambda: has_progress(clients, settings, count)),
        *(
            complaint(spec, configs[spec.name])
            for spec in specs
            if spec.name in configs
            for _, _, complaint in COMPLAINTS
        ),
    ]
    configs |= {spec.name: spec.config for spec in created}
    status = "missing" if dry_run else "created"
    rows = [
        TopicStatus(
            spec.role,
            spec.name,
            topics.partitions.get(spec.name, count),
            configs.get(spec.name, {}).get("cleanup.policy"),
            spec.config["cleanup.policy"],
            status if spec in missing else "exists",
        )
        for spec in specs
    ]
    show(rows, COLUMNS, as_json)
    return output.exit_code(problem for problem in problems if problem is not None)


def _wanted_partitions(topics: Topics, asked: int | None) -> int:
    name = topics.specs["input"].name
    exists = topics.exists(name, topics.specs["input"].operations)
    count = topics.partitions[name] if exists else asked
    if count is None:
        raise SetupError(
            f"the input topic {name} does not exist yet: set its partitions (--partitions N)"
        )
    if asked is not None and asked != count:
        raise SetupError(
            f"the input topic {name} has {output.many(count, 'partitions')} already, not {asked}: "
            "leave --partitions out, or name another topic (COVERSUMM_INPUT_TOPIC); entities "
            "cannot move between partitions"
        )
    return count
