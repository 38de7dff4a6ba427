"""`inspect`: an entity's summary, reviews or history."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.history import CHANGES_SHOWN, list_changes
from worker.cli.options import check_utf8, data_dir_option, extent_of, url_option, view_options
from worker.cli.tables import PROSE, Column, show_facts, show_table
from worker.errors import SetupError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.processing.entity_view import Extent
    from worker.tools.inspect import StoredReview

REVIEW_COLUMNS = (
    Column("review"),
    Column("version", right=True),
    Column("status"),
    Column("rating", drop=2, right=True),
    Column("sentences", drop=1, right=True),
)
SENTENCE_COLUMNS = {
    "rank": Column("rank", right=True),
    "sentence_id": Column("sentence", drop=5),
    "text": Column("text", prose=PROSE),
    "rating": Column("rating", drop=1, right=True),
}
"""By field."""
SUMMARY_COLUMNS = {
    **SENTENCE_COLUMNS,
    "distance": Column("distance", drop=3, right=True),
    "support": Column("support", drop=2, right=True),
}
"""By field."""
SHORT_COLUMNS = {
    **SENTENCE_COLUMNS,
    "distance": Column("distance", drop=4, right=True),
    "stands_for": Column("stands for", right=True),
    "stands_for_reviews": Column("of reviews", drop=2, right=True),
}
"""By field."""

OVERVIEW_COLUMNS = {
    **SENTENCE_COLUMNS,
    "distance": Column("distance", drop=4, right=True),
    "facet": Column("facet"),
    "facet_sentence_count": Column("of sentences", drop=2, right=True),
}
"""By field."""
COLUMNS = {
    "set": SUMMARY_COLUMNS,
    "short": SHORT_COLUMNS,
    "facets": SUMMARY_COLUMNS,
    "overview": OVERVIEW_COLUMNS,
}
"""By view."""


@click.command(
    "inspect",
    cls=Command,
    examples=[
        ("coversumm-worker inspect B00X", "its summary, from the worker on this machine"),
        ("coversumm-worker inspect B00X --url http://worker-1:8080", "from any worker of a group"),
        (
            "coversumm-worker inspect B00X --view short --words 75",
            "75 words for readers, without repetitions",
        ),
        ("coversumm-worker inspect B00X --view facets", "each of its facets, such as parking"),
        ("coversumm-worker inspect B00X --history 5", "its last five changes"),
        (
            "coversumm-worker inspect B00X --reviews --data-dir /var/lib/coversumm",
            "its reviews, deleted ones too",
        ),
    ],
)
@click.argument("entity")
@url_option
@data_dir_option("Read the data directory of a worker, running or stopped, instead.")
@click.option(
    "--reviews",
    is_flag=True,
    help="Show the versions of its reviews, deleted ones too, from a data directory "
    "(COVERSUMM_DATA_DIR without --data-dir).",
)
@click.option(
    "--history",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=CHANGES_SHOWN,
    metavar="[N]",
    help=f"Show its last N ({CHANGES_SHOWN}) changes from the output topic, the newest last.",
)
@view_options
@output.json_option
def command(
    entity: str,
    url: str | None,
    data_dir: Path | None,
    reviews: bool,
    history: int | None,
    view: str,
    sentences: int | None,
    words: int | None,
    threshold: float | None,
    as_json: bool,
) -> int:
    """Show an entity's summary, counts and last offsets; from a data directory its reservoir too.
    Or show its short view, its facets or their overview, its reviews, or its history.

    A data directory may lack the entity's partition, or have an old copy of a partition that has
    moved. The output gives the offset of the copy and, if a broker answers, whether the group has
    committed more. Exit code 1 if the entity is unknown, 2 if another worker may have it.
    """
    _check_usage(entity, url, data_dir, reviews, history)
    extent = extent_of(view, sentences, words, threshold)
    if view != "set" and (reviews or history is not None):
        raise click.UsageError(f"--view {view}: leave --reviews and --history out.")
    settings = Settings.from_environment()
    if history is not None:
        is_found = _show_history(entity, history, settings, as_json)
    elif reviews:
        is_found = _show_reviews(entity, data_dir or settings.data_dir, settings, as_json)
    else:
        is_found = _show_views(entity, url, data_dir, (view, extent), settings, as_json)
    if is_found:
        return 0
    if history is not None:
        output.complain(f"there is nothing published of {entity!r}")
    elif not reviews and data_dir is None and (at := _listed_in(entity, url or settings.local_url)):
        output.complain(
            f"{entity!r} is in partition {at}, where queries do not look: its producer does not "
            "choose partitions as Kafka's default partitioner does. Set partitioner=murmur2_random "
            "there (librdkafka); until then --data-dir shows it"
        )
    else:
        output.complain(f"there is no entity {entity!r}")
    return output.CHECK_FAILED


def _listed_in(entity: str, url: str) -> str:
    """The partition where workers list the entity, or an empty text."""
    from worker.state.listing import EntitySearch
    from worker.tools.entities import ServedEntities

    try:
        page = next(ServedEntities(url).pages(EntitySearch(prefix=entity), 1))
    except SetupError:  # no worker answers
        return ""
    return next((str(one.partition) for one in page.entities if one.entity_id == entity), "")


def _check_usage(
    entity: str, url: str | None, data_dir: Path | None, reviews: bool, history: int | None
) -> None:
    check_utf8("ENTITY", entity)
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    if reviews and history is not None:
        raise click.UsageError("--reviews and --history exclude each other.")
    if (reviews and url is not None) or (history is not None and (url or data_dir) is not None):
        raise click.UsageError(
            "--reviews needs a data directory, --history the output topic: leave --url out."
        )


def _show_history(entity: str, limit: int, settings: Settings, as_json: bool) -> bool:
    from worker.published.history import last_steps
    from worker.published.published import PublishedTopic

    with PublishedTopic(settings.output_topic, settings) as topic:
        shown = list_changes(last_steps(topic.of(entity), limit), as_json)
    if shown.is_incomplete:
        output.note("changes before or between these were compacted away")
    return bool(shown.changes)


def _show_reviews(entity: str, data_dir: Path, settings: Settings, as_json: bool) -> bool:
    from dataclasses import asdict

    from worker.tools.inspect import look_up, stored_reviews

    found: list[StoredReview] = []
    for copy, reviews in look_up(entity, data_dir, settings, stored_reviews):
        found += reviews
        if copy.is_current is False:
            output.note(f"warning: partition {copy.partition} {copy.words}")
    if as_json:
        for review in found:
            output.print_json(asdict(review))
    elif found:
        show_table(REVIEW_COLUMNS, map(_review_cells, found))
    return bool(found)


def _review_cells(review: "StoredReview") -> tuple[object, ...]:
    status = "deleted" if review.deleted else "live"
    return review.review_id, review.version, status, review.rating, len(review.sentences)


def _show_views(
    entity: str,
    url: str | None,
    data_dir: Path | None,
    wanted: "tuple[str, Extent | None]",
    settings: Settings,
    as_json: bool,
) -> bool:
    """Show the entity as each partition that has it knows it: one, unless its keys are mixed up."""
    if data_dir is not None:
        found = _stored_views(entity, data_dir, wanted, settings)
    else:
        from worker.tools.entities import served_view

        served = served_view(url or settings.local_url, entity, *wanted)
        found = [served] if served else []
    for view in found:
        if as_json:
            output.print_json(view)
        else:
            _show(view, COLUMNS[wanted[0]])
    return bool(found)


def _stored_views(
    entity: str, data_dir: Path, wanted: "tuple[str, Extent | None]", settings: Settings
) -> list[dict[str, Any]]:
    from worker.tools.inspect import look_up, stored_view

    read = partial(stored_view, view=wanted[0], extent=wanted[1])
    return [
        {**view, "as_of": copy.words, "current": copy.is_current}
        for copy, view in look_up(entity, data_dir, settings, read)
    ]


def _show(view: dict[str, Any], columns: dict[str, Column]) -> None:
    facts = {one: value for one, value in view.items() if one not in ("sentences", "facets")}
    facts.pop("current", None)  # `as_of` says it in words
    if "as_of" in facts:
        facts["as_of"] = facts["as_of"].removeprefix("as of ")
    if "ratings" in facts:
        facts["ratings"] = _ratings(facts["ratings"])
    show_facts((name.replace("_", " "), value) for name, value in facts.items())
    facets = view.get("facets", ())
    sentences = view.get("sentences") or [one for facet in facets for one in facet["sentences"]]
    if all(one["rating"] is None for one in sentences):
        columns = {field: column for field, column in columns.items() if field != "rating"}
    rows = _rows(sentences, columns)
    styles: list[str | None] = [None] * len(rows)
    if facets:
        rows, styles = [], []
        for facet in facets:
            own = _rows(facet["sentences"], columns)
            rows += [[_title(facet) if one == "text" else "" for one in columns], *own]
            styles += ["bold", *[None] * len(own)]
    show_table(tuple(columns.values()), rows, styles)


def _title(facet: dict[str, Any]) -> str:
    parts = [output.many(facet[f"{one}_count"], f"{one}s") for one in ("sentence", "review")]
    if facet["ratings"]["count"]:
        parts.append(f"ratings {_ratings(facet['ratings'])}")
    return f"{facet['name']}: {', '.join(parts)}"


def _ratings(ratings: dict[str, Any]) -> str:
    mean = ratings["mean"]
    return f"{ratings['count']:,}, mean {mean:.2f}" if mean is not None else "none"


def _rows(sentences: list[dict[str, Any]], columns: dict[str, Column]) -> list[list[object]]:
    rows = ({**one, "distance": f"{one['distance']:.6f}"} for one in sentences)
    return [[row[field] for field in columns] for row in rows]
