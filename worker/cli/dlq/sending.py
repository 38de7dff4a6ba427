"""`dlq send`: dead letters sent to the input topic again, each exactly once."""

from collections import Counter
from typing import TYPE_CHECKING

import click

from worker.cli import consent, output
from worker.cli.command import Command
from worker.cli.dlq.choice import PlaceType, selection_of, selection_options
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.kafka.reader import TopicReader
    from worker.operations.dead_letters import Selection


@click.command(
    "send",
    cls=Command,
    short_help="Send dead letters to the input topic again, each exactly once.",
    examples=[
        ("coversumm-worker dlq send --dry-run", "how many there are to send"),
        ("coversumm-worker dlq send --reason text_too_long", "those that a larger limit lets through"),
        ("coversumm-worker dlq send 3:991 3:994", "these two"),
    ],
)
@click.argument("places", type=PlaceType(), nargs=-1, metavar="[PARTITION:OFFSET]...")
@selection_options
@click.option("--dry-run", is_flag=True, help="Send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask. Without a terminal on standard input it is needed.")
@output.json_option
def send(
    places: tuple[tuple[int, int], ...],
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Send dead letters to the input topic again, after a fix, each exactly once: key and value as they were, to the partition
    they came from.

    Each is sent once, however often the command is run, killed or run at the same time as another: what was sent is remembered
    on the broker, in the transaction that sends. Without a choice it sends all that were not sent yet.

    To the worker it is a new record at a new offset. So an event without a review_version counts as the newest of its review
    when it is sent again, even where a later one was applied meanwhile; one with a version that was overtaken is ignored.

    A letter that was cut because of its size is read from where it came from. Exit code 1 where that is not possible any more, or
    a letter cannot be sent for another reason.

    Tells how many would be sent, then asks; exit code 1 where the answer is no.
    """
    settings = Settings.from_environment()
    consent.check_can_ask(yes, dry_run)
    from worker.operations.resend import IMPOSSIBLE, open_letters, resend

    selection = selection_of(reasons, since, entity, places)
    counts: Counter[str] = Counter()
    try:
        with open_letters(settings) as letters:
            if not (dry_run or _agreed(settings, letters, selection, yes)):
                return consent.DECLINED
            with output.file_progress(letters.size, "sent") as progress:
                for outcome in resend(
                    settings, letters, selection, dry_run=dry_run, progress=progress.update
                ):
                    counts[outcome.status] += 1
                    if outcome.why is not None:
                        output.note(f"{outcome.letter.place} cannot be sent: {outcome.why}")
    except BaseException:
        if counts:
            _report(settings, counts, dry_run, as_json)
        raise
    _report(settings, counts, dry_run, as_json)
    missing = len(selection.places) - counts.total()
    if missing > 0:
        output.complain(f"{missing} of the letters named are not there, or not as chosen")
    return output.CHECK_FAILED if counts[IMPOSSIBLE] or missing > 0 else 0


def _agreed(settings: Settings, letters: "TopicReader", selection: "Selection", yes: bool) -> bool:
    """Tell what would be sent, and what follows from it; whether it is to be sent. Nothing to send needs no answer."""
    from worker.operations.resend import SENT, resend

    outcomes = resend(settings, letters, selection, dry_run=True)
    reasons = Counter(outcome.letter.reason for outcome in outcomes if outcome.status == SENT)
    if not reasons:
        return True
    listed = ", ".join(f"{count:,} {reason or 'without a reason'}" for reason, count in reasons.most_common())
    what = f"{reasons.total():,} dead letters ({listed})"
    output.note(
        f"{what} go to {settings.input_topic} again, each once. An event without a review_version counts as the newest of its "
        "review then: it may overwrite a later edit, or bring a deleted review back"
    )
    return consent.agreed("Send them?", yes)


def _report(settings: Settings, counts: Counter[str], dry_run: bool, as_json: bool) -> None:
    from worker.operations.resend import ALREADY_SENT, IMPOSSIBLE, SENT

    if as_json:
        named = {status.replace(" ", "_"): counts[status] for status in (SENT, ALREADY_SENT, IMPOSSIBLE)}
        output.print_json({"topic": settings.input_topic, **named, "dry_run": dry_run})
    else:
        sent = f"{counts[SENT]:,} {'would be ' if dry_run else ''}sent to {settings.input_topic}"
        output.console().print(
            f"{sent}, {counts[ALREADY_SENT]:,} were already, {counts[IMPOSSIBLE]:,} cannot be"
        )
