"""`vectors info`: how many vectors the store holds, and of which engines."""

from typing import Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import Column, show_table
from worker.cli.vectors.settings import store_settings
from worker.settings.kinds import show_size

COLUMNS = (
    Column("model"),
    Column("dimension", drop=3, right=True),
    Column("vectors", right=True),
    Column("machine", drop=1, prose=True),
    Column("software", drop=2, prose=True),
)


@click.command(
    "info",
    cls=Command,
    short_help="How many vectors there are, of which engines.",
    examples=[("coversumm-worker vectors info --json | jq .engines", "all that is known of the engines")],
)
@output.json_option
def info(as_json: bool) -> None:
    """The vectors that the vector store holds, by the engine and type of machine that made them. Whoever writes it goes on."""
    settings, folder = store_settings()
    from worker.storage.vectors import DATABASE, contents, disk_bytes

    engines = [
        {
            **{name: one.engine.get(name) for name in ("model", "dimension", "machine", "software")},
            "vectors": one.vectors,
        }
        for one in contents(folder)
    ]
    told = {
        "folder": str(folder),
        "bytes": disk_bytes(folder / DATABASE),
        "max_bytes": settings.vector_store_bytes,
        "vectors": sum(int(one["vectors"] or 0) for one in engines),
        "engines": engines,
    }
    if as_json:
        output.print_json(told)
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    show_table(
        COLUMNS,
        [[one[column.name] for column in COLUMNS] for one in told["engines"]],
    )
    output.console().print(
        f"{output.many(told['vectors'], 'vectors')}, {told['bytes'] / 2**20:,.1f} MiB of at most {show_size(told['max_bytes'])}, "
        f"in {told['folder']}"
    )
