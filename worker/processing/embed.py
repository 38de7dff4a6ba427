"""Embedding: the distinct new texts of a whole micro-batch, in one call of the engine or in parts of a few seconds each."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.events import Reason, Rejected
from worker.processing.pace import Pace
from worker.processing.plan import Plan
from worker.text.engine import EmbeddingEngine


@dataclass(slots=True)
class Embedder:
    """The vectors of one micro-batch's texts; None for a text the engine has no usable vector for."""

    engine: EmbeddingEngine | None
    pace: Pace
    vectors: dict[str, NDArray[np.int16] | None] = field(default_factory=dict)
    seconds: float = 0.0

    def fill_in(self, plan: Plan) -> dict[int, Rejected]:
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
        if self.engine is None:
            return dict.fromkeys(texts)
        found: dict[str, NDArray[np.int16] | None] = {}
        for part in self.pace.parts(texts):
            started = self.pace.clock.monotonic()
            vectors, invalid = quantize_rows(self.engine.embed(part))
            seconds = self.pace.clock.monotonic() - started
            self.pace.embedded(part, seconds)
            self.seconds += seconds
            found |= {
                text: None if bad else vector
                for text, vector, bad in zip(part, vectors, invalid.tolist(), strict=True)
            }
        return found

    def _refusal(self, sentence_id: bytes) -> Rejected:
        name = sentence_id.decode()
        if self.engine is None:
            return Rejected(
                Reason.NO_EMBEDDING, f"sentence {name}: no embedding, and this worker has no engine"
            )
        return Rejected(Reason.BAD_VECTOR, f"sentence {name}: the engine's vector is zero or not finite")
