"""`topics`: create or check the worker's topics, input included."""

from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import Column, show_table
from worker.errors import SetupError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.kafka.topics import Topics, TopicSpec

COLUMNS = (
    Column("role"),
    Column("topic"),
    Column("partitions", right=True),
    Column("cleanup", drop=1),
    Column("status"),
)


@click.command(
    "topics",
    cls=Command,
    examples=[
        ("coversumm-worker topics --partitions 8", "create missing topics"),
        ("coversumm-worker topics --dry-run", "only check"),
    ],
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
    """Create the worker's topics, input included, or check those that exist: partition counts and
    cleanup policies. Exit code 1 if a check fails.
    """
    settings = Settings.from_environment()
    from worker.kafka.clients import KafkaClients
    from worker.kafka.topics import Topics, has_progress, refused_counts

    clients = KafkaClients(settings)
    topics = Topics(settings, clients)
    count = _wanted_partitions(topics, partitions)
    missing = topics.missing()
    if not dry_run:
        topics.create(missing, count, replication_factor or -1)
    policies = _policies(topics, missing)
    counts = refused_counts(topics, count, lambda: has_progress(clients, settings, count))
    complaints = [*map(str, counts), *_policy_complaints(topics, policies)]
    status = "missing" if dry_run else "created"
    rows: list[dict[str, object]] = [
        {
            "role": spec.role,
            "topic": spec.name,
            "partitions": topics.partitions.get(spec.name, count),
            "cleanup_policy": policies.get(spec.name),
            "wanted_cleanup_policy": spec.config["cleanup.policy"],
            "status": status if spec in missing else "exists",
        }
        for spec in topics.specs.values()
    ]
    if as_json:
        for row in rows:
            output.print_json(row)
    else:
        show_table(COLUMNS, map(_cells, rows))
    for complaint in complaints:
        output.complain(complaint)
    return output.CHECK_FAILED if complaints else 0


def _wanted_partitions(topics: "Topics", asked: int | None) -> int:
    name = topics.specs["input"].name
    count = topics.partitions.get(name, asked)
    if count is None:
        raise SetupError(
            f"the input topic {name} does not exist yet: set its partitions (--partitions N)"
        )
    if asked is not None and asked != count:
        raise SetupError(
            f"the input topic {name} has {count} partitions already, not {asked}: leave "
            "--partitions out, or name another topic (COVERSUMM_INPUT_TOPIC); entities cannot move "
            "between partitions"
        )
    return count


def _policies(topics: "Topics", created: "list[TopicSpec]") -> dict[str, str]:
    """The cleanup policies by topic name: the broker's, and those of topics created just now."""
    from confluent_kafka import KafkaException

    made = {
        spec.name: spec.config["cleanup.policy"]
        for spec in created
        if spec.name in topics.partitions
    }
    try:
        return made | topics.policies(spec for spec in topics.specs.values() if spec not in created)
    except (KafkaException, TimeoutError) as cause:
        # no permission, or a broker without this request
        is_refusal = isinstance(cause, KafkaException)
        reason = cause.args[0].str() if is_refusal else "no answer from the broker"
        output.note(f"the cleanup policies were not checked: {reason}")
        return made


def _policy_complaints(topics: "Topics", policies: dict[str, str]) -> list[str]:
    from worker.kafka.topics import policy_complaint

    found = (
        policy_complaint(s, policies[s.name]) for s in topics.specs.values() if s.name in policies
    )
    return [complaint for complaint in found if complaint is not None]


def _cells(row: dict[str, object]) -> tuple[object, ...]:
    policy, wanted = row["cleanup_policy"], row["wanted_cleanup_policy"]
    cleanup = policy if policy in (None, wanted) else f"{policy} (should be {wanted})"
    return row["role"], row["topic"], row["partitions"], cleanup, row["status"]
