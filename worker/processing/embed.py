"""Embeds the distinct new texts of a micro-batch, in one call of the engine or in timed parts.

Planning looks up each text in the store. One with a stored vector is not new, and does not count
when a micro-batch is cut by the expected time of embedding.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.events import Reason, Rejected
from worker.processing.pace import Pace
from worker.state.entity import Sentence
from worker.text.engine import EmbeddingEngine
from worker.text.splitting import split_sentences


def split_text(text: str, language: str) -> list[str]:
    """The sentences of a text, of any length; `language` is empty where it is not known."""
    return split_sentences(text, sys.maxsize, language)


class VectorStore(Protocol):
    """Quantized vectors of one engine by exact text; it may drop any of them at any time.

    It never raises: a store that fails has no vectors and accepts none.
    """

    def find(self, texts: Sequence[str]) -> dict[str, NDArray[np.int16]]:
        """The stored vectors (dimension,) of these texts."""

    def add(self, vectors: Mapping[str, NDArray[np.int16]]) -> None:
        """Store vectors that the engine has just made."""

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk, as of a short while ago."""


@dataclass(slots=True)
class Embedder:
    """The vectors of one micro-batch's texts; None for a text without a usable vector."""

    engine: EmbeddingEngine | None
    pace: Pace
    store: VectorStore | None = None
    vectors: dict[str, NDArray[np.int16] | None] = field(default_factory=dict)
    given: int = 0  # texts passed to the engine
    found: int = 0  # texts found in the store
    seconds: float = 0.0
    split: Callable[[str, str], list[str]] = field(default_factory=lambda: cache(split_text))
    """Splits a text; a micro-batch that is cut, and so planned again, keeps its sentences."""
    _not_stored: set[str] = field(default_factory=set)

    def missing(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts that still need the engine."""
        missing = [text for text in texts if text not in self.vectors]
        if self.store is None:
            return missing
        if asked := [text for text in missing if text not in self._not_stored]:
            found = self.store.find(asked)
            self.vectors |= found
            self.found += len(found)
            self._not_stored |= set(asked) - found.keys()
        return [text for text in missing if text not in self.vectors]

    def fill_in(
        self, unembedded: Mapping[str, Sequence[tuple[int, str, Sentence]]]
    ) -> dict[int, Rejected]:
        """Give every sentence of a plan its vector, see `BatchPlan.unembedded`; returns by index
        the records without one.
        """
        texts = [text for text in unembedded if text not in self.vectors]
        if texts:
            self.vectors |= self._embed(texts)
        rejected: dict[int, Rejected] = {}
        for text, sentences in unembedded.items():
            vector = self.vectors[text]
            for index, place, sentence in sentences:
                if vector is None:
                    refusal = self._refusal(sentence.id).under(place)
                    # the highest, so that the order of the texts does not matter
                    rejected[index] = max(rejected.get(index, refusal), refusal)
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
