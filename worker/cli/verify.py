"""`verify`: every entity of a worker, recomputed by brute force from its stored rows."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.storage.snapshot import StoredPartition
    from worker.tools.inspect import Copy

COLUMNS = (
    Column("entity"),
    Column("partition", drop=1, right=True),
    Column("reviews", drop=2, right=True),
    Column("sentences", drop=3, right=True),
    Column("result", prose=True),
)
SHOWN_SOUND = 30
"""Sound entities in the table; those with a difference are all shown."""


@click.command(
    "verify",
    cls=Command,
    short_help="Recompute a worker's summaries by brute force.",
    examples=[
        ("coversumm-worker verify", "the data directory of the settings"),
        (
            "coversumm-worker verify --data-dir /var/lib/coversumm",
            "another one, its worker running or stopped",
        ),
    ],
)
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of a worker, running or stopped; without it, the setting.",
)
@output.json_option
def command(data_dir: Path | None, as_json: bool) -> int:
    """Recompute every entity by brute force from the stored rows of a worker, running or stopped,
    and compare; exit code 1 on any difference.

    With COVERSUMM_EMIT_MIN_CHANGES, set as the worker has it, what was published may be behind by
    fewer sentences.

    Of a running worker each partition is looked at as of one of its commits. A partial copy, whose
    restore from the changelog has not ended, is not verified. Says which partitions there were and
    as of which offset; and, where a broker answers, which of them are old copies, because the group
    has gone on with them elsewhere.
    """
    settings = Settings.from_environment()
    started = time.monotonic()
    table = None if as_json else _Table()
    copies: list[Copy] = []
    entities = differing = 0
    for check in checks(settings, data_dir or settings.data_dir, copies):
        entities += 1
        differing += not check["ok"]
        if table is None:
            output.print_json(check)
        else:
            table.add(check)
    if table is not None:
        table.show(copies, entities, differing, time.monotonic() - started)
    for copy in copies:
        if copy.is_current is False:
            looked = "it was not verified" if copy.is_partial else "what was verified is that copy"
            output.note(f"warning: partition {copy.partition} {copy.words}; {looked}")
    if differing:
        output.complain(f"{differing} of {entities} entities differ from the brute-force summary")
    return output.CHECK_FAILED if differing else 0


def checks(settings: Settings, data_dir: Path, copies: "list[Copy]") -> Iterator[dict[str, Any]]:
    """One result for each entity; a row that does not decode ends its partition with a result of
    its own.

    `copies` gets the partitions that were looked at.
    """
    from worker.storage.snapshot import some_databases
    from worker.tools.inspect import GroupOffsets, copy_of
    from worker.tools.verify import verify_data_dir

    group = GroupOffsets(settings, list(some_databases(data_dir)))

    def look_at(part: "StoredPartition", path: Path) -> None:
        copies.append(copy_of(part, path, group))

    for partition, entity, problems in verify_data_dir(
        data_dir, look_at, settings.emit_min_changes
    ):
        copy = copies[-1] if copies and copies[-1].partition == partition else None
        yield {
            "partition": partition,
            "entity_id": None if entity is None else entity.entity_id,
            "reviews": None if entity is None else entity.reviews,
            "sentences": None if entity is None else entity.sentences,
            "ok": not problems,
            "problems": list(problems),
            "next_offset": None if copy is None else copy.next_offset,
            "current": None if copy is None else copy.is_current,
        }


class _Table:
    """The results for people: all that differ, the first of the sound ones."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._styles: list[str | None] = []
        self._sound = 0

    def add(self, check: dict[str, Any]) -> None:
        self._sound += check["ok"]
        if check["ok"] and self._sound > SHOWN_SOUND:
            return
        facts = (check[name] for name in ("entity_id", "partition", "reviews", "sentences"))
        self._rows.append((*facts, check["problems"] or "equal"))
        self._styles.append(None if check["ok"] else "red")

    def show(self, copies: "list[Copy]", entities: int, differing: int, seconds: float) -> None:
        console = output.console()
        show_table(COLUMNS, self._rows, self._styles)
        if self._sound > SHOWN_SOUND:
            console.print(f"... and {self._sound - SHOWN_SOUND:,} more that are equal")
        for copy in copies:
            console.print(f"partition {copy.partition} {copy.words}")
        console.print(f"{entities:,} entities, {differing:,} differ, {seconds:.1f} s")
