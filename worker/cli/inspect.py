"""`inspect`: one entity as a worker knows it: its summary, its reviews or its history."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import click

from worker.cli import cards as short_view
from worker.cli import output
from worker.cli.cards import extent_of, view_options
from worker.cli.command import Command
from worker.cli.history import CHANGES_SHOWN, list_changes
from worker.cli.options import check_utf8, local_url, url_option
from worker.cli.tables import Column, show_facts, show_table
from worker.errors import SetupError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.processing.short_view import Extent, ShortView
    from worker.state import SummaryView
    from worker.storage.snapshot import StoredPartition
    from worker.tools.inspect import StoredReview


def show_history(entity: str, limit: int, as_json: bool) -> bool:
    """Show the last `limit` changes; False where nothing was published of the entity."""
    settings = Settings.from_environment()
    from worker.published.history import last_steps
    from worker.published.published import PublishedTopic

    with PublishedTopic(settings.output_topic, settings) as topic:
        told = list_changes(last_steps(topic.of(entity), limit), as_json)
    if told.is_incomplete:
        output.note("changes before or between these were compacted away")
    return bool(told.changes)


REVIEW_COLUMNS = (
    Column("review"),
    Column("version", right=True),
    Column("status"),
    Column("rating", drop=2, right=True),
    Column("sentences", drop=1, right=True),
)


def show_reviews(entity: str, data_dir: Path, settings: Settings, as_json: bool) -> bool:
    """Show them all; False where the entity is unknown."""
    from dataclasses import asdict

    from worker.tools.inspect import refuse_elsewhere, stored_copies, stored_reviews

    found, copies = [], []
    partitions = 0
    for part, copy in stored_copies(settings, data_dir):
        copies.append(copy)
        partitions = part.partitions
        reviews = stored_reviews(part, entity)
        found += reviews
        if reviews and copy.is_current is False:
            output.note(f"warning: partition {copy.partition} {copy.words}")
    if not found:
        refuse_elsewhere(entity, data_dir, partitions, copies)
    if as_json:
        for review in found:
            output.print_json(asdict(review))
    elif found:
        show_table(REVIEW_COLUMNS, map(_cells, found))
    return bool(found)


def _cells(review: "StoredReview") -> tuple[object, ...]:
    status = "deleted" if review.deleted else "live"
    return review.review_id, review.version, status, review.rating, len(review.sentences)


COLUMNS = {
    "rank": Column("rank", drop=2, right=True),
    "sentence_id": Column("sentence"),
    "text": Column("text", prose=True),
    "rating": Column("rating", drop=4, right=True),
    "distance": Column("distance", drop=1, right=True),
    "support": Column("support", drop=3, right=True),
}
"""By field."""


def show_summaries(
    entity: str, url: str | None, data_dir: Path | None, extent: "Extent | None", as_json: bool
) -> bool:
    """Show the entity, or its short view of this extent, as each partition that has it knows it,
    mostly one; False where it is unknown.
    """
    if data_dir is not None:
        found = _from_data_dir(entity, data_dir, extent, Settings.from_environment())
    else:
        found = _from_worker(entity, url or local_url(Settings.from_environment()), extent)
    columns = COLUMNS if extent is None else short_view.COLUMNS
    for view in found:
        if as_json:
            output.print_json(view)
        else:
            _show(view, columns)
    return bool(found)


def _from_worker(entity: str, url: str, extent: "Extent | None") -> list[dict[str, Any]]:
    """The answer of the worker that owns the entity."""
    from worker.peers import PeerUnreachable, ask_owner

    name = (
        f"/{quote(entity, safe='')}/summary?"
        if entity not in (".", "..")
        else f"//summary?id={entity}&"
    )
    try:
        answer = ask_owner(url, f"/entities{name}{_query(extent)}".rstrip("?&"))
        if answer.status == 404:
            return []
        if answer.status != 200:
            reason = answer.fields.get("error") or answer.body[:2000].decode(errors="replace")
            raise SetupError(f"the worker at {url} answers {answer.status}: {reason}")
        return [answer.json()]
    except PeerUnreachable as cause:
        raise SetupError(
            f"no worker answers at {url} ({cause}): name one by --url, or a data directory "
            "by --data-dir"
        ) from cause


def _query(extent: "Extent | None") -> str:
    if extent is None:
        return ""
    asked = {
        "sentences": extent.sentences,
        "words": extent.words,
        "threshold": f"{extent.threshold:.9f}",
    }
    return urlencode(
        {"view": "short"} | {name: one for name, one in asked.items() if one is not None}
    )


def _from_data_dir(
    entity: str, data_dir: Path, extent: "Extent | None", settings: Settings
) -> list[dict[str, Any]]:
    """One view, or several if producers put the entity's events into several partitions; `as_of`
    says how old it is.
    """
    from dataclasses import asdict

    from worker.tools.inspect import refuse_elsewhere, stored_copies

    views, copies = [], []
    partitions = 0
    for part, copy in stored_copies(settings, data_dir):
        copies.append(copy)
        partitions = part.partitions
        view = _stored_view(part, entity, extent)
        if view is not None:
            views.append({**asdict(view), "as_of": copy.words, "current": copy.is_current})
    if not views:
        refuse_elsewhere(entity, data_dir, partitions, copies)
    return views


def _stored_view(
    part: "StoredPartition", entity: str, extent: "Extent | None"
) -> "SummaryView | ShortView | None":
    from dataclasses import replace

    from worker.processing.short_view import read_short_view
    from worker.state import read_view

    if extent is not None:
        short = read_short_view(part.rows, entity, part.dimension, extent)
        return short and replace(short, partition=part.number, next_offset=part.next_offset)
    view = read_view(part.rows, entity, dimension=part.dimension, k=part.k, distinct=part.distinct)
    return view and replace(
        view,
        partition=part.number,
        next_offset=part.next_offset,
        reservoir=_reservoir_size(part, entity, view.incarnation),
    )


def _reservoir_size(part: "StoredPartition", entity: str, incarnation: int) -> int:
    """Distinct sentences in the reservoir that a worker makes when it first touches the entity."""
    from worker.coversumm import EntityCore, FlatIndex
    from worker.state.entity import EntityRows

    rows = EntityRows(part.rows, entity.encode(), incarnation, part.dimension)
    core = EntityCore.load(
        part.k, part.dimension, FlatIndex(part.dimension, rows.blocks), distinct=part.distinct
    )
    return core.reservoir_size


def _show(view: dict[str, Any], columns: dict[str, Column]) -> None:
    show_facts(
        (name.replace("_", " "), value) for name, value in view.items() if name != "sentences"
    )
    rows = ({**one, "distance": f"{one['distance']:.6f}"} for one in view["sentences"])
    show_table(tuple(columns.values()), [[row[field] for field in columns] for row in rows])


@click.command(
    "inspect",
    cls=Command,
    short_help="An entity's summary; its reviews or its history.",
    examples=[
        ("coversumm-worker inspect B00X", "its summary, from the worker on this machine"),
        (
            "coversumm-worker inspect B00X --url http://worker-1:8080",
            "from any worker of the group",
        ),
        (
            "coversumm-worker inspect B00X --view short --words 75",
            "what a reader gets: nothing said twice",
        ),
        ("coversumm-worker inspect B00X --history 5", "its last five changes"),
        (
            "coversumm-worker inspect B00X --reviews --data-dir /var/lib/coversumm",
            "its reviews, deleted ones too",
        ),
    ],
)
@click.argument("entity")
@url_option
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of a worker that has the entity, running or stopped, instead of its web address.",
)
@click.option(
    "--reviews",
    is_flag=True,
    help="The versions of its reviews, deleted ones too, from the data directory (without --data-dir, the setting's).",
)
@click.option(
    "--history",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=CHANGES_SHOWN,
    metavar="[N]",
    help=f"The last N ({CHANGES_SHOWN}) changes that were published of it, the newest last, from the output topic.",
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
    """The entity's summary, counts and last offsets; from a data directory its reservoir too. Or
    its short view, its reviews, or its history.

    A data directory may lack the entity's partition, or have an old copy of one that has moved: it
    says as of which offset it is, and, where a broker answers, whether the group is further. Exit
    code 1 where the entity is unknown, 2 where it may well be known elsewhere.
    """
    _check_usage(entity, url, data_dir, reviews, history)
    extent = extent_of(view, sentences, words, threshold)
    if extent is not None and (reviews or history is not None):
        raise click.UsageError("--view short is of a summary: leave --reviews and --history out.")
    if reviews:
        settings = Settings.from_environment()
        shown = show_reviews(entity, data_dir or settings.data_dir, settings, as_json)
    elif history is not None:
        shown = show_history(entity, history, as_json)
    else:
        shown = show_summaries(entity, url, data_dir, extent, as_json)
    if not shown:
        missing = (
            f"nothing published of {entity!r}" if history is not None else f"no entity {entity!r}"
        )
        output.complain(f"there is {missing}")
        return output.CHECK_FAILED
    return 0


def _check_usage(
    entity: str, url: str | None, data_dir: Path | None, reviews: bool, history: int | None
) -> None:
    """Raise click.UsageError for arguments that contradict each other."""
    check_utf8("ENTITY", entity)
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    if reviews and history is not None:
        raise click.UsageError("--reviews and --history exclude each other.")
    if (reviews and url is not None) or (history is not None and (url or data_dir) is not None):
        raise click.UsageError(
            "--reviews needs a data directory, --history the output topic: leave --url out."
        )
