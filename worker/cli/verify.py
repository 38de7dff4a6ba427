"""`verify`: recompute every summary of a worker by brute force from its stored rows."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import data_dir_option
from worker.cli.tables import PROSE, Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.storage.snapshot import StoredPartition
    from worker.tools.inspect import Copy

COLUMNS = (
    Column("entity"),
    Column("partition", drop=1, right=True),
    Column("reviews", drop=2, right=True),
    Column("sentences", drop=3, right=True),
    Column("result", prose=PROSE),
)
SHOWN_SOUND = 30
"""Rows of sound entities in the table. It shows all that differ."""


@click.command(
    "verify",
    cls=Command,
    examples=[
        ("coversumm-worker verify", "the data directory of the settings"),
        ("coversumm-worker verify --data-dir /var/lib/coversumm", "another data directory"),
    ],
)
@data_dir_option("The data directory of a worker, running or stopped, instead of the setting.")
@output.json_option
def command(data_dir: Path | None, as_json: bool) -> int:
    """Recompute every entity, and its facets, by brute force from the stored rows of a worker,
    running or stopped, and compare. Exit code 1 for any difference.

    With COVERSUMM_EMIT_MIN_CHANGES, set as for the worker, a published summary or facet may differ
    by fewer sentences.

    Partitions of a running worker are read as of a commit. A partial copy, whose restore from the
    changelog has not ended, is not verified. The output names the partitions and their offsets. If
    a broker answers, it also names old copies of partitions that moved to another worker.
    """
    settings = Settings.from_environment()
    started = time.monotonic()
    copies: list[Copy] = []
    rows: list[tuple[object, ...]] = []
    styles: list[str | None] = []
    entities = differing = 0
    for check in checks(settings, data_dir or settings.data_dir, copies):
        entities += 1
        differing += not check["ok"]
        if as_json:
            output.print_json(check)
        elif not check["ok"] or entities - differing <= SHOWN_SOUND:
            facts = (check[name] for name in ("entity_id", "partition", "reviews", "sentences"))
            rows.append((*facts, check["problems"] or "equal"))
            styles.append(None if check["ok"] else "red")
    if not as_json:
        console = output.console()
        show_table(COLUMNS, rows, styles)
        if entities > len(rows):
            console.print(f"... and {entities - len(rows):,} more that are equal")
        for copy in copies:
            console.print(f"partition {copy.partition} {copy.words}")
        seconds = time.monotonic() - started
        console.print(f"{entities:,} entities, {differing:,} differ, {seconds:.1f} s")
    for copy in copies:
        if copy.is_current is False:
            verified = "it was not verified" if copy.is_partial else "this copy was verified"
            output.note(f"warning: partition {copy.partition} {copy.words}; {verified}")
    if differing:
        output.complain(f"{differing} of {entities} entities differ from the brute-force summary")
    return output.CHECK_FAILED if differing else 0


def checks(settings: Settings, data_dir: Path, copies: "list[Copy]") -> Iterator[dict[str, Any]]:
    """The result of each entity; a damaged row ends its partition with a result of its own.

    Appends each partition that is read to `copies`.
    """
    from worker.storage.snapshot import some_databases
    from worker.tools.inspect import GroupOffsets, copy_of
    from worker.tools.verify import verify_data_dir

    group = GroupOffsets(settings, list(some_databases(data_dir)))

    def add_copy(part: "StoredPartition", path: Path) -> None:
        copies.append(copy_of(part, path, group))

    min_changes = settings.emit_min_changes
    for partition, entity, problems in verify_data_dir(data_dir, add_copy, min_changes):
        copy = copies[-1] if copies and copies[-1].partition == partition else None
        yield {
            "partition": partition,
            "entity_id": entity and entity.entity_id,
            "reviews": entity and entity.reviews,
            "sentences": entity and entity.sentences,
            "ok": not problems,
            "problems": list(problems),
            "next_offset": copy and copy.next_offset,
            "current": copy and copy.is_current,
        }
