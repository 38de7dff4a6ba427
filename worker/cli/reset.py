"""`reset`: throw away local state, offsets and changelog."""

from contextlib import nullcontext
from typing import Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import DECLINED, agreed, check_can_ask, yes_option
from worker.cli.tables import PROSE, Column, show_table
from worker.settings import Settings


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
    from worker.tools.reset import input_beginnings, lock_data_dir, planned, published_epochs

    if not (local or offsets or changelog):
        local = offsets = changelog = True
    steps = planned(
        settings, local=local, offsets=offsets, changelog=changelog, on_wait=output.note
    )
    plan = [step.facts() for step in steps]
    if as_json:
        for name, target, lines in map(_row, plan):
            output.note(f"{name}: {target}: {'; '.join(lines)}")
    else:
        columns = Column("step"), Column("of"), Column("what goes", prose=PROSE)
        show_table(columns, map(_row, plan))
    output.note(_consequence(offsets=offsets, changelog=changelog))
    if offsets and changelog:
        _warn_of_lost_input(settings, input_beginnings(settings))
        _warn_of_old_output(settings, published_epochs(settings), of_facets=False)
        if settings.facets:
            old_facets = published_epochs(settings, of_facets=True)
            _warn_of_old_output(settings, old_facets, of_facets=True)
    if dry_run:
        if as_json:
            for facts in plan:
                output.print_json({**facts, "status": "planned"})
        return 0
    if not agreed("Throw all of this away?", yes):
        return DECLINED
    with lock_data_dir(settings.data_dir) if local else nullcontext():
        for step, facts in zip(steps, plan, strict=True):
            step.act()
            if as_json:
                output.print_json({**facts, "status": "done"})
            else:
                output.console().print(f"{facts['step']}: done")
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


def _row(facts: dict[str, Any]) -> tuple[str, str, list[str]]:
    step = facts["step"]
    if step == "local":
        size = f"{facts['databases']} databases, {facts['bytes']:,} bytes"
        return step, facts["data_dir"], [size]
    if step == "offsets":
        lines = [
            f"{topic}: " + ", ".join(f"{p} at {offset:,}" for p, offset in offsets.items())
            for topic, offsets in facts["offsets"].items()
        ]
        return step, facts["group"], lines or ["nothing committed"]
    records = ", ".join(f"{partition}: {count:,}" for partition, count in facts["offsets"].items())
    line = f"records by partition: {records}" if records else "there is none"
    return step, facts["topic"], [line]


def _warn_of_lost_input(settings: Settings, beginnings: dict[int, int]) -> None:
    if beginnings:
        begins = ", ".join(
            f"partition {partition} at {start:,}" for partition, start in sorted(beginnings.items())
        )
        output.note(
            f"warning: the first records of {settings.input_topic} are gone ({begins}): only the "
            "changelog has their effect, which is lost with it"
        )


def _warn_of_old_output(settings: Settings, epochs: set[int], *, of_facets: bool) -> None:
    if not epochs:
        return
    what, variable, topic = "summaries", "COVERSUMM_OUTPUT_TOPIC", settings.output_topic
    if of_facets:
        what, variable, topic = "facets", "COVERSUMM_FACETS_TOPIC", settings.facets_topic
    found = ", ".join(map(str, sorted(epochs)))
    consequence = (
        "everything is published again, into the same topic with the same sequences"
        if settings.epoch in epochs
        else f"the epoch {settings.epoch} would overwrite them, for the topic is compacted"
    )
    output.note(
        f"warning: {topic} still holds {what} of epoch {found}: {consequence}. Set COVERSUMM_EPOCH "
        f"and {variable} to new ones before the next `run` (and COVERSUMM_APP_ID, to build it "
        "beside the old one without a reset). Dead letters are written again too"
    )
