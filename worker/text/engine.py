"""What an embedding engine is. See `onnx.py` (the default) and `sentence_transformers.py` (the
reference).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from worker.errors import SetupError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EmbeddingEngine(Protocol):
    """Sentences to vectors. Replays depend on it: the same sentence has the same bits on every
    call.
    """

    @property
    def model(self) -> str:
        """Name of the weights, `NAME@HASH`: written as `embedding_model` and recorded with the
        state.
        """

    @property
    def dimension(self) -> int:
        """Components of a vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`; blocks, may be called from any thread."""


def first_line(error: BaseException) -> str:
    """What a library's error says in its first line, or its kind where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


class EngineError(SetupError):
    """The embedding engine cannot be used. The message is one line: what is wrong, and what to do
    about it.
    """


TOKEN_BUDGET = 512
"""Tokens of a batch, padding included: beyond it nothing gets faster, and memory grows."""
LEAST_TOKENS = 32
"""There is a batch for each thread if they have so many tokens each, on average: products of fewer
rows are slow.
"""


def well_formed(text: str) -> str:
    """`text` with "?" for lone surrogates, which are no UTF-8: tokenizers raise on them."""
    return text.encode("utf-8", "replace").decode()


def padded(count: int, step: int, longest: int) -> int:
    """To how many tokens a sentence of `count` tokens is padded: a multiple of `step`, and never
    beyond `longest`.
    """
    return min(longest, -(-max(count, 1) // step) * step)


def of_one_length(tokens: Sequence[int], step: int, longest: int) -> list[list[int]]:
    """Sentences of `tokens[i]` tokens in batches of one padded length, of at most TOKEN_BUDGET
    tokens (or one sentence).

    Long ones first, so that threads that share the batches end together.
    """
    of_length: dict[int, list[int]] = {}
    for i, count in enumerate(tokens):
        of_length.setdefault(padded(count, step, longest), []).append(i)
    sizes = {length: max(1, TOKEN_BUDGET // length) for length in of_length}
    return [
        rows[start : start + sizes[length]]
        for length, rows in sorted(of_length.items(), reverse=True)
        for start in range(0, len(rows), sizes[length])
    ]


def of_any_length(tokens: Sequence[int], threads: int) -> list[list[int]]:
    """Sentences of `tokens[i]` tokens in batches of TOKEN_BUDGET tokens, and less than a sentence
    more, at most.

    They are of about one size, but for a sentence that is longer than that, and as many for each of
    the threads. Neighbours by length are together, long ones first: few lengths in a batch.
    """
    total = sum(tokens)
    parts = max(-(-total // TOKEN_BUDGET), min(threads, total // LEAST_TOKENS), 1)
    if parts > threads:
        parts = -(-parts // threads) * threads
    batches: list[list[int]] = []
    taken = 0
    for i in sorted(range(len(tokens)), key=tokens.__getitem__, reverse=True):
        if taken * parts >= total * len(batches):
            batches.append([])
        batches[-1].append(i)
        taken += tokens[i]
    return batches
