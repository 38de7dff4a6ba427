"""`inspect`: an entity's summary, reviews or history."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import click
import msgspec

from worker.cli import output
from worker.cli.command import Command
from worker.cli.copies import Copy, GroupOffsets, copy_of
from worker.cli.entities import ServedEntities, answered
from worker.cli.history import CHANGES_SHOWN, list_changes
from worker.cli.options import check_utf8, data_dir_option, extent_of, url_option, view_options
from worker.cli.tables import PROSE, Column, show, show_facts
from worker.errors import SetupError
from worker.kafka.topics import partition_of
from worker.peers import ask_owner
from worker.processing.entity_view import KINDS, Extent, read_view
from worker.published.history import last_steps
from worker.published.published import PublishedTopic
from worker.settings import Settings
from worker.state.keys import header_key, review_of
from worker.state.listing import EntitySearch
from worker.state.snapshot import read_snapshots
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition

Found = TypeVar("Found")


def _distance(row: dict[str, Any]) -> str:
    return f"{row['distance']:.6f}" if "distance" in row else ""


REVIEW_COLUMNS = (
    Column("review", "review_id"),
    Column("version", right=True),
    Column("status", lambda one: "deleted" if one.deleted else "live"),
    Column("rating", drop=2, right=True),
    Column("sentences", lambda one: len(one.sentences), drop=1, right=True),
)
SENTENCE = (
    Column("rank", right=True),
    Column("sentence", "sentence_id", drop=5),
    Column("text", prose=PROSE),
    Column("rating", drop=1, right=True),
)
SET_COLUMNS = (
    *SENTENCE,
    Column("distance", _distance, drop=3, right=True),
    Column("support", drop=2, right=True),
)
COLUMNS = {
    "set": SET_COLUMNS,
    "facets": SET_COLUMNS,
    "short": (
        *SENTENCE,
        Column("distance", _distance, drop=4, right=True),
        Column("stands for", "stands_for", right=True),
        Column("of reviews", "stands_for_reviews", drop=2, right=True),
    ),
    "overview": (
        *SENTENCE,
        Column("distance", _distance, drop=4, right=True),
        Column("facet"),
        Column("of sentences", "facet_sentence_count", drop=2, right=True),
    ),
}
"""Of sentences, by view."""


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
    problem = f"there is no entity {entity!r}"
    if history is not None:
        is_found = _show_history(entity, history, settings, as_json)
        problem = f"there is nothing published of {entity!r}"
    elif reviews:
        is_found = _show_reviews(entity, data_dir or settings.data_dir, settings, as_json)
    elif data_dir is not None:
        is_found = _show_views(
            stored_views(entity, data_dir, settings, view, extent), view, as_json
        )
    else:
        url = url or settings.local_url
        served = served_view(url, entity, view, extent)
        is_found = _show_views([served] if served else [], view, as_json)
        if not is_found and (at := _listed_in(entity, url)):
            problem = (
                f"{entity!r} is in partition {at}, where queries do not look: its producer does "
                "not choose partitions as Kafka's default partitioner does. Set "
                "partitioner=murmur2_random there (librdkafka); until then --data-dir shows it"
            )
    return output.exit_code([] if is_found else [problem])


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
    with PublishedTopic(settings.output_topic, settings) as topic:
        shown = list_changes(last_steps(topic.of(entity), limit), as_json)
    if shown.is_incomplete:
        output.note("changes before or between these were compacted away")
    return bool(shown.changes)


def _show_reviews(entity: str, data_dir: Path, settings: Settings, as_json: bool) -> bool:
    found: list[StoredReview] = []
    for copy, reviews in look_up(entity, data_dir, settings, stored_reviews):
        found += reviews
        if copy.is_current is False:
            output.note(f"warning: partition {copy.partition} {copy.words}")
    show(found, REVIEW_COLUMNS, as_json)
    return bool(found)


def _show_views(found: list[dict[str, Any]], view: str, as_json: bool) -> bool:
    """Show the entity as each partition that has it knows it: one, unless its keys are mixed up."""
    for one in found:
        if as_json:
            output.print_json(one)
        else:
            _show(one, COLUMNS[view])
    return bool(found)


def _show(view: dict[str, Any], columns: tuple[Column, ...]) -> None:
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
        columns = tuple(column for column in columns if column.name != "rating")
    if facets:
        titles = dict.fromkeys((column.of or column.name for column in columns), "")
        sentences = [
            row
            for facet in facets
            for row in ({**titles, "text": _title(facet)}, *facet["sentences"])
        ]
    show(sentences, columns, False, lambda row: None if "distance" in row else "bold")


def _title(facet: dict[str, Any]) -> str:
    parts = [output.many(facet[f"{one}_count"], f"{one}s") for one in ("sentence", "review")]
    if facet["ratings"]["count"]:
        parts.append(f"ratings {_ratings(facet['ratings'])}")
    return f"{facet['name']}: {', '.join(parts)}"


def _ratings(ratings: dict[str, Any]) -> str:
    mean = ratings["mean"]
    return f"{ratings['count']:,}, mean {mean:.2f}" if mean is not None else "none"


def _listed_in(entity: str, url: str) -> str:
    """The partition where workers list the entity, or an empty text."""
    try:
        page = ServedEntities(url).page(EntitySearch(prefix=entity), 1)
    except SetupError:  # no worker answers
        return ""
    return next((str(one.partition) for one in page.entities if one.entity_id == entity), "")


def served_view(url: str, entity: str, view: str, extent: Extent | None) -> dict[str, Any]:
    """The view of the entity that its owner serves; empty if it is unknown.

    Raises SetupError.
    """
    query: dict[str, object] = {"id": entity} if entity in (".", "..") else {}
    if extent is not None:
        query["view"] = view
        query |= {name: n for name in ("sentences", "words") if (n := getattr(extent, name))}
        query["threshold"] = f"{extent.threshold:.9f}"
    name = "" if "id" in query else quote(entity, safe="")
    kind = "facets" if view == "facets" else "summary"
    path = f"/entities/{name}/{kind}{'?' if query else ''}{urlencode(query)}"
    return answered(url, lambda: ask_owner(url, path), missing_status=404)


def stored_views(
    entity: str, data_dir: Path, settings: Settings, view: str, extent: Extent | None
) -> list[dict[str, Any]]:
    """The view of the entity in each partition of the data directory that has it, and its age."""

    def read(part: StoredPartition, entity: str) -> dict[str, Any]:
        return stored_view(part, entity, view, extent)

    return [
        {**fields, "as_of": copy.words, "current": copy.is_current}
        for copy, fields in look_up(entity, data_dir, settings, read)
    ]


def look_up(
    entity: str,
    data_dir: Path,
    settings: Settings,
    read: Callable[[StoredPartition, str], Found | None],
) -> Iterator[tuple[Copy, Found]]:
    """What `read` finds of an entity, by partition: one, unless producers mixed up its keys.

    Raises SetupError if no partition has rows, or if the entity is unknown here and may be known
    to another worker. Raises StateError for damaged rows.
    """
    databases = some_databases(data_dir)
    group = GroupOffsets(settings, list(databases))
    copies, count, is_found = [], 0, False
    for number, path in databases.items():
        with stored_partition(number, path) as part:
            if part is not None:
                count = part.partitions
                copies.append(copy_of(part, path, group))
                if found := read(part, entity):
                    is_found = True
                    yield copies[-1], found
    if not copies:
        raise SetupError(
            f"the databases in {data_dir} (COVERSUMM_DATA_DIR) have no rows: their worker has "
            f"processed no event yet (partitions here: {_listed(databases)})"
        )
    if not is_found:
        _refuse_unknown(entity, data_dir, partition_of(entity, count), copies)


def _refuse_unknown(entity: str, data_dir: Path, number: int, copies: list[Copy]) -> None:
    """Raise SetupError unless there is a current copy of the entity's partition."""
    own = next((copy for copy in copies if copy.partition == number), None)
    if own is None:
        here = _listed(one.partition for one in copies)
        raise SetupError(
            f"partition {number}, where {entity!r} belongs, is not here (here: {here}): name "
            f"another worker's directory than {data_dir} (--data-dir, COVERSUMM_DATA_DIR), or ask "
            "a running worker (--url)"
        )
    if own.is_current is False:
        raise SetupError(
            f"there is no entity {entity!r} in partition {number} {own.words}: name its owner's "
            "directory (--data-dir, COVERSUMM_DATA_DIR), or ask a running worker (--url)"
        )


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions))


def stored_view(
    part: StoredPartition, entity: str, view: str, extent: Extent | None
) -> dict[str, Any]:
    """The fields of this view of the entity; empty if it is unknown. Raises NoFacets."""
    found = read_view(
        part.rows,
        entity,
        KINDS[view],
        extent,
        partition=part.number,
        dimension=part.dimension,
        k=part.k,
        distinct=part.distinct,
    )
    return {} if found is None else msgspec.to_builtins(found)


@dataclass(frozen=True, slots=True)
class StoredReview:
    """A review's version and live sentences by id. A deleted review keeps its version only."""

    partition: int
    review_id: str
    version: int
    deleted: bool
    rating: float | None
    sentences: dict[str, str]


def stored_reviews(part: StoredPartition, entity_id: str) -> list[StoredReview]:
    """The reviews of an entity, by id; empty if it is unknown."""
    for snapshot in read_snapshots(part.rows, part.dimension, header_key(entity_id.encode())):
        if snapshot.header is None:
            continue
        texts: dict[bytes, dict[str, str]] = defaultdict(dict)
        for identifier, text in snapshot.texts.items():
            texts[review_of(identifier)][identifier.decode()] = text
        return [
            StoredReview(
                part.number,
                review_id.decode(),
                review.version,
                review.deleted,
                review.rating,
                texts[review_id],
            )
            for review_id, review in sorted(snapshot.reviews.items())
        ]
    return []
