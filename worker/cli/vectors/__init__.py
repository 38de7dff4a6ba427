"""`vectors`: what the vector store holds, and the vectors of a worker's state into it."""

import click

from worker.cli.command import Group
from worker.cli.vectors.importing import import_vectors
from worker.cli.vectors.info import info


@click.group(
    "vectors",
    cls=Group,
    short_help="Vectors that are kept by text: what there are, and import them from a state.",
    examples=[
        ("coversumm-worker vectors info", "how many, of which models"),
        ("coversumm-worker vectors import /var/lib/coversumm", "those of a worker's state"),
    ],
)
def command() -> None:
    """The vector store (COVERSUMM_VECTOR_STORE_DIR): vectors by text, which nobody makes twice."""


for subcommand in (info, import_vectors):
    command.add_command(subcommand)
