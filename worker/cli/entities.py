"""`entities`: the entities, searched and paged."""

import shlex

import click

from worker.cli.group import new_command
from worker.cli.options import check_utf8, limit_option, url_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import Column, show

SHOWN = 50  # rows of a table without --limit
SEARCH_SECONDS = 10.0
"""Seconds to search for --contains before the table ends and gives the next --after."""
COLUMNS = (
    Column("entity", "entity_id"),
    Column("reviews", count=True),
    Column("sentences", count=True),
    Column("sequence", drop=1, count=True),
    Column("partition", drop=2, right=True),
)


@new_command(
    "entities",
    ("entities", "the first ones, from the workers"),
    ("entities B00 --after B00X --limit 20", "the next twenty whose ids begin with B00"),
    ("entities --contains albany", "those whose ids contain a text"),
    ("entities --json | jq -r .entity_id", "the ids of all"),
)
@click.argument("prefix", default="")
@click.option(
    "--contains", default="", metavar="TEXT", help="Only ids that contain it; reads every id."
)
@click.option("--after", metavar="ID", help="Only ids after this one, the last of a page.")
@limit_option(f"Maximum number. [default: {SHOWN} on a terminal, else all]")
@url_option
@output.json_option
def command(
    prefix: str,
    contains: str,
    after: str | None,
    limit: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """List the entities, or those whose ids begin with PREFIX: live reviews and sentences, the
    sequence (the offset of the event that last changed the summary), the partition.

    Reads from a running worker and those of its group that can be reached. Shorter ids come first,
    ids of one length by their bytes. --contains reads every id, on a terminal for ten seconds at
    most; the last line gives the next --after.
    """
    for name, value in (("PREFIX", prefix), ("--contains", contains), ("--after", after or "")):
        check_utf8(name, value)
    from worker.operations.entity_sources import ServedEntities, local_worker
    from worker.state.listing import EntitySearch

    search = EntitySearch(prefix, contains, after)
    source = ServedEntities(url or local_worker(Settings.from_environment()))
    if as_json:
        show(source.entities(search, limit), COLUMNS, as_json)
    else:
        seconds = SEARCH_SECONDS if contains else None
        show(source.entities(search, limit or SHOWN, seconds), COLUMNS, as_json)
        partitions = output.ranges(source.partitions)
        of = f"partitions {partitions}" if source.partitions else "no partition"
        among = f" among the {source.searched:,} searched" if contains else ""
        more = ""
        if source.after is not None:
            more = f"; continue with --after {shlex.quote(output.printable(source.after))}"
        output.say(f"{output.many(source.listed, 'entities')}{among}, of {of}{more}")
    for address, why in source.missing.items():
        output.note(f"not listed: the worker at {address} with {why}")
