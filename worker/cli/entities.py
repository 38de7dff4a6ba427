"""`entities`: which there are, searched and paged."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import check_utf8, local_url, url_option
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.state.listing import EntitySearch, ListedEntity
    from worker.tools.entities import ServedEntities, StoredEntities

SHOWN = 50
"""Rows of a table unless --limit says another number."""
SEARCH_SECONDS = 10.0
"""How long one command looks for ids that contain something; it says where to go on."""
PAGE = 500
"""Entities asked for at once."""
COLUMNS = (
    Column("entity"),
    Column("reviews", right=True),
    Column("sentences", right=True),
    Column("last change", drop=1, right=True),
    Column("partition", drop=2, right=True),
)


@click.command(
    "entities",
    cls=Command,
    short_help="The entities there are, searched and paged.",
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
    "--contains", default="", metavar="TEXT", help="Only ids with this in them; looks at every id."
)
@click.option("--after", metavar="ID", help="Only those after this one: where the last page ended.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many. [default: {SHOWN} on a terminal, else all]",
)
@url_option
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of a worker, running or stopped, instead of its web address: the entities of its partitions.",
)
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
    """The entities there are, or those whose ids begin with PREFIX: live reviews and sentences, the
    offset of the event that last changed the summary, the partition.

    From a running worker and all others of its group that can be reached; or from a data directory.
    The order is that of the stored rows: shorter ids first, those of one length by their bytes. A
    running worker reads them beside its stream, from headers alone. --contains looks at every id,
    on a terminal for ten seconds at most; the last line says where to go on.
    """
    search, source = _asked(prefix, contains, after, url, data_dir)
    if limit is None and not as_json:
        limit = SHOWN
    found: list[ListedEntity] = []
    shown, searched, give_up = 0, 0, time.monotonic() + SEARCH_SECONDS
    goes_on_after = None
    for page in source.pages(search, min(PAGE, limit or PAGE)):
        entities = page.entities if limit is None else page.entities[: limit - shown]
        shown, searched = shown + len(entities), searched + page.searched
        cut = len(entities) < len(page.entities)
        goes_on_after = entities[-1].entity_id if cut else page.after
        if as_json:
            _print(entities)
        else:
            found += entities
        if shown == limit or (contains and not as_json and time.monotonic() > give_up):
            break
    if not as_json:
        _show(found, searched if contains else None, source, goes_on_after)
    for address, why in source.missing.items():
        output.note(f"not in this list: what the worker at {address} has: {why}")


def _asked(
    prefix: str, contains: str, after: str | None, url: str | None, data_dir: Path | None
) -> "tuple[EntitySearch, ServedEntities | StoredEntities]":
    """What to look for, and where. Raises click.UsageError for what contradicts itself or is no
    text.
    """
    for name, value in (("PREFIX", prefix), ("--contains", contains), ("--after", after or "")):
        check_utf8(name, value)
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    from worker.state.listing import EntitySearch
    from worker.tools.entities import ServedEntities, StoredEntities

    search = EntitySearch(prefix, contains, after)
    if data_dir is not None:
        return search, StoredEntities(data_dir)
    return search, ServedEntities(url or local_url(Settings.from_environment()))


def _print(entities: "list[ListedEntity]") -> None:
    from dataclasses import asdict

    for one in entities:
        output.print_json(asdict(one))


def _show(
    found: "list[ListedEntity]",
    searched: int | None,
    source: "ServedEntities | StoredEntities",
    goes_on_after: str | None,
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
    looked = "" if searched is None else f" among the {searched:,} looked at"
    more = (
        ""
        if goes_on_after is None
        else f"; go on with --after {shlex.quote(output.printable(goes_on_after))}"
    )
    output.console().print(
        f"{output.many(len(found), 'entities')}{looked}, of {of}{more}", soft_wrap=True
    )
