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

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from worker.cli.group import new_command
from worker.cli.options import DECLINED, agreed, check_can_ask, yes_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic

COLUMNS = Column("step"), Column("of", "target"), Column("what goes", "what", prose=PROSE)


@new_command(
    "reset",
    ("reset --dry-run", "show what would go"),
    ("reset --local", "restore a damaged data directory at the next start"),
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
    from worker.events.publishing import SUMMARIES, TOPICS
    from worker.operations.removal import input_beginnings, lock_data_dir, planned
    from worker.published.published import published_epochs

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
    """The effect on the next start of a worker."""
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


def _warn_of_old_output(settings: Settings, epochs: set[int] | None, kind: OutputTopic) -> None:
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
