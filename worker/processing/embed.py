"""Embedding: the distinct new texts of a whole micro-batch in one call of the engine."""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.events import Reason, Rejected
from worker.processing.plan import Plan
from worker.text.engine import EmbeddingEngine


@dataclass(slots=True)
class Embedder:
    """The vectors of one micro-batch's texts; None for a text the engine has no usable vector for."""

    engine: EmbeddingEngine | None
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
        started = time.perf_counter()
        vectors, invalid = quantize_rows(self.engine.embed(texts))
        self.seconds += time.perf_counter() - started
        return {
            text: None if bad else vector
            for text, vector, bad in zip(texts, vectors, invalid.tolist(), strict=True)
        }

    def _refusal(self, sentence_id: bytes) -> Rejected:
        name = sentence_id.decode()
        if self.engine is None:
            return Rejected(
                Reason.NO_EMBEDDING, f"sentence {name}: no embedding, and this worker has no engine"
            )
        return Rejected(Reason.BAD_VECTOR, f"sentence {name}: the engine's vector is zero or not finite")
