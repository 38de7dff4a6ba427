"""What an embedding engine is. See `onnx.py` (the default) and `sentence_transformers.py` (the reference)."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class EmbeddingEngine(Protocol):
    """Sentences to vectors. Replays depend on it: the same sentence has the same bits on every call."""

    @property
    def model(self) -> str:
        """Name of the weights, `NAME@HASH`: written as `embedding_model` and recorded with the state."""

    @property
    def dimension(self) -> int:
        """Components of a vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`; blocks, may be called from any thread."""
