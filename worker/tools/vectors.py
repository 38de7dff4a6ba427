"""`vectors import`: vectors of files of `embed`, or of a worker's state, into the vector store.

A file names its engine. A state names the model only, not the type of machine, and has vectors that
events brought, which are left out. A random sample of the texts is embedded again; if one vector
differs in a bit, nothing is imported.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.errors import SetupError
from worker.events.publishing import SUMMARIES
from worker.processing.config import NO_MODEL
from worker.sources.vector_file import VectorFile
from worker.state.keys import review_of
from worker.state.snapshot import Snapshot, read_snapshots
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition
from worker.text.engine import EmbeddingEngine
from worker.text.identity import EngineIdentity

SAMPLE = 64
"""Texts that are embedded again."""
BLOCK = 1000
"""Texts that are looked up and written together."""
Pair = tuple[str, NDArray[np.int16]]


class VectorSource(Protocol):
    """Texts with their vectors."""

    @property
    def name(self) -> str:
        """For messages."""

    def check(self, engine: EngineIdentity) -> None:
        """Raise SetupError if another engine made the vectors, as far as the source knows."""

    def pairs(self) -> Iterator[Pair]:
        """Text and vector; a text may come several times. Raises SetupError."""


class Target(Protocol):
    """A store of vectors by text, as `worker.storage.vectors.StoredVectors`."""

    def read(self, texts: list[str]) -> dict[str, NDArray[np.int16]]:
        """The stored vectors of these texts."""

    def write(self, vectors: dict[str, NDArray[np.int16]]) -> None:
        """Store vectors by text."""


@dataclass(slots=True)
class Imported:
    """Counts of an import.

    Attributes:
        files: those of `embed`.
        partitions: those of states.
        sentences: of states live ones whose vectors the engine made, of files texts; several may
            have one text.
        sampled: texts that were embedded again, with the same vectors.
        added: new vectors, one for each text.
        known: texts whose vector was stored already.
    """

    files: int = 0
    partitions: int = 0
    sentences: int = 0
    sampled: int = 0
    added: int = 0
    known: int = 0


@dataclass(slots=True)
class StoredState:
    """The vectors in a worker's data directory; `parts` are its partitions that have rows."""

    data_dir: Path
    parts: list[StoredPartition]

    @property
    def name(self) -> str:
        """See `VectorSource`."""
        return str(self.data_dir)

    def check(self, engine: EngineIdentity) -> None:
        """See `VectorSource`."""
        for part in self.parts:
            if (part.model, part.dimension) != (engine.model, engine.dimension):
                model = "events that brought them" if part.model == NO_MODEL else part.model
                raise SetupError(
                    f"the vectors in {self.data_dir} are of {model} with {part.dimension} "
                    f"dimensions, and COVERSUMM_EMBEDDER is {engine.model} with "
                    f"{engine.dimension}: set it to the embedder of that state"
                )

    def pairs(self) -> Iterator[Pair]:
        """See `VectorSource`. Raises SetupError for a copy in the middle of a commit."""
        for part in self.parts:
            for snapshot in read_snapshots(part.rows, part.dimension):
                self._refuse_torn(part, snapshot)
                yield from engines_own(snapshot)

    def _refuse_torn(self, part: StoredPartition, snapshot: Snapshot) -> None:
        """A standby's copy may have some rows of a commit: a new text beside an old vector."""
        published = snapshot.published.get(SUMMARIES)
        if published is not None and published.sequence >= part.next_offset:
            raise SetupError(
                f"partition {part.number} in {self.data_dir} is a copy in the middle of a commit; "
                "nothing more was imported: name the directory of the worker that owned it"
            )


@contextmanager
def stored_state(data_dir: Path) -> Iterator[StoredState]:
    """Snapshots of the partitions that have rows, so that the checked rows are imported.

    Raises SetupError if there is no state, and StateError.
    """
    with ExitStack() as views:
        found = [
            views.enter_context(stored_partition(number, path))
            for number, path in some_databases(data_dir).items()
        ]
        yield StoredState(data_dir, [part for part in found if part is not None])


@dataclass(slots=True)
class EmbeddedFile:
    """The vectors in a file of `embed`."""

    file: VectorFile

    @property
    def name(self) -> str:
        """See `VectorSource`."""
        return str(self.file.path)

    def check(self, engine: EngineIdentity) -> None:
        """See `VectorSource`."""
        made_by = self.file.about.get("plan", {}).get("engine")
        if made_by is None:
            raise SetupError(f"{self.name} is not complete: run its `embed` command again")
        if (found := engine.difference(made_by)) is not None:
            fact, how = found
            raise SetupError(
                f"the vectors in {self.name} are of another engine than the one here: {how}; "
                f"nothing was imported. {ADVICE.get(fact, ADVICE_OTHERWISE)}"
            )

    def pairs(self) -> Iterator[Pair]:
        """See `VectorSource`."""
        for block in self.file.blocks():
            yield from zip(block.texts, block.vectors, strict=True)


ADVICE = {
    "model": "Set COVERSUMM_EMBEDDER and COVERSUMM_EMBEDDER_PRECISION as `embed` had them, or "
    "run `embed` as they are here",
    "software": "Install the same versions where `embed` runs, as one image has them",
}
ADVICE_OTHERWISE = "Run `embed` on the type of machine that the workers run on"


@dataclass(slots=True)
class VectorImport:
    """An import from any number of sources into the store of `engine`."""

    sources: Sequence[VectorSource]
    engine: EmbeddingEngine
    identity: EngineIdentity
    target: Target
    outcome: Imported = field(default_factory=Imported)

    def check(self, chance: random.Random) -> None:
        """Count the sentences, compare them with the store, and embed a sample again.

        Raises SetupError if a source is of another engine or type of machine, or is a copy in the
        middle of a commit.
        """
        for source in self.sources:
            source.check(self.identity)
        sample: list[Pair] = []
        for source, block in self._blocks():
            self._known(source, block)
            for number, pair in enumerate(block, self.outcome.sentences):
                if number < SAMPLE:
                    sample.append(pair)
                elif (at := chance.randrange(number + 1)) < SAMPLE:
                    sample[at] = pair
            self.outcome.sentences += len(block)
        self._embed_again(sample)

    def run(self, on_progress: Callable[[int], None]) -> None:
        """Import everything; calls `on_progress` with the number of sentences that are done.

        Run it again after an interruption to import the rest. Raises SetupError if the store cannot
        be written, or a text has two vectors.
        """
        outcome = self.outcome
        for source, block in self._blocks():
            known = self._known(source, block)
            new = {text: vector for text, vector in block if text not in known}
            if new:
                self.target.write(new)
            outcome.added += len(new)
            outcome.known += len(block) - len(new)
            on_progress(outcome.added + outcome.known)

    def _known(self, source: VectorSource, block: list[Pair]) -> dict[str, NDArray[np.int16]]:
        """The stored vectors of these texts. Raises SetupError if a text has two vectors."""
        known = self.target.read([text for text, _ in block])
        seen = dict(known)
        for text, vector in block:
            if not np.array_equal(seen.setdefault(text, vector), vector):
                raise SetupError(
                    f"a text from {source.name} has two vectors, there or there and in the "
                    "vector store: they were made on several types of machine; nothing more was "
                    "imported. Import a state that this type of machine made"
                )
        return known

    def _embed_again(self, sample: list[Pair]) -> None:
        if not sample:
            return
        vectors, _ = quantize_rows(self.engine.embed([text for text, _ in sample]))
        stored = np.array([vector for _, vector in sample])
        if other := int((vectors != stored).any(axis=1).sum()):
            names = ", ".join(source.name for source in self.sources)
            raise SetupError(
                f"{other} of {len(sample)} texts from {names}, embedded again, have other "
                "vectors here: they were made on another type of machine, or with other versions "
                "of the engine's packages; nothing was imported. Import them where they were made"
            )
        self.outcome.sampled = len(sample)

    def _blocks(self) -> Iterator[tuple[VectorSource, list[Pair]]]:
        for source in self.sources:
            pairs = source.pairs()
            while block := list(islice(pairs, BLOCK)):
                yield source, block


def engines_own(snapshot: Snapshot) -> Iterator[Pair]:
    """Text and vector of an entity's live sentences whose vectors the engine made.

    Leaves out reviews with more or fewer texts than vectors: a standby's copy may be between two
    rows of a commit.
    """
    texts, vectors = Counter(map(review_of, snapshot.texts)), Counter(map(review_of, snapshot.ids))
    own = {
        review_id
        for review_id, review in snapshot.reviews.items()
        if review.embedded and texts[review_id] == vectors[review_id]
    }
    for identifier, vector in zip(snapshot.ids, snapshot.vectors, strict=True):
        if review_of(identifier) in own and (text := snapshot.texts.get(identifier)) is not None:
            yield text, vector
