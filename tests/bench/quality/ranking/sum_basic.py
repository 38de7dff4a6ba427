"""SumBasic (Vanderwende et al. 2007): the sentence of the likeliest words, whose words are then
less likely.
"""

import numpy as np
from numpy.typing import NDArray

from tests.bench.quality.words import Words


class Likely:
    """How likely each word is, by what was taken so far."""

    def __init__(self, words: Words) -> None:
        self._counts, self._lengths = words.counts, words.lengths
        self._left = np.ones(len(self._lengths), np.bool_)
        self._words = np.asarray(self._counts.sum(axis=0)).ravel() / max(self._lengths.sum(), 1.0)

    def scores(self) -> NDArray[np.float64]:
        """The mean likelihood of each sentence's words; -1 for those that are taken."""
        return np.where(
            self._left, (self._counts @ self._words) / np.maximum(self._lengths, 1.0), -1.0
        )

    def take(self, row: int) -> None:
        """A sentence's words are squared, once for each time they are in it."""
        sentence = self._counts[[row]]
        self._words[sentence.indices] **= 2.0**sentence.data
        self._left[row] = False


def sum_basic(words: Words, k: int) -> list[int]:
    """The k best rows in the order in which they are taken; equal ones by row."""
    likely = Likely(words)
    taken: list[int] = []
    for _ in range(min(k, words.counts.shape[0])):
        row = int(likely.scores().argmax())
        likely.take(row)
        taken.append(row)
    return taken
