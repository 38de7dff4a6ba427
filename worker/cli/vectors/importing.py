"""`vectors import`: the vectors of a worker's state, into the vector store."""

import random
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.vectors.settings import store_settings
from worker.errors import SurroundingsError
from worker.text import embedders
from worker.text.errors import EngineError

if TYPE_CHECKING:
    from worker.operations.vector_import import VectorImport


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
    """Fill the vector store from the data directory of a worker, stopped or running, or a copy of one.

    It must have been made by the same model, on this type of machine: a random sample of its texts is embedded again, and
    nothing is taken where one vector differs in a bit. Vectors that events brought are left out. Whatever is there already stays,
    so it may be interrupted and run again.
    """
    settings, folder = store_settings()
    from worker.operations.vector_import import VectorImport, partitions
    from worker.storage.vectors import StoredVectors
    from worker.text.identity import engine_identity

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
            raise SurroundingsError(
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
            output.note(f"interrupted: {outcome.added:,} vectors were added; run it again for the others")
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
