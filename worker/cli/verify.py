"""`verify`: recompute every summary of a worker by brute force from its stored rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.cli.group import new_command
from worker.cli.options import data_dir_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show

if TYPE_CHECKING:
    from worker.operations.copies import Copy
    from worker.storage.snapshot import StoredPartition

SHOWN_SOUND = 30
"""Rows of sound entities in the table. It shows all that differ."""
COLUMNS = (
    Column("entity", "entity_id"),
    Column("partition", drop=1, right=True),
    Column("reviews", drop=2, right=True),
    Column("sentences", drop=3, right=True),
    Column("result", lambda row: row["problems"] or "equal", prose=PROSE),
)


@new_command(
    "verify",
    ("verify", "the data directory of the settings"),
    ("verify --data-dir /var/lib/coversumm", "another data directory"),
)
@data_dir_option("The data directory of a worker, running or stopped, instead of the setting.")
@output.json_option
def command(data_dir: Path | None, as_json: bool) -> int:
    """Recompute every entity, and its facets, by brute force from the stored rows of a worker,
    running or stopped, and compare. Exit code 1 for any difference, and if nothing was verified.

    With COVERSUMM_EMIT_MIN_CHANGES, set as for the worker, a published summary or facet may differ
    by fewer sentences.

    Partitions of a running worker are read as of a commit. A partial copy, whose restore from the
    changelog has not ended, is not verified. The output names the partitions and their offsets. If
    a broker answers, it also names old copies of partitions that moved to another worker.
    """
    settings = Settings.from_environment()
    started = time.monotonic()
    copies: dict[int, Copy] = {}
    sound = differing = 0

    def shown() -> Iterator[dict[str, Any]]:
        nonlocal sound, differing
        for verdict in verified(settings, data_dir or settings.data_dir, copies):
            sound += verdict["ok"]
            differing += not verdict["ok"]
            if as_json or not verdict["ok"] or sound <= SHOWN_SOUND:
                yield verdict

    show(shown(), COLUMNS, as_json, lambda row: None if row["ok"] else "red")
    entities = output.many(sound + differing, "entities")
    if not as_json:
        if sound > SHOWN_SOUND:
            output.say(f"... and {sound - SHOWN_SOUND:,} more that are equal")
        for copy in copies.values():
            output.say(f"partition {copy.partition} {copy.words}")
        seconds = time.monotonic() - started
        output.say(f"{entities}, {differing:,} differ, {seconds:.1f} s")
    for copy in copies.values():
        if copy.is_current is False:
            what = "it was not verified" if copy.is_partial else "this copy was verified"
            output.note(f"warning: partition {copy.partition} {copy.words}; {what}")
    problems = []
    if differing:
        problems.append(f"{differing:,} of {entities} differ from the brute-force summary")
    if copies and all(copy.is_partial for copy in copies.values()):
        problems.append("nothing was verified: each copy is partial until its restore ends")
    return output.exit_code(problems)


def verified(
    settings: Settings, data_dir: Path, copies: dict[int, Copy]
) -> Iterator[dict[str, Any]]:
    """The result of each entity; adds each partition that is read to `copies`."""
    from worker.operations.copies import GroupOffsets
    from worker.storage.snapshot import some_databases
    from worker.storage.verify import verify_data_dir

    group = GroupOffsets(settings, list(some_databases(data_dir)))

    def add_copy(part: StoredPartition, path: Path) -> None:
        copies[part.number] = group.copy_of(part, path)

    min_changes = settings.emit_min_changes
    for partition, entity, problems in verify_data_dir(data_dir, add_copy, min_changes):
        copy = copies.get(partition)
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
