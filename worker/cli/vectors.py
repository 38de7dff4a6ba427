"""`vectors`: show what the vector store has."""

from typing import Any

import click

from worker.cli.group import CommandGroup
from worker.errors import SetupError
from worker.settings import Settings
from worker.settings.kinds import show_size
from worker.view import output
from worker.view.tables import PROSE, Column, show_table

COLUMNS = (
    Column("model"),
    Column("dimension", drop=3, right=True),
    Column("vectors", right=True),
    Column("machine", drop=1, prose=24),
    Column("software", drop=2, prose=PROSE),
)


@click.group("vectors", cls=CommandGroup, examples=[("vectors info", "number of vectors by model")])
def command() -> None:
    """Show the vector store (COVERSUMM_VECTOR_STORE_DIR), which keeps vectors by text."""


@command.command(
    "info",
    short_help="Count the vectors, by engine.",
    examples=[("vectors info --json | jq .engines", "all facts of the engines")],
)
@output.json_option
def info(as_json: bool) -> None:
    """Count the vectors in the store, by the engine and type of machine that made them. Does not
    disturb the process that writes it.
    """
    settings = Settings.from_environment()
    if (folder := settings.vector_store_dir) is None:
        raise SetupError("COVERSUMM_VECTOR_STORE_DIR is not set: set it to the store's folder")
    from worker.storage.vectors import DATABASE, contents, disk_bytes

    facts = ("model", "dimension", "machine", "software")
    engines: list[dict[str, Any]] = [
        {fact: content.engine.get(fact) for fact in facts} | {"vectors": content.vectors}
        for content in contents(folder)
    ]
    size, vectors = disk_bytes(folder / DATABASE), sum(engine["vectors"] for engine in engines)
    if as_json:
        output.print_json(
            {
                "folder": str(folder),
                "bytes": size,
                "max_bytes": settings.vector_store_bytes,
                "vectors": vectors,
                "engines": engines,
            }
        )
        return
    show_table(COLUMNS, [[engine[column.name] for column in COLUMNS] for engine in engines])
    limit = show_size(settings.vector_store_bytes)
    output.console().print(
        f"{output.many(vectors, 'vectors')}, {size / 2**20:,.1f} MiB of at most {limit}, "
        f"in {folder}"
    )
