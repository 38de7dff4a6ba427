"""The vectors of a worker's state into the vector store: `vectors import`.

Only what the engine made counts, by the flag of each review. The state says which model made it,
but not on which type of machine: that is found out, by embedding a random sample of its texts
again. One vector of other bits, and nothing is taken.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.errors import SetupError
from worker.processing.config import NO_MODEL
from worker.state.keys import review_of
from worker.state.view import Snapshot, read_snapshots
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition
from worker.text.engine import EmbeddingEngine

SAMPLE = 64
"""Texts that are embedded again."""
AT_ONCE = 1000
"""Texts that are looked up and written together."""
Pair = tuple[str, NDArray[np.int16]]


class Target(Protocol):
    """Where vectors go; see `worker.storage.vectors.StoredVectors`."""

    def read(self, texts: list[str]) -> dict[str, NDArray[np.int16]]:
        """Those that are there already."""

    def write(self, vectors: dict[str, NDArray[np.int16]]) -> None:
        """Keep these."""


@dataclass(slots=True)
class Imported:
    """What came of a state, in sentences."""

    partitions: int = 0
    sentences: int = 0
    """Live ones whose vectors the engine made; a text may be that of several."""
    sampled: int = 0
    """Embedded again, and found to be the same."""
    added: int = 0
    """Vectors that were not there, one for each text."""
    known: int = 0
    """Texts that had one already, or came up before."""


@contextmanager
def partitions(data_dir: Path) -> Iterator[list[StoredPartition]]:
    """The partitions of a data directory that have rows, each as of one moment: what is checked is
    what is taken.

    Raises SetupError where there is no state, StateError.
    """
    with ExitStack() as views:
        found = [
            views.enter_context(stored_partition(number, path))
            for number, path in some_databases(data_dir).items()
        ]
        yield [part for part in found if part is not None]


@dataclass(slots=True)
class VectorImport:
    """One import from the partitions of a data directory. `engine` is the one that the target is
    for.
    """

    data_dir: Path
    parts: list[StoredPartition]
    engine: EmbeddingEngine
    target: Target
    outcome: Imported = field(default_factory=Imported)

    def check(self, chance: random.Random) -> None:
        """Count the sentences, compare with what is in the target, and embed a sample again.

        Raises:
            SetupError: it is another engine's or another type of machine's state, or one in
            the middle of a commit.
        """
        self.outcome.partitions = len(self.parts)
        for part in self.parts:
            self._refuse_other_model(part)
        sample: list[Pair] = []
        for block in self._blocks():
            self._known(block)
            for number, pair in enumerate(block, self.outcome.sentences):
                if number < SAMPLE:
                    sample.append(pair)
                elif (at := chance.randrange(number + 1)) < SAMPLE:
                    sample[at] = pair
            self.outcome.sentences += len(block)
        self._embed_again(sample)

    def run(self, on_progress: Callable[[int], None]) -> None:
        """Take everything; `on_progress` is told how many sentences are done.

        Interrupted, it has taken a part, and takes the rest when it is run again.

        Raises:
            SetupError: the target cannot be written, or one text has two vectors in the
            state.
        """
        outcome = self.outcome
        for block in self._blocks():
            known = self._known(block)
            new = {text: vector for text, vector in block if text not in known}
            if new:
                self.target.write(new)
            outcome.added += len(new)
            outcome.known += len(block) - len(new)
            on_progress(outcome.added + outcome.known)

    def _known(self, block: list[Pair]) -> dict[str, NDArray[np.int16]]:
        """Those of these texts that the target has. Raises SetupError where one text has two
        vectors, here or there.
        """
        known = self.target.read([text for text, _ in block])
        seen = dict(known)
        for text, vector in block:
            if not np.array_equal(seen.setdefault(text, vector), vector):
                raise SetupError(
                    f"a text from {self.data_dir} has two vectors, there or there and in the vector store: they were made on "
                    "several types of machine; nothing more was imported. Import what this type of machine made"
                )
        return known

    def _embed_again(self, sample: list[Pair]) -> None:
        if not sample:
            return
        vectors, _ = quantize_rows(self.engine.embed([text for text, _ in sample]))
        stored = np.array([vector for _, vector in sample])
        if other := int((vectors != stored).any(axis=1).sum()):
            raise SetupError(
                f"{other} of {len(sample)} texts from {self.data_dir}, embedded again, have other vectors here: that state was "
                "made on another type of machine, or with other versions of the engine's packages; nothing was imported. Import "
                "it where it was made"
            )
        self.outcome.sampled = len(sample)

    def _blocks(self) -> Iterator[list[Pair]]:
        """`_pairs`, so many at once."""
        pairs = self._pairs()
        while block := list(islice(pairs, AT_ONCE)):
            yield block

    def _pairs(self) -> Iterator[Pair]:
        """Text and vector of every live sentence whose vector the engine made."""
        for part in self.parts:
            for snapshot in read_snapshots(part.rows, part.dimension):
                self._refuse_torn(part, snapshot)
                yield from engines_own(snapshot)

    def _refuse_torn(self, part: StoredPartition, snapshot: Snapshot) -> None:
        """A copy that follows its owner may have some rows of a commit: a new text beside an old
        vector.
        """
        if snapshot.published is not None and snapshot.published.sequence >= part.next_offset:
            raise SetupError(
                f"partition {part.number} in {self.data_dir} is a copy that stands in the middle of a commit; nothing more was "
                "imported: name the directory of the worker that owned it"
            )

    def _refuse_other_model(self, part: StoredPartition) -> None:
        if (part.model, part.dimension) != (self.engine.model, self.engine.dimension):
            made_by = "events that brought them" if part.model == NO_MODEL else part.model
            raise SetupError(
                f"the vectors in {self.data_dir} are of {made_by} with {part.dimension} dimensions, and COVERSUMM_EMBEDDER is "
                f"{self.engine.model} with {self.engine.dimension}: set it to the embedder of that state"
            )


def engines_own(snapshot: Snapshot) -> Iterator[Pair]:
    """Text and vector of an entity's live sentences whose vectors are the engine's own.

    Reviews of which there are more texts than vectors, or fewer, are left out: a copy that follows
    its owner may be between two rows of one commit.
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
