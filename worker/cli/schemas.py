"""`schemas`: register the Avro schemas of summaries and facets, before workers write with them."""

from __future__ import annotations

import click

from worker.cli.group import CommandGroup
from worker.errors import SetupError
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show

COLUMNS = Column("subject"), Column("record"), Column("status", prose=PROSE), Column("id")


@click.group(
    "schemas",
    cls=CommandGroup,
    examples=[("schemas register", "at each deployment, before the workers")],
)
def command() -> None:
    """Avro schemas of published messages (COVERSUMM_OUTPUT_FORMAT=avro)."""


@command.command(
    "register",
    short_help="Register the Avro schemas of summaries and facets.",
    examples=[
        ("schemas register", "at each deployment, before the workers"),
        ("schemas register --dry-run", "whether they are compatible"),
    ],
)
@click.option("--dry-run", is_flag=True, help="Change nothing: only check the compatibility.")
@output.json_option
def register(dry_run: bool, as_json: bool) -> int:
    """Register the Avro schemas of this version's summaries, and of its facets if any are defined,
    under TOPIC-value in COVERSUMM_SCHEMA_REGISTRY_URL. Workers with COVERSUMM_OUTPUT_FORMAT=avro
    start only after it. Exit code 1 if the registry refuses one as incompatible.
    """
    from worker.registry.output import COMPATIBLE, register_schemas

    settings = Settings.from_environment()
    if settings.schema_registry_url is None:
        raise SetupError("COVERSUMM_SCHEMA_REGISTRY_URL is not set: it names the registry")
    rows = list(register_schemas(settings, dry_run=dry_run))
    show(rows, COLUMNS, as_json)
    refused = [row for row in rows if row.id is None and row.status != COMPATIBLE]
    return output.CHECK_FAILED if refused else 0
