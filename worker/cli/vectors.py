"""`vectors`: what the vector store holds, and the vectors of a worker's state into it."""

import random
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command, CommandGroup
from worker.cli.tables import Column, show_table
from worker.errors import SetupError
from worker.settings import Settings
from worker.settings.kinds import show_size
from worker.text import embedders
from worker.text.engine import EngineError

if TYPE_CHECKING:
    from worker.tools.vectors import VectorImport


def store_settings() -> tuple[Settings, Path]:
    """The settings, and the store's folder. Raises SetupError where none is set."""
    settings = Settings.from_environment()
    if settings.vector_store_dir is None:
        raise SetupError(
            "COVERSUMM_VECTOR_STORE_DIR is not set: set it to the folder of the vector store"
        )
    return settings, settings.vector_store_dir


@click.command(
    "import",
    cls=Command,
    short_help="The vectors of a worker's state, into the store.",
    examples=[
        (
            "COVERSUMM_VECTOR_STORE_DIR=/var/lib/vectors coversumm-worker vectors import /var/lib/coversumm",
            "before the first replay: what the live worker embedded is not embedded again",
        ),
    ],
)
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@output.json_option
def import_vectors(data_dir: Path, as_json: bool) -> None:
    """Fill the vector store from the data directory of a worker, stopped or running, or a copy of
    one.

    It must have been made by the same model, on this type of machine: a random sample of its texts
    is embedded again, and nothing is taken where one vector differs in a bit. Vectors that events
    brought are left out. Whatever is there already stays, so it may be interrupted and run again.
    """
    settings, folder = store_settings()
    from worker.storage.vectors import StoredVectors
    from worker.text.identity import engine_identity
    from worker.tools.vectors import VectorImport, partitions

    engine = embedders.load_engine(
        settings.embedder, threads=settings.embedder_threads, cache_dir=settings.model_cache_dir
    )
    if engine is None:
        raise EngineError("COVERSUMM_EMBEDDER is none: set it to the embedder that made the state")
    identity = engine_identity(settings.embedder, engine)
    output.note(
        f"{data_dir} must have been made on this type of machine: {identity.machine}; {identity.software}"
    )
    with (
        partitions(data_dir) as parts,
        closing(StoredVectors(folder, settings.vector_store_bytes, identity)) as store,
    ):
        if not store.is_writer:
            raise SetupError(
                f"COVERSUMM_VECTOR_STORE_DIR={folder} is being written by another process: stop it first, or wait for its end"
            )
        _Import(VectorImport(data_dir, parts, engine, store)).run(as_json)


class _Import:
    """An import that tells how far it is and what it came to."""

    def __init__(self, work: "VectorImport") -> None:
        self._work = work
        self._started = time.monotonic()

    def run(self, as_json: bool) -> None:
        outcome = self._work.outcome
        try:
            self._work.check(random.SystemRandom())
            with output.file_progress(outcome.sentences, "sentences") as progress:
                self._work.run(lambda done: progress.update(done, done))
        except KeyboardInterrupt:
            output.note(
                f"interrupted: {outcome.added:,} vectors were added; run it again for the others"
            )
            raise
        seconds = time.monotonic() - self._started
        if as_json:
            output.print_json({**asdict(outcome), "seconds": round(seconds, 3)})
            return
        output.console().print(
            f"{output.many(outcome.added, 'vectors')} added, {outcome.known:,} known before, of "
            f"{output.many(outcome.sentences, 'sentences')} in {output.many(outcome.partitions, 'partitions')}; "
            f"{outcome.sampled} embedded again and equal; {seconds:.1f} s"
        )


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
    examples=[
        ("coversumm-worker vectors info --json | jq .engines", "all that is known of the engines")
    ],
)
@output.json_option
def info(as_json: bool) -> None:
    """The vectors that the vector store holds, by the engine and type of machine that made them.
    Whoever writes it goes on.
    """
    settings, folder = store_settings()
    from worker.storage.vectors import DATABASE, contents, disk_bytes

    engines = [
        {
            **{
                name: one.engine.get(name) for name in ("model", "dimension", "machine", "software")
            },
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


@click.group(
    "vectors",
    cls=CommandGroup,
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
