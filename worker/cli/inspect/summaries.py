"""An entity's summary and counts, from a worker's web server or from a data directory."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from worker.cli import output, short_view
from worker.cli.tables import Column, show_facts, show_table
from worker.cli.web_address import local_url
from worker.errors import SurroundingsError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.processing.short_view import Extent, ShortView
    from worker.state import SummaryView
    from worker.storage.snapshot import StoredPartition

TIMEOUT_SECONDS = 30
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
    """Show the entity, or its short view of this extent, as each partition that has it knows it, mostly one; False where it is
    unknown."""
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
    """Follows the redirect to the worker that owns the entity."""
    name = f"/{quote(entity, safe='')}/summary?" if entity not in (".", "..") else f"//summary?id={entity}&"
    address = f"{url.rstrip('/')}/entities{name}{_query(extent)}".rstrip("?&")
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            return [json.load(response)]
    except urllib.error.HTTPError as refusal:
        if refusal.code == 404:
            return []
        raise SurroundingsError(
            f"the worker at {url} answers {refusal.code}: {_reason(refusal)}"
        ) from refusal
    except (OSError, ValueError) as cause:
        raise SurroundingsError(
            f"no worker answers at {url} ({getattr(cause, 'reason', cause)}): name one by --url, or a data directory "
            "by --data-dir"
        ) from cause


def _query(extent: "Extent | None") -> str:
    if extent is None:
        return ""
    asked = {"sentences": extent.sentences, "words": extent.words, "threshold": f"{extent.threshold:.9f}"}
    return urlencode({"view": "short"} | {name: one for name, one in asked.items() if one is not None})


def _reason(refusal: urllib.error.HTTPError) -> str:
    text = refusal.read(2000).decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text or refusal.reason


def _from_data_dir(
    entity: str, data_dir: Path, extent: "Extent | None", settings: Settings
) -> list[dict[str, Any]]:
    """One view, or several if producers put the entity's events into several partitions; `as_of` says how old it is."""
    from dataclasses import asdict

    from worker.operations.copies import refuse_elsewhere, stored_copies

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
    show_facts((name.replace("_", " "), value) for name, value in view.items() if name != "sentences")
    rows = ({**one, "distance": f"{one['distance']:.6f}"} for one in view["sentences"])
    show_table(tuple(columns.values()), [[row[field] for field in columns] for row in rows])
