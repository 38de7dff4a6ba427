"""`dlq show`: one dead letter, its headers and its value."""

import base64
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.dlq.choice import PlaceType
from worker.cli.tables import show_facts
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.operations.dead_letters import DeadLetter

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
    headers = {name: raw.decode("utf-8", "backslashreplace") for name, raw in letter.headers.items()}
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
