"""The protocol of embedding engines, and how sentences are grouped into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol
from unicodedata import normalize

from worker.errors import SetupError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Precision = Literal["fp32", "bf16"]  # numbers that an engine multiplies


class EmbeddingEngine(Protocol):
    """Sentences to vectors. Replays require the same bits for the same sentence on every call.

    An engine may name the packages that compute its vectors as `libraries`, see `identity`, and
    have a function `reads_all` of a text, see `reads_all`.
    """

    @property
    def model(self) -> str:
        """Name of the weights, `NAME@HASH`: the `embedding_model` of events and state."""

    @property
    def dimension(self) -> int:
        """Components of a vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`; blocking; callable from any thread."""


def first_line(error: BaseException) -> str:
    """The first line of a library's error, or its class name if it has none."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


class EngineError(SetupError):
    """The engine cannot be used. The one-line message says what is wrong and what to do."""


TOKEN_BUDGET = 512  # tokens of a batch, padded; larger ones take memory and are not faster
LEAST_TOKENS = 32
"""Average tokens per batch below which there are fewer batches than threads: small products are
slow.
"""


def reads_all(engine: EmbeddingEngine | None) -> Callable[[str], bool]:
    """A test that the engine's model reads a text to its end; longer ones are cut before they are
    embedded. An engine that has no such function reads any text.
    """
    found: Callable[[str], bool] = getattr(engine, "reads_all", lambda text: True)
    return found


def most_tokens(text: str) -> int:
    """At least as many as a text has tokens, without special ones: none is less than a byte of the
    decomposed text.
    """
    if text.isascii():
        return len(text)
    return len(normalize("NFKD", text).encode("utf-8", "surrogatepass"))


def well_formed(text: str) -> str:
    """`text` with "?" for lone surrogates, on which tokenizers raise."""
    return text.encode("utf-8", "replace").decode()


def padded(count: int, step: int, longest: int) -> int:
    """The padded length of `count` tokens: a multiple of `step`, at most `longest`."""
    return min(longest, -(-max(count, 1) // step) * step)


def of_one_length(tokens: Sequence[int], step: int, longest: int) -> list[list[int]]:
    """Batches of sentences of one padded length, of at most TOKEN_BUDGET tokens (or one sentence).

    Sentence `i` has `tokens[i]` tokens. Long ones come first, so that threads finish together.
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
    """Batches of sentences of TOKEN_BUDGET tokens, exceeded by less than a sentence.

    Batches are about equal, except for very long sentences, with the same number for each thread.
    Sentences of similar length are together, long ones first.
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
