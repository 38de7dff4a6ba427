"""`reset`: local state, offsets and changelog thrown away."""

from contextlib import nullcontext
from typing import Any

import click

from worker.cli import options as consent
from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import Column, show_table
from worker.settings import Settings


@click.command(
    "reset",
    cls=Command,
    short_help="Throw away local state, offsets and changelog.",
    examples=[
        ("coversumm-worker reset --dry-run", "what there is to throw away"),
        (
            "coversumm-worker reset --local",
            "a damaged data directory: it is restored at the next start",
        ),
    ],
)
@click.option("--local", is_flag=True, help="This data directory's databases; no broker is needed.")
@click.option("--offsets", is_flag=True, help="The group's committed offsets.")
@click.option(
    "--changelog", is_flag=True, help="The changelog topic: deleted, and created again as it was."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option(
    "--yes", is_flag=True, help="Do not ask. Without a terminal on standard input it is needed."
)
@output.json_option
def command(
    local: bool, offsets: bool, changelog: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Throw away the worker's state: --local, --offsets, --changelog, or with none of them all
    three, to start over from the beginning of the input topic.

    --local alone is the way out of a damaged data directory: the worker restores it from the
    changelog, and publishes nothing again. All three make it read and publish everything once more:
    give the new run its own COVERSUMM_EPOCH and COVERSUMM_OUTPUT_TOPIC, or consumers get every
    change a second time.

    Refuses while a worker is running: with --local the one of this data directory, else any of the
    group, once the sessions of those that were stopped (COVERSUMM_SESSION_TIMEOUT_MS) are over. The
    data directories of other machines need no reset: their workers see that the changelog is
    another one.

    Tells what goes and what follows from it, then asks; exit code 1 where the answer is no.
    """
    settings = Settings.from_environment()
    consent.check_can_ask(yes, dry_run)
    from worker.tools.reset import input_beginnings, kept_out, planned, published_epochs

    if not (local or offsets or changelog):
        local = offsets = changelog = True
    steps = planned(
        settings, local=local, offsets=offsets, changelog=changelog, on_wait=output.note
    )
    plan = [step.facts() for step in steps]
    _tell(plan, as_json)
    output.note(_consequence(offsets=offsets, changelog=changelog))
    if offsets and changelog:
        _warn_of_loss(settings, input_beginnings(settings))
        _warn(settings, published_epochs(settings))
    if dry_run:
        if as_json:
            for facts in plan:
                output.print_json({**facts, "status": "planned"})
        return 0
    if not consent.agreed("Throw all of this away?", yes):
        return consent.DECLINED
    with kept_out(settings.data_dir) if local else nullcontext():
        for step, facts in zip(steps, plan, strict=True):
            step.act()
            if as_json:
                output.print_json({**facts, "status": "done"})
            else:
                output.console().print(f"{facts['step']}: done")
    return 0


def _tell(plan: list[dict[str, Any]], as_json: bool) -> None:
    """What will go: a table for people, lines on standard error beside JSON."""
    if not as_json:
        _show(plan)
        return
    for facts in plan:
        step, target, what_goes = _row(facts)
        output.note(f"{step}: {target}: {'; '.join(what_goes)}")


def _consequence(*, offsets: bool, changelog: bool) -> str:
    """What the next start of a worker will do, in a line."""
    if offsets and changelog:
        return "the next `run` builds everything again from the beginning of the input topic, and publishes it again"
    if changelog:
        return "the state of all that is committed is lost, and the next `run` is refused: --offsets too lets it start over"
    if offsets:
        return (
            "the next `run` reads the input topic from its beginning; what the state has applied is ignored, and nothing is "
            "published again"
        )
    return "the next `run` restores the databases from the changelog, and publishes nothing again"


def _show(plan: list[dict[str, Any]]) -> None:
    show_table((Column("step"), Column("of"), Column("what goes", prose=True)), map(_row, plan))


def _row(facts: dict[str, Any]) -> tuple[str, str, list[str]]:
    step = facts["step"]
    if step == "local":
        return (
            step,
            facts["data_dir"],
            [f"{facts['databases']} databases, {facts['bytes']:,} bytes"],
        )
    if step == "offsets":
        lines = [
            f"{topic}: "
            + ", ".join(f"{partition} at {offset:,}" for partition, offset in offsets.items())
            for topic, offsets in facts["offsets"].items()
        ]
        return step, facts["group"], lines or ["nothing committed"]
    records = ", ".join(f"{partition}: {count:,}" for partition, count in facts["offsets"].items())
    return (
        step,
        facts["topic"],
        [f"records by partition: {records}" if records else "there is none"],
    )


def _warn_of_loss(settings: Settings, beginnings: dict[int, int]) -> None:
    """About what cannot be built again."""
    if beginnings:
        begins = ", ".join(
            f"partition {partition} at {start:,}" for partition, start in sorted(beginnings.items())
        )
        output.note(
            f"warning: the first records of {settings.input_topic} are gone ({begins}): what they made is in the changelog "
            "alone, and is lost when that is thrown away"
        )


def _warn(settings: Settings, epochs: set[int]) -> None:
    """About what a worker that starts over would do to the output topic."""
    if not epochs:
        return
    found = ", ".join(map(str, sorted(epochs)))
    consequence = (
        "everything read again is published again, into the same topic and under the same sequences"
        if settings.epoch in epochs
        else f"the epoch {settings.epoch} would overwrite it there, for the topic is compacted"
    )
    output.note(
        f"warning: {settings.output_topic} still holds summaries of epoch {found}: {consequence}. Set COVERSUMM_EPOCH and "
        "COVERSUMM_OUTPUT_TOPIC to new ones before the next `run` (and COVERSUMM_APP_ID, to build it beside the old one "
        "without a reset). Dead letters are written again too"
    )
