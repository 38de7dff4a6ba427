"""`inspect`: one entity as a worker knows it, from its web server or from its data directory."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from worker.cli import output
from worker.errors import SurroundingsError
from worker.settings import Settings

UNKNOWN = 1
TIMEOUT_SECONDS = 30
HISTORY = 20
"""Changes that are shown unless the command says another number."""
HISTORY_COLUMNS = (
    "sequence",
    "published",
    "cause",
    "review",
    "added",
    "removed",
    "shown",
    "sentences",
    "reviews",
)
COLUMNS = {
    "rank": "rank",
    "sentence": "sentence_id",
    "text": "text",
    "rating": "rating",
    "distance": "distance",
    "support": "support",
}


@click.command("inspect", short_help="An entity's summary; its reviews or its history.")
@click.argument("entity")
@click.option("--url", help="Of any running worker; without it, the settings' web address on this machine.")
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
    flag_value=HISTORY,
    metavar="[N]",
    help=f"The last N ({HISTORY}) changes that were published of it, the newest last, from the output topic.",
)
@output.json_option
def command(
    entity: str, url: str | None, data_dir: Path | None, reviews: bool, history: int | None, as_json: bool
) -> int:
    """The entity's summary, counts and last offsets; from a data directory its reservoir too. Or its reviews, or its history.

    Exit code 1 where the entity is unknown.
    """
    try:
        entity.encode()
    except UnicodeEncodeError:
        raise click.UsageError("ENTITY is not UTF-8.") from None
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    if reviews and history is not None:
        raise click.UsageError("--reviews and --history exclude each other.")
    if (reviews and url is not None) or (history is not None and (url or data_dir) is not None):
        raise click.UsageError(
            "--reviews needs a data directory, --history the output topic: leave --url out."
        )
    if reviews:
        shown = _show_reviews(entity, data_dir or Settings.from_environment().data_dir, as_json)
    elif history is not None:
        shown = _show_history(entity, history, as_json)
    else:
        shown = _show_views(entity, url, data_dir, as_json)
    if not shown:
        missing = f"nothing published of {entity!r}" if history is not None else f"no entity {entity!r}"
        output.note(f"coversumm-worker: error: there is {missing}")
        return UNKNOWN
    return 0


def _show_views(entity: str, url: str | None, data_dir: Path | None, as_json: bool) -> bool:
    if data_dir is not None:
        found = _from_data_dir(entity, data_dir)
    else:
        found = _from_worker(entity, url or _local_url(Settings.from_environment()))
    for view in found:
        if as_json:
            output.print_json(view)
        else:
            _show(view)
    return bool(found)


def _show_reviews(entity: str, data_dir: Path, as_json: bool) -> bool:
    from dataclasses import asdict

    from worker.operations.reviews import stored_reviews
    from worker.storage.snapshot import some_databases, stored_partition

    found = []
    for number, path in some_databases(data_dir).items():
        with stored_partition(number, path) as part:
            found += [] if part is None else stored_reviews(part, entity)
    if as_json:
        for review in found:
            output.print_json(asdict(review))
    elif found:
        from rich.table import Table

        table = Table("review", "version", "status", "rating", "sentences")
        for review in found:
            status = "deleted" if review.deleted else "live"
            cells = (review.review_id, review.version, status, review.rating, len(review.sentences))
            table.add_row(*map(output.cell, cells))
        output.console().print(table)
    return bool(found)


def _show_history(entity: str, limit: int, as_json: bool) -> bool:
    from dataclasses import asdict

    from worker.operations.history import published_changes

    changes = published_changes(Settings.from_environment(), entity, limit)
    if as_json:
        for change in changes:
            output.print_json(asdict(change))
    elif changes:
        from rich.table import Table

        table = Table()
        for name in HISTORY_COLUMNS:
            table.add_column(name, overflow="fold")
        for change in changes:
            cause = change.cause or {"type": "entity deleted", "review_id": None}
            cells = (
                change.sequence,
                change.published_at,
                cause["type"],
                cause["review_id"],
                "\n".join(f"+ {one}" for one in change.added),
                "\n".join(f"- {one}" for one in change.removed),
                change.sentences,
                change.sentence_count,
                change.review_count,
            )
            table.add_row(*("\n".join(map(output.cell, str(cell).split("\n"))) for cell in cells))
        output.console().print(table)
    if any(change.incomplete for change in changes):
        output.note("changes before or between these were compacted away")
    return bool(changes)


def _local_url(settings: Settings) -> str:
    host = settings.web_bind if settings.web_bind not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    return f"http://{host}:{settings.web_port}"


def _from_worker(entity: str, url: str) -> list[dict[str, Any]]:
    """Follows the redirect to the worker that owns the entity."""
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {url!r} is no URL like http://127.0.0.1:8080.")
    address = f"{url.rstrip('/')}/entities/{quote(entity, safe='')}/summary"
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


def _reason(refusal: urllib.error.HTTPError) -> str:
    text = refusal.read(2000).decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text or refusal.reason


def _from_data_dir(entity: str, data_dir: Path) -> list[dict[str, Any]]:
    """One view, or several if producers put the entity's events into several partitions."""
    from dataclasses import asdict, replace

    from worker.state import read_view
    from worker.storage.snapshot import some_databases, stored_partition

    views = []
    for number, path in some_databases(data_dir).items():
        with stored_partition(number, path) as part:
            if part is None:
                continue
            view = read_view(part.rows, entity, dimension=part.dimension, k=part.k, distinct=part.distinct)
            if view is not None:
                view = replace(
                    view,
                    partition=part.number,
                    next_offset=part.next_offset,
                    reservoir=_reservoir_size(part, entity, view.incarnation),
                )
                views.append(asdict(view))
    return views


def _reservoir_size(part: Any, entity: str, incarnation: int) -> int:
    """Distinct sentences in the reservoir that a worker makes when it first touches the entity."""
    from worker.coversumm import CoverSumm, FlatIndex
    from worker.state.entity import EntityRows

    rows = EntityRows(part.rows, entity.encode(), incarnation, part.dimension)
    core = CoverSumm.load(
        part.k, part.dimension, FlatIndex(part.dimension, rows.blocks), distinct=part.distinct
    )
    return core.reservoir_size


def _show(view: dict[str, Any]) -> None:
    from rich.table import Table

    console = output.console()
    facts = [(name, value) for name, value in view.items() if name != "sentences"]
    about = Table(show_header=False, box=None)
    for name, value in facts:
        about.add_row(name.replace("_", " "), output.cell(value))
    console.print(about)
    table = Table(*COLUMNS)
    for one in view["sentences"]:
        shown = {**one, "distance": f"{one['distance']:.6f}"}
        table.add_row(*(output.cell(shown[name]) for name in COLUMNS.values()))
    console.print(table)
