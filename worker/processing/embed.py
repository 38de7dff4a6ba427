"""Embedding: the distinct new texts of a whole micro-batch, in one call of the engine or in parts
of a few seconds each.

A text whose vector is in the store is not new: it is looked up when its record is planned, so that
it counts for nothing where a micro-batch is cut by how long embedding will take.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.events import Reason, Rejected
from worker.processing.pace import Pace
from worker.processing.plan import BatchPlan
from worker.text.engine import EmbeddingEngine


class VectorStore(Protocol):
    """Quantized vectors by exact text, of one engine. It may forget any of them at any time, and
    never gives another's.

    Nothing is raised: where it does not work it has no vectors, and takes none.
    """

    def find(self, texts: Sequence[str]) -> dict[str, NDArray[np.int16]]:
        """The vectors (dimension,) of those texts that have one here."""

    def add(self, vectors: Mapping[str, NDArray[np.int16]]) -> None:
        """Keep these, which the engine has just made."""

    @property
    def disk_bytes(self) -> int:
        """What it takes on disk, as it was a short while ago."""


@dataclass(slots=True)
class Embedder:
    """The vectors of one micro-batch's texts; None for a text the engine has no usable
    vector for.
    """

    engine: EmbeddingEngine | None
    pace: Pace
    store: VectorStore | None = None
    vectors: dict[str, NDArray[np.int16] | None] = field(default_factory=dict)
    given: int = 0
    """Texts that the engine was given."""
    found: int = 0
    """Texts whose vectors the store had."""
    seconds: float = 0.0
    _not_stored: set[str] = field(default_factory=set)

    def missing(self, texts: Sequence[str]) -> Sequence[str]:
        """Those of the texts that the engine has still to be given."""
        missing = [text for text in texts if text not in self.vectors]
        if self.store is None:
            return missing
        if asked := [text for text in missing if text not in self._not_stored]:
            found = self.store.find(asked)
            self.vectors |= found
            self.found += len(found)
            self._not_stored |= set(asked) - found.keys()
        return [text for text in missing if text not in self.vectors]

    def fill_in(self, plan: BatchPlan) -> dict[int, Rejected]:
        """Give every planned sentence its vector; records for which that cannot be, by index."""
        texts = [text for text in plan.unembedded if text not in self.vectors]
        if texts:
            self.vectors |= self._embed(texts)
        rejected: dict[int, Rejected] = {}
        for text, sentences in plan.unembedded.items():
            vector = self.vectors[text]
            for index, sentence in sentences:
                if vector is None:
                    rejected[index] = self._refusal(sentence.id)
                sentence.vector = vector
        return rejected

    def _embed(self, texts: list[str]) -> dict[str, NDArray[np.int16] | None]:
        self.given += len(texts)
        if self.engine is None:
            return dict.fromkeys(texts)
        made: dict[str, NDArray[np.int16] | None] = {}
        for part in self.pace.parts(texts):
            started = self.pace.clock.monotonic()
            vectors, invalid = quantize_rows(self.engine.embed(part))
            seconds = self.pace.clock.monotonic() - started
            self.pace.embedded(part, seconds)
            self.seconds += seconds
            new = dict(zip(part, vectors, strict=True))
            bad = {text for text, is_bad in zip(part, invalid.tolist(), strict=True) if is_bad}
            made |= new | dict.fromkeys(bad)
            if self.store is not None:
                self.store.add({text: vector for text, vector in new.items() if text not in bad})
        return made

    def _refusal(self, sentence_id: bytes) -> Rejected:
        name = sentence_id.decode()
        if self.engine is None:
            return Rejected(
                Reason.NO_EMBEDDING, f"sentence {name}: no embedding, and this worker has no engine"
            )
        return Rejected(
            Reason.BAD_VECTOR, f"sentence {name}: the engine's vector is zero or not finite"
        )
