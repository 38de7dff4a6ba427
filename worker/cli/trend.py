"""`trend`: how often each facet is mentioned over time, and where complaints rose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from worker.cli.group import new_command
from worker.cli.options import check_utf8, url_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import Column, show

PERIODS_SHOWN = 6


@new_command(
    "trend",
    ("trend B00X", "its mentions by month, from the worker on this machine"),
    ("trend B00X --by quarter", "by quarter"),
    ("trend --rose --json", "every entity with a facet whose complaints rose, for a nightly job"),
)
@click.argument("entity", required=False)
@click.option("--by", type=click.Choice(("month", "quarter")), default="month", show_default=True)
@click.option("--rose", is_flag=True, help="Of all entities: only facets whose complaints rose.")
@url_option
@output.json_option
def command(entity: str | None, by: str, rose: bool, url: str | None, as_json: bool) -> int:
    """Show how many reviews mention each facet of an entity by month, and whether complaints rose:
    reviews of the last 90 days that mention it with a rating of at most 2, beside the 365 days
    before. Five more complaints are usually too few to be seen.

    With --rose, without ENTITY: a line for each facet of all entities whose complaints rose.
    """
    if (entity is None) != rose:
        raise click.UsageError("give ENTITY, or --rose for all entities.")
    from worker.operations.entity_sources import local_worker, served

    url = url or local_worker(Settings.from_environment())
    if entity is None:
        show(_risen(url, by), RISEN, as_json)
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


def _risen(url: str, by: str) -> Iterator[dict[str, Any]]:
    """The facets whose complaints rose, with the entity and its reviews. Raises SetupError."""
    from worker.operations.entity_sources import Listing, ServedEntities, served
    from worker.state.listing import EntitySearch

    source = ServedEntities(url)
    for listed in Listing().entities(source, EntitySearch(), None):
        found = served(url, listed.entity_id, "trend", {"by": by})
        about = {
            name: found.get(name) for name in ("entity_id", "recent_reviews", "before_reviews")
        }
        for facet in found.get("facets", ()):
            if facet["complaints"]["rose"]:
                yield about | facet
    for address, why in source.missing.items():
        output.note(f"not listed: the worker at {address} with {why}")


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
