"""What comes before a model runs: texts are made well-formed, and where an engine may, sentences are chosen that run together.

A matrix product's bits depend on its shape, never on the values of other rows: a sentence padded to a length that is a
function of that sentence alone keeps its bits in any company.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

TOKEN_BUDGET = 512
"""Padded tokens of a batch: beyond it nothing gets faster, and memory grows."""


def well_formed(text: str) -> str:
    """`text` with "?" for lone surrogates, which are no UTF-8: tokenizers raise on them."""
    return text.encode("utf-8", "replace").decode()


class Batch(NamedTuple):
    """Sentences of one padded length that run together."""

    length: int
    rows: list[int]


def batches(tokens: Sequence[int], step: int, longest: int) -> Iterator[Batch]:
    """Sentences of `tokens[i]` tokens in batches of at most TOKEN_BUDGET padded tokens (or one sentence).

    A sentence is padded to a multiple of `step` tokens, and never beyond `longest`. Long ones first, so that threads that
    share the batches end together.
    """
    of_length: dict[int, list[int]] = {}
    for i, count in enumerate(tokens):
        padded = min(longest, -(-max(count, 1) // step) * step)
        of_length.setdefault(padded, []).append(i)
    for length, rows in sorted(of_length.items(), reverse=True):
        size = max(1, TOKEN_BUDGET // length)
        for start in range(0, len(rows), size):
            yield Batch(length, rows[start : start + size])
