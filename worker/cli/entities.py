"""`entities`: the entities, searched and paged."""

import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import check_utf8, data_dir_option, limit_option, url_option
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.state.listing import EntitySearch, ListedEntity
    from worker.tools.entities import ServedEntities, StoredEntities

SHOWN = 50
"""Rows of a table without --limit."""
SEARCH_SECONDS = 10.0
"""Seconds to search for --contains before the table ends and gives the next --after."""
PAGE = 500
"""Entities in one request."""
COLUMNS = (
    Column("entity"),
    Column("reviews", right=True),
    Column("sentences", right=True),
    Column("sequence", drop=1, right=True),
    Column("partition", drop=2, right=True),
)


@click.command(
    "entities",
    cls=Command,
    examples=[
        ("coversumm-worker entities", "the first ones, from the workers"),
        (
            "coversumm-worker entities B00 --after B00X --limit 20",
            "the next twenty whose ids begin with B00",
        ),
        (
            "coversumm-worker entities --contains albany --data-dir /var/lib/coversumm",
            "of a data directory",
        ),
        ("coversumm-worker entities --json | jq -r .entity_id", "the ids of all"),
    ],
)
@click.argument("prefix", default="")
@click.option(
    "--contains", default="", metavar="TEXT", help="Only ids that contain it; reads every id."
)
@click.option("--after", metavar="ID", help="Only ids after this one, the last of a page.")
@limit_option(f"Maximum number. [default: {SHOWN} on a terminal, else all]")
@url_option
@data_dir_option("Read the data directory of a worker, running or stopped, instead.")
@output.json_option
def command(
    prefix: str,
    contains: str,
    after: str | None,
    limit: int | None,
    url: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """List the entities, or those whose ids begin with PREFIX: live reviews and sentences, the
    sequence (the offset of the event that last changed the summary), the partition.

    Reads from a running worker and those of its group that can be reached, or from a data
    directory. Shorter ids come first, ids of one length by their bytes. --contains reads every id,
    on a terminal for ten seconds at most; the last line gives the next --after.
    """
    search, source = _search(prefix, contains, after, url, data_dir)
    if limit is None and not as_json:
        limit = SHOWN
    found: list[ListedEntity] = []
    shown, searched, give_up = 0, 0, time.monotonic() + SEARCH_SECONDS
    next_after = None
    for page in source.pages(search, min(PAGE, limit or PAGE)):
        entities = page.entities if limit is None else page.entities[: limit - shown]
        shown, searched = shown + len(entities), searched + page.searched
        cut = len(entities) < len(page.entities)
        next_after = entities[-1].entity_id if cut else page.after
        if as_json:
            for one in entities:
                output.print_json(asdict(one))
        else:
            found += entities
        if shown == limit or (contains and not as_json and time.monotonic() > give_up):
            break
    if not as_json:
        _show(found, searched if contains else None, source, next_after)
    for address, why in source.missing.items():
        output.note(f"not listed: the worker at {address} with {why}")


def _search(
    prefix: str, contains: str, after: str | None, url: str | None, data_dir: Path | None
) -> "tuple[EntitySearch, ServedEntities | StoredEntities]":
    for name, value in (("PREFIX", prefix), ("--contains", contains), ("--after", after or "")):
        check_utf8(name, value)
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    from worker.state.listing import EntitySearch
    from worker.tools.entities import ServedEntities, StoredEntities

    search = EntitySearch(prefix, contains, after)
    if data_dir is not None:
        return search, StoredEntities(data_dir)
    return search, ServedEntities(url or Settings.from_environment().local_url)


def _show(
    found: "list[ListedEntity]",
    searched: int | None,
    source: "ServedEntities | StoredEntities",
    next_after: str | None,
) -> None:
    rows = [
        (
            one.entity_id,
            f"{one.reviews:,}",
            f"{one.sentences:,}",
            None if one.sequence is None else f"{one.sequence:,}",
            one.partition,
        )
        for one in found
    ]
    if rows:
        show_table(COLUMNS, rows)
    of = f"partitions {output.ranges(source.partitions)}" if source.partitions else "no partition"
    among = "" if searched is None else f" among the {searched:,} searched"
    more = ""
    if next_after is not None:
        more = f"; continue with --after {shlex.quote(output.printable(next_after))}"
    output.console().print(
        f"{output.many(len(found), 'entities')}{among}, of {of}{more}", soft_wrap=True
    )
