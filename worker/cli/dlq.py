"""`dlq`: list dead letters, show them, and send them again after a fix."""

from __future__ import annotations

import base64
import heapq
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from worker.cli.group import CommandGroup
from worker.cli.options import (
    DECLINED,
    PLACE,
    agreed,
    check_can_ask,
    limit_option,
    selection_of,
    selection_options,
    yes_option,
)
from worker.operations.letters import (
    ALREADY_SENT,
    IMPOSSIBLE,
    SENT,
    DeadLetter,
    LetterSelection,
    Place,
    open_letters,
)
from worker.settings import Settings
from worker.view import output
from worker.view.tables import Column, show, show_facts

if TYPE_CHECKING:
    from worker.kafka.reader import TopicReader

SHOWN = 50  # rows of a table without --limit
SHOWN_BYTES = 4096  # bytes of a binary value that are shown on a terminal
DUMP_WIDTH = 16


@click.group(
    "dlq",
    cls=CommandGroup,
    examples=[
        ("dlq list", "dead letters and their reasons"),
        ("dlq send --reason text_too_long --dry-run", "what would be sent after a fix"),
    ],
)
def command() -> None:
    """List dead letters, show them, and send them again after a fix."""


def _columns(topic: str) -> tuple[Column, ...]:
    """`topic` is that of most sources; without it the column is narrow."""
    return (
        Column("where", lambda row: f"{row['partition']}:{row['offset']}"),
        Column("reason"),
        Column(
            "time (UTC)", lambda row: row["time"] and row["time"][:19].replace("T", " "), drop=1
        ),
        Column("source", lambda row: row["source"] and row["source"].removeprefix(topic), drop=2),
        Column("key", drop=3),
        Column("detail", drop=4, prose=24),
        Column("sent again", lambda row: "yes" if row["sent"] else "no", drop=5),
        Column("attempts", drop=6, count=True),
        Column("bytes", drop=7, count=True),
    )


@command.command(
    "list",
    short_help="List dead letters and their reasons.",
    examples=[
        ("dlq list --since 2026-11-20 --reason bad_json", "with one reason, since that day"),
        ("dlq list --json | jq -r .reason | sort | uniq -c", "all of them, counted"),
    ],
)
@selection_options
@limit_option(f"Maximum number, the latest. [default: {SHOWN} on a terminal]")
@output.json_option
def list_letters(
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    max_attempts: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List the dead letters: place, time, reason, source, and whether they were sent again; with
    counts by reason, and first those of equal details.

    Reads the topic once, to its end when the command starts.
    """
    from worker.operations.letter_sending import sent_so_far

    settings = Settings.from_environment()
    selection = selection_of(reasons, since, entity, max_attempts)
    counts: Counter[str] = Counter()
    groups = output.Groups()
    columns = _columns(f"{settings.input_topic}/")
    with open_letters(settings) as letters:
        sent = sent_so_far(letters)

        def rows() -> Iterator[dict[str, Any]]:
            for letter in _letters(letters, selection):
                counts[letter.reason] += 1
                groups.add(str(letter.place), f"{letter.reason}: {letter.detail}")
                is_sent = letter.place.offset in sent[letter.place.partition]
                yield {**letter.describe(), "sent": is_sent}

        if limit is None and as_json:
            show(rows(), columns, as_json)
            return
        latest = heapq.nlargest(limit or SHOWN, rows(), key=_age)[::-1]
    if not as_json:
        groups.note()
    show(latest, columns, as_json)
    if as_json:
        return
    if hidden := counts.total() - len(latest):
        output.say(f"... and {hidden:,} earlier; --limit shows more")
    which = f": {by_reason(counts)}" if counts else ""
    output.say(f"{output.many(counts.total(), 'dead letters')}{which}")


def _age(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["time"] or "", row["partition"], row["offset"]


def _letters(letters: TopicReader, selection: LetterSelection) -> Iterator[DeadLetter]:
    """The selected letters, partition after partition."""
    found, starts = 0, _starts(letters)
    with output.file_progress(letters.size, "dead letters") as progress:
        for partition in letters.partitions:
            for stored in letters.read(partition):
                letter = DeadLetter.of(stored)
                if letter in selection:
                    found += 1
                    yield letter
                progress.update(starts[partition] + letter.place.offset + 1, found)


def _starts(letters: TopicReader) -> dict[int, int]:
    """For each partition, the number that makes an offset the count of offsets read before it."""
    starts, walked = {}, 0
    for partition in letters.partitions:
        bounds = letters.bounds(partition)
        starts[partition] = walked - bounds.start
        walked += len(bounds)
    return starts


@command.command(
    "show",
    short_help="Show a dead letter's headers and value.",
    examples=[
        ("dlq show 3:991", "the letter at offset 991 of partition 3"),
        ("dlq show 3:991 --raw > letter.bin", "its value as it is"),
    ],
)
@click.argument("place", type=PLACE, metavar="PARTITION:OFFSET")
@click.option("--raw", is_flag=True, help="Write only the bytes of its value.")
@output.json_option
def show_letter(place: Place, raw: bool, as_json: bool) -> int:
    """Show a dead letter: its headers, and its value as JSON, text or bytes. Exit code 1 if there
    is none.
    """
    letter = _read_one(Settings.from_environment(), place)
    if letter is None:
        return output.exit_code([f"there is no dead letter at {place}"])
    headers = {
        name: raw.decode("utf-8", "backslashreplace") for name, raw in letter.headers.items()
    }
    if raw:
        sys.stdout.buffer.write(letter.value or b"")
    elif as_json:
        output.print_json({**letter.describe(), "headers": headers, **_value(letter)})
    else:
        show_facts([*letter.describe().items(), *headers.items()])
        output.say("")
        for line in _value_lines(letter.value):
            output.say(line)
    return 0


def _read_one(settings: Settings, place: Place) -> DeadLetter | None:
    partition, offset = place
    with open_letters(settings) as letters:
        if partition not in letters.partitions or offset not in letters.bounds(partition):
            return None
        for stored in letters.read(partition, offset, offset + 1):
            return DeadLetter.of(stored)
    return None


def _value(letter: DeadLetter) -> dict[str, str | None]:
    """The value as text if it is UTF-8, else in base64."""
    if letter.value is None:
        return {"value": None}
    try:
        return {"value": letter.value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(letter.value).decode()}


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


@command.command(
    "send",
    short_help="Send dead letters to the input topic again, each exactly once.",
    examples=[
        ("dlq send --dry-run", "how many there are to send"),
        ("dlq send --reason text_too_long", "after the limit was raised"),
        ("dlq send 3:991 3:994", "these two"),
    ],
)
@click.argument("places", type=PLACE, nargs=-1, metavar="[PARTITION:OFFSET]...")
@selection_options
@click.option("--dry-run", is_flag=True, help="Send nothing.")
@yes_option
@output.json_option
def send_letters(
    places: tuple[Place, ...],
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    max_attempts: int | None,
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

    The header `dlq.attempts` counts how often a record was sent again, and its next dead letter has
    it too. `--max-attempts 1` leaves out letters that failed again.

    A letter that was cut for its size is read from its source. Exit code 1 if the source is gone,
    or a letter cannot be sent for another reason.

    Says how many letters would be sent, then asks. Exit code 1 if the answer is no.
    """
    from worker.operations.letter_sending import resend

    settings = Settings.from_environment()
    check_can_ask(yes, dry_run)
    selection = selection_of(reasons, since, entity, max_attempts, places)
    counts: Counter[str] = Counter()
    try:
        with open_letters(settings) as letters:
            if not (dry_run or _agreed(settings, letters, selection, yes)):
                return DECLINED
            starts = _starts(letters)
            with output.file_progress(letters.size, "sent") as progress:
                for outcome in resend(settings, letters, selection, dry_run=dry_run):
                    counts[outcome.status] += 1
                    partition, offset = outcome.letter.place
                    progress.update(starts[partition] + offset + 1, counts[SENT])
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
    settings: Settings, letters: TopicReader, selection: LetterSelection, yes: bool
) -> bool:
    """True if to send, by the user's answer; nothing to send needs none."""
    from worker.operations.letter_sending import resend

    outcomes = resend(settings, letters, selection, dry_run=True)
    reasons = Counter(outcome.letter.reason for outcome in outcomes if outcome.status == SENT)
    if not reasons:
        return True
    output.note(
        f"to be sent to {settings.input_topic} again, each once: "
        f"{output.many(reasons.total(), 'dead letters')} ({by_reason(reasons)}). An event without "
        "a review_version counts as the newest of its review then: it may overwrite a later edit, "
        "or bring a deleted review back"
    )
    return agreed("Send them?", yes)


def by_reason(counts: Counter[str]) -> str:
    """Numbers of letters by reason, for people."""
    return ", ".join(f"{n:,} {reason or 'without a reason'}" for reason, n in counts.most_common())


def _report(settings: Settings, counts: Counter[str], dry_run: bool, as_json: bool) -> None:
    if as_json:
        named = {
            status.replace(" ", "_"): counts[status] for status in (SENT, ALREADY_SENT, IMPOSSIBLE)
        }
        output.print_json({"topic": settings.input_topic, **named, "dry_run": dry_run})
    else:
        sent = f"{counts[SENT]:,} {'would be ' if dry_run else ''}sent to {settings.input_topic}"
        output.say(
            f"{sent}, {counts[ALREADY_SENT]:,} were already, {counts[IMPOSSIBLE]:,} cannot be"
        )
