"""`dlq`: list dead letters, show them, and send them again after a fix."""

import base64
import heapq
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import output
from worker.cli.command import Command, CommandGroup
from worker.cli.options import (
    DECLINED,
    TIME,
    Parsed,
    agreed,
    check_can_ask,
    limit_option,
    yes_option,
)
from worker.cli.tables import Column, show_facts, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.kafka.reader import TopicReader
    from worker.tools.dlq import DeadLetter, LetterSelection


F = TypeVar("F", bound="Callable[..., Any]")


def _parse_place(text: str) -> tuple[int, int]:
    match = re.fullmatch("([0-9]{1,10}):([0-9]{1,19})", text)
    if match is None:
        raise ValueError(f"{text!r} is not PARTITION:OFFSET like 3:991.")
    return int(match[1]), int(match[2])


PLACE = Parsed("PARTITION:OFFSET", _parse_place)


def _complete_reason(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from worker.events.reasons import Reason

    return [reason.value for reason in Reason if reason.value.startswith(incomplete)]


def selection_options(command: F) -> F:
    """The options of `list` and `send` that select letters."""
    for option in (
        click.option("--entity", metavar="ID", help="Only letters with this key."),
        click.option("--since", type=TIME, help="Only letters written at this time or later."),
        click.option(
            "--reason",
            "reasons",
            multiple=True,
            metavar="CODE",
            shell_complete=_complete_reason,
            help="Only letters with this reason; may be repeated.",
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
    """The letters that the options select. Raises click.UsageError for an unknown reason."""
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
    Column("time (UTC)", drop=1),
    Column("source", drop=2),
    Column("key", drop=3),
    Column("detail", drop=4, prose=24),
    Column("sent again", drop=5),
    Column("bytes", drop=6, right=True),
)
SHOWN = 50
"""Rows of a table without --limit."""


@click.command(
    "list",
    cls=Command,
    short_help="List dead letters and their reasons.",
    examples=[
        (
            "coversumm-worker dlq list --since 2026-11-20 --reason bad_json",
            "with one reason, since that day",
        ),
        (
            "coversumm-worker dlq list --json | jq -r .reason | sort | uniq -c",
            "all of them, counted",
        ),
    ],
)
@selection_options
@limit_option(f"Maximum number, the latest. [default: {SHOWN} on a terminal]")
@output.json_option
def list_letters(
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List the dead letters: place, time, reason, source, and whether they were sent again; with
    counts by reason.

    Reads the topic once, to its end when the command starts.
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
        _show_list(latest[::-1], counts, settings.input_topic)


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


def _show_list(rows: list[dict[str, Any]], counts: Counter[str], topic: str) -> None:
    console = output.console()
    if rows:
        show_table(COLUMNS, (_cells(row, f"{topic}/") for row in rows))
    hidden = counts.total() - len(rows)
    if hidden:
        console.print(f"... and {hidden:,} earlier; --limit shows more")
    by_reason = _by_reason(counts)
    console.print(
        f"{output.many(counts.total(), 'dead letters')}"
        f"{': ' if counts else ''}{output.printable(by_reason)}"
    )


def _by_reason(counts: Counter[str]) -> str:
    return ", ".join(f"{n:,} {reason or 'without a reason'}" for reason, n in counts.most_common())


def _cells(row: dict[str, Any], prefix: str) -> tuple[object, ...]:
    """`prefix` is that of most sources; without it the column is narrow."""
    where = f"{row['partition']}:{row['offset']}"
    size = None if row["bytes"] is None else f"{row['bytes']:,}"
    sent = "yes" if row["sent"] else "no"
    time = None if row["time"] is None else row["time"][:19].replace("T", " ")
    source = None if row["source"] is None else row["source"].removeprefix(prefix)
    return where, row["reason"], time, source, row["key"], row["detail"], sent, size


@click.command(
    "send",
    cls=Command,
    short_help="Send dead letters to the input topic again, each exactly once.",
    examples=[
        ("coversumm-worker dlq send --dry-run", "how many there are to send"),
        ("coversumm-worker dlq send --reason text_too_long", "after the limit was raised"),
        ("coversumm-worker dlq send 3:991 3:994", "these two"),
    ],
)
@click.argument("places", type=PLACE, nargs=-1, metavar="[PARTITION:OFFSET]...")
@selection_options
@click.option("--dry-run", is_flag=True, help="Send nothing.")
@yes_option
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
    """Send dead letters to the input topic again, after a fix: with the original key and value, to
    the original partition. By default all that were not sent yet.

    Each letter is sent exactly once, even if the command is killed, repeated, or run twice at the
    same time: the transaction that sends also commits what was sent.

    For the worker it is a new record at a new offset. So an event without a review_version counts
    as the newest of its review, even if a later one was applied since. One with an older
    review_version is ignored.

    A letter that was cut for its size is read from its source. Exit code 1 if the source is gone,
    or a letter cannot be sent for another reason.

    Says how many letters would be sent, then asks. Exit code 1 if the answer is no.
    """
    settings = Settings.from_environment()
    check_can_ask(yes, dry_run)
    from worker.tools.resend import IMPOSSIBLE, open_letters, resend

    selection = selection_of(reasons, since, entity, places)
    counts: Counter[str] = Counter()
    try:
        with open_letters(settings) as letters:
            if not (dry_run or _agreed(settings, letters, selection, yes)):
                return DECLINED
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
    """Whether to send, by the user's answer; nothing to send needs none."""
    from worker.tools.resend import SENT, resend

    outcomes = resend(settings, letters, selection, dry_run=True)
    reasons = Counter(outcome.letter.reason for outcome in outcomes if outcome.status == SENT)
    if not reasons:
        return True
    output.note(
        f"to be sent to {settings.input_topic} again, each once: "
        f"{output.many(reasons.total(), 'dead letters')} ({_by_reason(reasons)}). An event without "
        "a review_version counts as the newest of its review then: it may overwrite a later edit, "
        "or bring a deleted review back"
    )
    return agreed("Send them?", yes)


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
"""Bytes of a binary value that are shown on a terminal."""
DUMP_WIDTH = 16


@click.command(
    "show",
    cls=Command,
    short_help="Show a dead letter's headers and value.",
    examples=[
        ("coversumm-worker dlq show 3:991", "the letter at offset 991 of partition 3"),
        ("coversumm-worker dlq show 3:991 --raw > letter.bin", "its value as it is"),
    ],
)
@click.argument("place", type=PLACE, metavar="PARTITION:OFFSET")
@click.option("--raw", is_flag=True, help="Write only the bytes of its value.")
@output.json_option
def show(place: tuple[int, int], raw: bool, as_json: bool) -> int:
    """Show a dead letter: its headers, and its value as JSON, text or bytes. Exit code 1 if there
    is none.
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
    """The listed facts, all headers, and the value: as text if it is UTF-8, else in base64."""
    shown = letter.describe()
    shown["headers"] = _header_texts(letter)
    try:
        shown["value"] = None if letter.value is None else letter.value.decode()
    except UnicodeDecodeError:
        shown["value_base64"] = base64.b64encode(letter.value or b"").decode()
    return shown


def _header_texts(letter: "DeadLetter") -> dict[str, str]:
    return {name: raw.decode("utf-8", "backslashreplace") for name, raw in letter.headers.items()}


def _show_letter(letter: "DeadLetter") -> None:
    show_facts([*letter.describe().items(), *_header_texts(letter).items()])
    console = output.console()
    console.print()
    for line in _value_lines(letter.value):
        console.print(output.printable(line), soft_wrap=True)


def _value_lines(value: bytes | None) -> Iterable[str]:
    """JSON is indented, other text unchanged, binary a dump of its first bytes."""
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
    examples=[
        ("coversumm-worker dlq list", "dead letters and their reasons"),
        (
            "coversumm-worker dlq send --reason text_too_long --dry-run",
            "what would be sent after a fix",
        ),
    ],
)
def command() -> None:
    """List dead letters, show them, and send them again after a fix."""


for subcommand in (list_letters, show, send):
    command.add_command(subcommand)
