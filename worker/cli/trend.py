"""`trend`: how often each facet is mentioned over time, and where complaints rose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from worker.cli.group import new_command
from worker.cli.options import check_utf8, data_dir_option, url_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import Column, show

PERIODS_SHOWN = 6


@new_command(
    "trend",
    ("trend B00X", "its mentions by month, from the worker on this machine"),
    ("trend B00X --by quarter", "by quarter"),
    ("trend --rose --json", "every entity with a facet whose complaints rose, for a nightly job"),
    ("trend --rose --data-dir data", "the same from a data directory, without a worker"),
)
@click.argument("entity", required=False)
@click.option("--by", type=click.Choice(("month", "quarter")), default="month", show_default=True)
@click.option("--rose", is_flag=True, help="Of all entities: only facets whose complaints rose.")
@data_dir_option("With --rose: that of a worker, running or stopped, instead of a worker.")
@url_option
@output.json_option
def command(
    entity: str | None, by: str, rose: bool, data_dir: Path | None, url: str | None, as_json: bool
) -> int:
    """Show how many reviews mention each facet of an entity by month, and whether complaints rose:
    reviews of the last 90 days that mention it with a rating of at most 2, beside the 365 days
    before. Five more complaints are usually too few to be seen.

    With --rose, without ENTITY: a line for each facet of all entities whose complaints rose.
    """
    if (entity is None) != rose:
        raise click.UsageError("give ENTITY, or --rose for all entities.")
    if data_dir is not None and (entity is not None or url is not None):
        raise click.UsageError("--data-dir is for --rose, without --url.")
    if data_dir is not None:
        show(_risen(_stored(data_dir, by)), RISEN, as_json)
        return 0
    from worker.operations.entity_sources import local_worker, served

    url = url or local_worker(Settings.from_environment())
    if entity is None:
        show(_risen(_served(url, by)), RISEN, as_json)
        return 0
    check_utf8("ENTITY", entity)
    found = served(url, entity, "trend", {"by": by})
    if not found:
        return output.exit_code([f"there is no entity {entity!r}"])
    if as_json:
        output.print_json(found)
    else:
        named = {period["period"] for facet in found["facets"] for period in facet["periods"]}
        shown = sorted(named)[-PERIODS_SHOWN:]
        counts = (Column(name, drop=1 + at, right=True) for at, name in enumerate(reversed(shown)))
        columns = (Column("facet"), *reversed([*counts]), Column("undated", right=True), CHANGE)
        show(_rows(found, shown), columns, as_json)
    return 0


CHANGE = Column("complaints")
RISEN = (
    Column("entity", "entity_id"),
    Column("facet", "name"),
    Column("complaints", lambda row: row["complaints"]["recent"], right=True),
    Column("before", lambda row: row["complaints"]["before"], right=True),
    Column("reviews", lambda row: row["recent_reviews"], drop=1, right=True),
    Column("reviews before", lambda row: row["before_reviews"], drop=1, right=True),
)


def _served(url: str, by: str) -> Iterator[dict[str, Any]]:
    """The trend of each entity, from running workers. Raises SetupError."""
    from worker.operations.entity_sources import ServedEntities, served
    from worker.state.listing import EntitySearch

    source = ServedEntities(url)
    for listed in source.entities(EntitySearch(), None):
        yield served(url, listed.entity_id, "trend", {"by": by})
    for address, why in source.missing.items():
        output.note(f"not listed: the worker at {address} with {why}")


def _stored(data_dir: Path, by: str) -> Iterator[dict[str, Any]]:
    """The trend of each entity, from its rows. Raises SetupError, StateError."""
    from msgspec import to_builtins

    from worker.processing.entity_view import Extent, Source
    from worker.processing.trend import Trend
    from worker.state.entity import EntityRows
    from worker.state.listing import find_entities
    from worker.storage.snapshot import some_databases, stored_partition

    for number, path in some_databases(data_dir).items():
        with stored_partition(number, path) as part:
            if part is None:
                continue
            if part.is_partial:
                output.note(f"partition {number} has no complete rows in {data_dir}")
                continue
            for name, header in find_entities(part.rows):
                entity = EntityRows(part.rows, name, header.incarnation, part.dimension)
                sets = part.k, part.distinct, part.by_text, 1
                yield to_builtins(Trend(by).read(Source(entity, header, *sets, Extent())))


def _risen(trends: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The facets whose complaints rose, with the entity and its reviews."""
    for found in trends:
        about = {
            name: found.get(name) for name in ("entity_id", "recent_reviews", "before_reviews")
        }
        for facet in found.get("facets", ()):
            if facet["complaints"]["rose"]:
                yield about | facet


def _rows(found: dict[str, Any], shown: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "facet": output.facet_label(facet),
            **dict.fromkeys(shown, 0),
            **{period["period"]: period["review_count"] for period in facet["periods"]},
            "undated": facet["undated"],
            "complaints": _told(facet["complaints"]),
        }
        for facet in found["facets"]
    ]


def _told(complaints: dict[str, Any]) -> str:
    counts = f"{complaints['recent']} (before {complaints['before']})"
    if complaints["rose"] is None:
        return f"{counts}, too few reviews to tell"
    if complaints["rose"]:
        return f"{counts}, rose"
    return f"{counts}, may have risen" if complaints["may_have_risen"] else counts
