"""The reference engine: the sentence-transformers library with any of its models; an extra with
torch.

Sentences run one at a time, on one thread. Torch chooses kernels by the shape of a batch (on Intel
processors even for sentences of one length) and splits sums by threads, so in a batch a sentence
would have other bits than alone.
"""

import hashlib
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.extras import install_command
from worker.text.engine import EngineError, first_line, most_tokens, well_formed

_INSTALL = (
    "install PyTorch's CPU build first (https://pytorch.org/get-started/locally/; PyPI's brings "
    f"6 GB of CUDA on Linux), then: {install_command('sentence-transformers')}"
)


_SPECIAL = 4  # at least as many as a tokenizer adds to a text


class SentenceTransformersEngine:
    """One loaded SentenceTransformer on the CPU."""

    libraries = ("numpy", "sentence-transformers", "tokenizers", "torch", "transformers")

    def __init__(self, name_or_folder: str, cache_dir: Path | None = None) -> None:
        try:
            torch = importlib.import_module("torch")
            library = importlib.import_module("sentence_transformers")
        except (ImportError, OSError, ValueError) as error:
            raise EngineError(
                f"the sentence-transformers engine cannot be imported ({first_line(error)}): "
                f"{_INSTALL}"
            ) from error
        torch.set_num_threads(1)
        try:
            self._encoder = library.SentenceTransformer(
                name_or_folder, device="cpu", cache_folder=str(cache_dir) if cache_dir else None
            )
        # any error of the library: a wrong name, no network, a broken file
        except Exception as error:
            raise EngineError(
                f"sentence-transformers cannot load {name_or_folder!r}: {first_line(error)}; "
                "check the name or folder"
            ) from error
        weights = _weights_hash(self._encoder, torch.uint8)
        self.model = f"{Path(name_or_folder).resolve().name}@{weights[:12]}"
        self.dimension = int(self._encoder.encode(["dimension"]).shape[1])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._encoder.encode([well_formed(text)], batch_size=1)[0]
        return vectors

    def reads_all(self, text: str) -> bool:
        """True if the text has at most the model's number of tokens."""
        longest = self._encoder.max_seq_length
        prepared = well_formed(text).strip()
        if longest is None or most_tokens(prepared) + _SPECIAL <= longest:
            return True
        tokens = self._encoder.tokenizer(prepared, truncation=False, verbose=False)
        return int(longest) >= len(tokens["input_ids"])


def _weights_hash(encoder: Any, byte: Any) -> str:
    """SHA-256 over every tensor of the model and its text length limit."""
    total = hashlib.sha256(str(encoder.max_seq_length).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        total.update(
            name.encode() + b"\0" + tensor.contiguous().flatten().view(byte).numpy().tobytes()
        )
    return total.hexdigest()
