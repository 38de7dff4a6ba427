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
COLUMNS = {
    "rank": "rank",
    "sentence": "sentence_id",
    "text": "text",
    "rating": "rating",
    "distance": "distance",
    "support": "support",
}


@click.command("inspect", short_help="An entity's summary, counts and offsets.")
@click.argument("entity")
@click.option("--url", help="Of any running worker; without it, the settings' web address on this machine.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of a stopped worker, instead of a running one.",
)
@output.json_option
def command(entity: str, url: str | None, data_dir: Path | None, as_json: bool) -> int:
    """The entity's summary, counts and last offsets; of a stopped worker its reservoir too.

    Exit code 1 where the entity is unknown.
    """
    try:
        entity.encode()
    except UnicodeEncodeError:
        raise click.UsageError("ENTITY is not UTF-8.") from None
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    if data_dir is not None:
        found = _from_data_dir(entity, data_dir)
    else:
        found = _from_worker(entity, url or _local_url(Settings.from_environment()))
    if not found:
        output.note(f"coversumm-worker: error: there is no entity {entity!r}")
        return UNKNOWN
    for view in found:
        if as_json:
            output.print_json(view)
        else:
            _show(view)
    return 0


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
            f"no worker answers at {url} ({getattr(cause, 'reason', cause)}): name one by --url, or a stopped one by --data-dir"
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

    from worker.cli.stored import stored_partitions
    from worker.state import read_view

    views = []
    with stored_partitions(data_dir) as partitions:
        for part in partitions:
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
