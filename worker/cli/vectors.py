"""`vectors`: show the vector store, or fill it from files of `embed` or a worker's state."""

import random
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command, CommandGroup
from worker.cli.tables import PROSE, Column, show_table
from worker.errors import SetupError
from worker.settings import Settings
from worker.settings.kinds import show_size
from worker.text.engine import EngineError

if TYPE_CHECKING:
    from worker.storage.vectors import StoredVectors
    from worker.tools.vectors import VectorImport, VectorSource


def store_settings() -> tuple[Settings, Path]:
    """The settings, and the store's folder. Raises SetupError if it is not set."""
    settings = Settings.from_environment()
    if settings.vector_store_dir is None:
        raise SetupError("COVERSUMM_VECTOR_STORE_DIR is not set: set it to the store's folder")
    return settings, settings.vector_store_dir


@click.command(
    "import",
    cls=Command,
    short_help="Fill the store from files of `embed`, or a worker's state.",
    examples=[
        (
            "COVERSUMM_VECTOR_STORE_DIR=/var/lib/vectors coversumm-worker vectors import "
            "vectors.parquet",
            "what `embed` computed, so that a replay embeds nothing",
        ),
        (
            "COVERSUMM_VECTOR_STORE_DIR=/var/lib/vectors coversumm-worker vectors import "
            "/var/lib/coversumm",
            "what a live worker embedded, before the first replay",
        ),
    ],
)
@click.argument(
    "sources",
    metavar="SOURCE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@output.json_option
def import_vectors(sources: tuple[Path, ...], as_json: bool) -> None:
    """Fill the vector store from files of `embed`, and from data directories of workers, stopped or
    running, or copies of them.

    The same model on the same type of machine must have made the vectors. A file names its engine,
    and one of another engine is refused. A random sample of the texts is embedded again, and
    nothing is imported if one vector differs in a bit. Vectors that events brought are left out.
    Stored vectors stay, so the command may be interrupted and repeated.
    """
    settings, folder = store_settings()
    from worker.processing.config import configured_engine
    from worker.sources.vector_file import VectorFile
    from worker.storage.vectors import StoredVectors
    from worker.text.identity import engine_identity
    from worker.tools.vectors import EmbeddedFile, Imported, VectorImport, stored_state

    engine = configured_engine(settings)
    if engine is None:
        raise EngineError("COVERSUMM_EMBEDDER is none: set it to the embedder of the vectors")
    identity = engine_identity(engine)
    if any(path.is_dir() for path in sources):  # a file says it
        machine = f"{identity.machine}; {identity.software}"
        output.note(f"a state must have been made on this type of machine: {machine}")
    with ExitStack() as opened:
        states = [opened.enter_context(stored_state(path)) for path in sources if path.is_dir()]
        files = [opened.enter_context(VectorFile(path)) for path in sources if not path.is_dir()]
        store = StoredVectors(folder, settings.vector_store_bytes, identity)
        opened.callback(store.close)
        if not store.is_writer:
            raise SetupError(
                f"another process writes COVERSUMM_VECTOR_STORE_DIR={folder}: "
                "stop it, or wait until it ends"
            )
        _check_room(sum(file.rows for file in files), store, settings)
        outcome = Imported(len(files), sum(len(state.parts) for state in states))
        every: list[VectorSource] = [*map(EmbeddedFile, files), *states]
        _import(VectorImport(every, engine, identity, store, outcome), as_json)


def _check_room(vectors: int, store: "StoredVectors", settings: Settings) -> None:
    """Raise SetupError if the store would drop the first of these vectors for the last ones."""
    if vectors > store.capacity:
        needed = -(-vectors * settings.vector_store_bytes // max(1, store.capacity) // 2**30)
        raise SetupError(
            f"COVERSUMM_VECTOR_STORE_BYTES={show_size(settings.vector_store_bytes)} has room for "
            f"{store.capacity:,} vectors, and there are {vectors:,}; nothing was imported: set it "
            f"to {needed}GiB or more, here and for the workers"
        )


def _import(work: "VectorImport", as_json: bool) -> None:
    started, outcome = time.monotonic(), work.outcome
    try:
        work.check(random.SystemRandom())
        with output.file_progress(outcome.sentences, "sentences") as progress:
            work.run(lambda done: progress.update(done, done))
    except KeyboardInterrupt:
        output.note(
            f"interrupted: {outcome.added:,} vectors were added; run it again for the others"
        )
        raise
    seconds = time.monotonic() - started
    if as_json:
        output.print_json({**asdict(outcome), "seconds": round(seconds, 3)})
        return
    places = " and ".join(
        output.many(count, name)
        for count, name in ((outcome.files, "files"), (outcome.partitions, "partitions"))
        if count
    )
    output.console().print(
        f"{output.many(outcome.added, 'vectors')} added, {outcome.known:,} known before, of "
        f"{output.many(outcome.sentences, 'sentences')} in {places}; "
        f"{outcome.sampled} embedded again and equal; {seconds:.1f} s"
    )


COLUMNS = (
    Column("model"),
    Column("dimension", drop=3, right=True),
    Column("vectors", right=True),
    Column("machine", drop=1, prose=24),
    Column("software", drop=2, prose=PROSE),
)


@click.command(
    "info",
    cls=Command,
    short_help="Count the vectors, by engine.",
    examples=[("coversumm-worker vectors info --json | jq .engines", "all facts of the engines")],
)
@output.json_option
def info(as_json: bool) -> None:
    """Count the vectors in the store, by the engine and type of machine that made them. Does not
    disturb the process that writes it.
    """
    settings, folder = store_settings()
    from worker.storage.vectors import DATABASE, contents, disk_bytes

    facts = ("model", "dimension", "machine", "software")
    engines: list[dict[str, Any]] = [
        {fact: one.engine.get(fact) for fact in facts} | {"vectors": one.vectors}
        for one in contents(folder)
    ]
    size, vectors = disk_bytes(folder / DATABASE), sum(one["vectors"] for one in engines)
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
    show_table(COLUMNS, [[one[column.name] for column in COLUMNS] for one in engines])
    limit = show_size(settings.vector_store_bytes)
    output.console().print(
        f"{output.many(vectors, 'vectors')}, {size / 2**20:,.1f} MiB of at most {limit}, "
        f"in {folder}"
    )


@click.group(
    "vectors",
    cls=CommandGroup,
    examples=[
        ("coversumm-worker vectors info", "number of vectors by model"),
        ("coversumm-worker vectors import vectors.parquet", "fill it with what `embed` computed"),
        ("coversumm-worker vectors import /var/lib/coversumm", "fill it from a worker's state"),
    ],
)
def command() -> None:
    """Show or fill the vector store (COVERSUMM_VECTOR_STORE_DIR), which keeps vectors by text."""


for subcommand in (info, import_vectors):
    command.add_command(subcommand)
