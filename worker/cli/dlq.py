"""`dlq`: dead letters listed, looked at, and sent again after a fix."""

import base64
import heapq
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import options as consent
from worker.cli import output
from worker.cli.command import Command, CommandGroup
from worker.cli.options import TimeType
from worker.cli.tables import Column, show_facts, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.kafka.reader import TopicReader
    from worker.tools.dlq import DeadLetter, LetterSelection


F = TypeVar("F", bound="Callable[..., Any]")


class PlaceType(click.ParamType):
    """`PARTITION:OFFSET` of the dead letter topic."""

    name = "PARTITION:OFFSET"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """See `click.ParamType`."""
        match = re.fullmatch("([0-9]{1,10}):([0-9]{1,19})", str(value))
        if match is None:
            self.fail(f"{value!r} is not PARTITION:OFFSET like 3:991.", param, ctx)
        return int(match[1]), int(match[2])


def _reasons(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from worker.events.reasons import Reason

    return [reason.value for reason in Reason if reason.value.startswith(incomplete)]


def selection_options(command: F) -> F:
    """What `list` and `send` choose letters by."""
    for option in (
        click.option("--entity", metavar="ID", help="Only those with this key."),
        click.option("--since", type=TimeType(), help="Only those written at or after it."),
        click.option(
            "--reason",
            "reasons",
            multiple=True,
            metavar="CODE",
            shell_complete=_reasons,
            help="Only those of this reason; repeat it.",
        ),
    ):
        command = option(command)
    return command


def selection_of(
    reasons: tuple[str, ...],
    since_ms: int | None,
    entity_id: str | None,
    places: tuple[tuple[int, int], ...] = (),
) -> "LetterSelection":
    """The letters that the options choose; click.UsageError for a reason that does not exist."""
    from worker.events import Reason
    from worker.tools.dlq import LetterSelection, Place

    known = {reason.value for reason in Reason}
    if unknown := sorted(set(reasons) - known):
        raise click.UsageError(f"--reason {unknown[0]!r} is none of {', '.join(sorted(known))}.")
    return LetterSelection(
        frozenset(reasons), since_ms, entity_id, frozenset(Place(*place) for place in places)
    )


COLUMNS = (
    Column("where"),
    Column("reason"),
    Column("key"),
    Column("detail", drop=1, prose=True),
    Column("time", drop=4),
    Column("source", drop=3),
    Column("bytes", drop=5, right=True),
    Column("sent again", drop=2),
)
SHOWN = 50
"""Rows of a table unless --limit says another number."""


@click.command(
    "list",
    cls=Command,
    short_help="What lies in the dead letter topic, and why.",
    examples=[
        (
            "coversumm-worker dlq list --since 2026-11-20 --reason bad_json",
            "of one reason, since a day",
        ),
        (
            "coversumm-worker dlq list --json | jq -r .reason | sort | uniq -c",
            "all of them, counted",
        ),
    ],
)
@selection_options
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many, the latest. [default: {SHOWN} on a terminal]",
)
@output.json_option
def list_letters(
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """The dead letters there are now: where, when, why, from where, and whether they were sent
    again; with counts by reason.

    Reads the topic once, to where it ends when the command begins.
    """
    settings = Settings.from_environment()
    from worker.tools.resend import open_letters, sent_so_far

    selection = selection_of(reasons, since, entity)
    counts: Counter[str] = Counter()
    with open_letters(settings) as letters:
        sent = sent_so_far(letters)

        def rows() -> Iterator[dict[str, Any]]:
            for letter in _letters(letters, selection):
                counts[letter.reason] += 1
                partition, offset = letter.place
                yield {**letter.describe(), "sent": offset in sent[partition]}

        if limit is None and as_json:
            for row in rows():
                output.print_json(row)
            return
        latest = heapq.nlargest(limit or SHOWN, rows(), key=_age)
    if as_json:
        for row in reversed(latest):
            output.print_json(row)
    else:
        _show_list(latest[::-1], counts)


def _age(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["time"] or "", row["partition"], row["offset"]


def _letters(letters: "TopicReader", selection: "LetterSelection") -> "Iterator[DeadLetter]":
    """The selected letters, partition after partition."""
    from worker.tools.dlq import DeadLetter

    walked = found = 0
    with output.file_progress(letters.size, "dead letters") as progress:
        for partition in letters.partitions:
            bounds = letters.bounds(partition)
            for stored in letters.read(partition):
                letter = DeadLetter.of(stored)
                if letter in selection:
                    found += 1
                    yield letter
                progress.update(walked + letter.place.offset + 1 - bounds.start, found)
            walked += len(bounds)


def _show_list(rows: list[dict[str, Any]], counts: Counter[str]) -> None:
    console = output.console()
    show_table(COLUMNS, map(_cells, rows))
    hidden = counts.total() - len(rows)
    if hidden:
        console.print(f"... and {hidden:,} earlier; --limit shows more")
    by_reason = ", ".join(
        f"{count:,} {reason or 'without a reason'}" for reason, count in counts.most_common()
    )
    console.print(
        f"{counts.total():,} dead letters{': ' if by_reason else ''}{output.printable(by_reason)}"
    )


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    """Of a row, in the order of the columns."""
    where = f"{row['partition']}:{row['offset']}"
    size = None if row["bytes"] is None else f"{row['bytes']:,}"
    sent = "yes" if row["sent"] else "no"
    return where, row["reason"], row["key"], row["detail"], row["time"], row["source"], size, sent


@click.command(
    "send",
    cls=Command,
    short_help="Send dead letters to the input topic again, each exactly once.",
    examples=[
        ("coversumm-worker dlq send --dry-run", "how many there are to send"),
        (
            "coversumm-worker dlq send --reason text_too_long",
            "those that a larger limit lets through",
        ),
        ("coversumm-worker dlq send 3:991 3:994", "these two"),
    ],
)
@click.argument("places", type=PlaceType(), nargs=-1, metavar="[PARTITION:OFFSET]...")
@selection_options
@click.option("--dry-run", is_flag=True, help="Send nothing.")
@click.option(
    "--yes", is_flag=True, help="Do not ask. Without a terminal on standard input it is needed."
)
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
    """Send dead letters to the input topic again, after a fix, each exactly once: key and value as
    they were, to the partition they came from.

    Each is sent once, however often the command is run, killed or run at the same time as another:
    what was sent is remembered on the broker, in the transaction that sends. Without a choice it
    sends all that were not sent yet.

    To the worker it is a new record at a new offset. So an event without a review_version counts as
    the newest of its review when it is sent again, even where a later one was applied meanwhile;
    one with a version that was overtaken is ignored.

    A letter that was cut because of its size is read from where it came from. Exit code 1 where
    that is not possible any more, or a letter cannot be sent for another reason.

    Tells how many would be sent, then asks; exit code 1 where the answer is no.
    """
    settings = Settings.from_environment()
    consent.check_can_ask(yes, dry_run)
    from worker.tools.resend import IMPOSSIBLE, open_letters, resend

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


def _agreed(
    settings: Settings, letters: "TopicReader", selection: "LetterSelection", yes: bool
) -> bool:
    """Tell what would be sent, and what follows from it; whether it is to be sent. Nothing to send
    needs no answer.
    """
    from worker.tools.resend import SENT, resend

    outcomes = resend(settings, letters, selection, dry_run=True)
    reasons = Counter(outcome.letter.reason for outcome in outcomes if outcome.status == SENT)
    if not reasons:
        return True
    listed = ", ".join(
        f"{count:,} {reason or 'without a reason'}" for reason, count in reasons.most_common()
    )
    what = f"{reasons.total():,} dead letters ({listed})"
    output.note(
        f"{what} go to {settings.input_topic} again, each once. An event without a review_version counts as the newest of its "
        "review then: it may overwrite a later edit, or bring a deleted review back"
    )
    return consent.agreed("Send them?", yes)


def _report(settings: Settings, counts: Counter[str], dry_run: bool, as_json: bool) -> None:
    from worker.tools.resend import ALREADY_SENT, IMPOSSIBLE, SENT

    if as_json:
        named = {
            status.replace(" ", "_"): counts[status] for status in (SENT, ALREADY_SENT, IMPOSSIBLE)
        }
        output.print_json({"topic": settings.input_topic, **named, "dry_run": dry_run})
    else:
        sent = f"{counts[SENT]:,} {'would be ' if dry_run else ''}sent to {settings.input_topic}"
        output.console().print(
            f"{sent}, {counts[ALREADY_SENT]:,} were already, {counts[IMPOSSIBLE]:,} cannot be"
        )


SHOWN_BYTES = 4096
"""The most that is shown of a binary value on a terminal."""
DUMP_WIDTH = 16


@click.command(
    "show",
    cls=Command,
    short_help="One dead letter, headers and value.",
    examples=[
        ("coversumm-worker dlq show 3:991", "the letter at offset 991 of partition 3"),
        ("coversumm-worker dlq show 3:991 --raw > letter.bin", "its bytes as they came"),
    ],
)
@click.argument("place", type=PlaceType(), metavar="PARTITION:OFFSET")
@click.option("--raw", is_flag=True, help="The bytes of its value and nothing else.")
@output.json_option
def show(place: tuple[int, int], raw: bool, as_json: bool) -> int:
    """One dead letter: its headers, and its value as JSON, text or bytes.

    Exit code 1 where there is none.
    """
    letter = _read_one(Settings.from_environment(), place)
    if letter is None:
        output.complain(f"there is no dead letter at {place[0]}:{place[1]}")
        return output.CHECK_FAILED
    if raw:
        sys.stdout.buffer.write(letter.value or b"")
    elif as_json:
        output.print_json(_as_json(letter))
    else:
        _show_letter(letter)
    return 0


def _read_one(settings: Settings, place: tuple[int, int]) -> "DeadLetter | None":
    from worker.tools.dlq import DeadLetter
    from worker.tools.resend import open_letters

    partition, offset = place
    with open_letters(settings) as letters:
        if partition not in letters.partitions or offset not in letters.bounds(partition):
            return None
        for stored in letters.read(partition, offset, offset + 1):
            return DeadLetter.of(stored)
    return None


def _as_json(letter: "DeadLetter") -> dict[str, Any]:
    """The listed facts, all headers, and the value: as text, or in base64 where it is none."""
    shown = letter.describe()
    shown["headers"] = {
        name: value.decode("utf-8", "backslashreplace") for name, value in letter.headers.items()
    }
    try:
        shown["value"] = None if letter.value is None else letter.value.decode()
    except UnicodeDecodeError:
        shown["value_base64"] = base64.b64encode(letter.value or b"").decode()
    return shown


def _show_letter(letter: "DeadLetter") -> None:
    headers = {
        name: raw.decode("utf-8", "backslashreplace") for name, raw in letter.headers.items()
    }
    show_facts([*letter.describe().items(), *headers.items()])
    console = output.console()
    console.print()
    for line in _value_lines(letter.value):
        console.print(output.printable(line), soft_wrap=True)


def _value_lines(value: bytes | None) -> Iterable[str]:
    """JSON indented, other text as it is, anything else as a dump of its first bytes."""
    if value is None:
        return ["(a null value: it asks for the deletion of its entity)"]
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _dump(value)
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False).split("\n")
    except (ValueError, RecursionError):
        return text.split("\n") if text else ["(an empty value)"]


def _dump(value: bytes) -> Iterator[str]:
    for at in range(0, min(len(value), SHOWN_BYTES), DUMP_WIDTH):
        part = value[at : at + DUMP_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{at:08x}  {part.hex(' '):<{3 * DUMP_WIDTH}} {text}"
    if len(value) > SHOWN_BYTES:
        yield f"... of {len(value):,} bytes; --raw writes all"


@click.group(
    "dlq",
    cls=CommandGroup,
    short_help="Dead letters: list them, look at them, send them again.",
    examples=[
        ("coversumm-worker dlq list", "what was refused, and why"),
        (
            "coversumm-worker dlq send --reason text_too_long --dry-run",
            "what would be sent after a fix",
        ),
    ],
)
def command() -> None:
    """Dead letters: list them, look at them, and send them again after a fix."""


for subcommand in (list_letters, show, send):
    command.add_command(subcommand)
