"""`dlq`: dead letters listed, looked at, and sent again after a fix."""

import heapq
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import output
from worker.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.operations.dead_letters import DeadLetter, Selection

F = TypeVar("F", bound="Callable[..., Any]")

FAILED = 1
SHOWN = 50
"""Rows of a table unless --limit says another number."""
SHOWN_BYTES = 4096
"""Of a value that is no text, on a terminal."""
DUMP_WIDTH = 16


class PlaceType(click.ParamType):
    """`PARTITION:OFFSET` of the dead letter topic."""

    name = "PARTITION:OFFSET"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """See `click.ParamType`."""
        partition, mark, offset = str(value).partition(":")
        if not (mark and partition.isdecimal() and offset.isdecimal()):
            self.fail(f"{value!r} is no PARTITION:OFFSET like 3:991.", param, ctx)
        return int(partition), int(offset)


class TimeType(click.ParamType):
    """A date or a time as in RFC 3339, in UTC where it names no offset; milliseconds since 1970."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `click.ParamType`."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time like 2026-11-20T12:00:00Z or 2026-11-20.", param, ctx)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def selection_options(command: F) -> F:
    """What `list` and `send` choose letters by."""
    for option in (
        click.option("--entity", metavar="ID", help="Only those with this key."),
        click.option("--since", type=TimeType(), help="Only those written at or after it."),
        click.option(
            "--reason", "reasons", multiple=True, metavar="CODE", help="Only those of this reason; repeat it."
        ),
    ):
        command = option(command)
    return command


@click.group("dlq", short_help="Dead letters: list them, look at them, send them again.")
def command() -> None:
    """Dead letters: list them, look at them, and send them again after a fix."""


@command.command("list", short_help="What lies in the dead letter topic, and why.")
@selection_options
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many, the latest. [default: {SHOWN} on a terminal]",
)
@output.json_option
def list_letters(
    reasons: tuple[str, ...], since: int | None, entity: str | None, limit: int | None, as_json: bool
) -> None:
    """The dead letters there are now: where, when, why, from where, and whether they were sent again; with counts by reason.

    Reads the topic once, to where it ends when the command begins.
    """
    settings = Settings.from_environment()
    from worker.operations.resend import open_letters, sent_so_far

    selection = _selection(reasons, since, entity)
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


def _letters(letters: Any, selection: "Selection") -> "Iterator[DeadLetter]":
    """The selected letters, partition after partition."""
    from worker.operations.dead_letters import DeadLetter

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
    from rich.table import Table

    console = output.console()
    table = Table()
    for name in ("where", "time", "reason", "detail", "source", "key", "bytes", "sent again"):
        table.add_column(name, overflow="fold")  # what was cut off could not be copied into the next command
    for row in rows:
        where = f"{row['partition']}:{row['offset']}"
        size = f"{row['bytes']:,}" if row["bytes"] is not None else None
        cells = (row["time"], row["reason"], row["detail"], row["source"], row["key"], size)
        table.add_row(where, *map(output.cell, cells), "yes" if row["sent"] else "no")
    console.print(table)
    hidden = counts.total() - len(rows)
    if hidden:
        console.print(f"... and {hidden:,} earlier; --limit shows more")
    by_reason = ", ".join(
        f"{count:,} {reason or 'without a reason'}" for reason, count in counts.most_common()
    )
    console.print(f"{counts.total():,} dead letters{': ' if by_reason else ''}{output.printable(by_reason)}")


@command.command("show", short_help="One dead letter, headers and value.")
@click.argument("place", type=PlaceType(), metavar="PARTITION:OFFSET")
@click.option("--raw", is_flag=True, help="The bytes of its value and nothing else.")
@output.json_option
def show(place: tuple[int, int], raw: bool, as_json: bool) -> int:
    """One dead letter: its headers, and its value as JSON, text or bytes.

    Exit code 1 where there is none.
    """
    letter = _read_one(Settings.from_environment(), place)
    if letter is None:
        output.note(f"coversumm-worker: error: there is no dead letter at {place[0]}:{place[1]}")
        return FAILED
    if raw:
        sys.stdout.buffer.write(letter.value or b"")
    elif as_json:
        output.print_json(_as_json(letter))
    else:
        _show_letter(letter)
    return 0


def _read_one(settings: Settings, place: tuple[int, int]) -> "DeadLetter | None":
    from worker.operations.dead_letters import DeadLetter
    from worker.operations.resend import open_letters

    partition, offset = place
    with open_letters(settings) as letters:
        if partition not in letters.partitions or offset not in letters.bounds(partition):
            return None
        for stored in letters.read(partition, offset, offset + 1):
            return DeadLetter.of(stored)
    return None


def _as_json(letter: "DeadLetter") -> dict[str, Any]:
    """The listed facts, all headers, and the value: as text, or in base64 where it is none."""
    import base64

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
    from rich.table import Table

    console = output.console()
    about = Table(show_header=False, box=None)
    for name, value in letter.describe().items():
        about.add_row(name, output.cell(value))
    for name, raw in letter.headers.items():
        about.add_row(output.printable(name), output.cell(raw.decode("utf-8", "backslashreplace")))
    console.print(about)
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


@command.command("send", short_help="Send dead letters to the input topic again, each exactly once.")
@click.argument("places", type=PlaceType(), nargs=-1, metavar="[PARTITION:OFFSET]...")
@selection_options
@click.option("--dry-run", is_flag=True, help="Send nothing.")
@output.json_option
def send(
    places: tuple[tuple[int, int], ...],
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    dry_run: bool,
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
    """
    settings = Settings.from_environment()
    from worker.operations.resend import IMPOSSIBLE, open_letters, resend

    selection = _selection(reasons, since, entity, places)
    counts: Counter[str] = Counter()
    try:
        with (
            open_letters(settings) as letters,
            output.file_progress(letters.size, "sent") as progress,
        ):
            for outcome in resend(settings, letters, selection, dry_run=dry_run, progress=progress.update):
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
        output.note(
            f"coversumm-worker: error: {missing} of the letters named are not there, or not as chosen"
        )
    return FAILED if counts[IMPOSSIBLE] or missing > 0 else 0


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


def _selection(
    reasons: tuple[str, ...],
    since_ms: int | None,
    entity_id: str | None,
    places: tuple[tuple[int, int], ...] = (),
) -> "Selection":
    from worker.events import Reason
    from worker.operations.dead_letters import Place, Selection

    known = {reason.value for reason in Reason}
    if unknown := sorted(set(reasons) - known):
        raise click.UsageError(f"--reason {unknown[0]!r} is none of {', '.join(sorted(known))}.")
    return Selection(frozenset(reasons), since_ms, entity_id, frozenset(Place(*place) for place in places))
