"""Silver summaries: of the sentences so far those that are most like the human summaries of all,
chosen greedily.

The paper: "we construct silver extractive summaries by greedily selecting sentences (seen till time
step t) with high ROUGE overlap with final human-written ones". How it is read: the score is the
mean of the F1 of ROUGE-1 and ROUGE-2 over all references, each sentence is the one that raises it
most, none that does not fit into as many words as any summary may have, and the summary ends where
no sentence raises it. Pairs of words across two sentences are left out of the choice (the scores
have them). The silver summary of all sentences is the oracle.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.bench.quality.rouge import tokens
from tests.bench.quality.walk import WORDS


class Silver:
    """The sentences of an entity against its references; asked after any number of sentences."""

    def __init__(
        self, sentences: Sequence[str], references: Sequence[str], words: int = WORDS
    ) -> None:
        split = [tokens(sentence) for sentence in sentences]
        self._words = np.array([len(sentence.split()) for sentence in sentences], np.int64)
        self._most = words
        self._parts = [
            _Overlap(split, tokens(reference), size) for size in (1, 2) for reference in references
        ]

    def after(self, count: int) -> list[int]:
        """The rows of the summary of the first `count` sentences, in order of arrival."""
        taken: list[int] = []
        best = 0.0
        for part in self._parts:
            part.begin()
        while count:
            scores = np.mean([part.with_each(count) for part in self._parts], axis=0)
            scores[self._words[:count] > self._most - self._words[taken].sum()] = 0.0
            scores[taken] = 0.0
            row = int(scores.argmax())
            if scores[row] <= best:
                break
            best = float(scores[row])
            taken.append(row)
            for part in self._parts:
                part.take(row)
        return sorted(taken)


class _Overlap:
    """ROUGE of n-grams against one reference, for what is taken and one sentence more, of all
    sentences at once.

    A sentence adds to the overlap, for each n-gram, what it has of it or what the reference has
    left, whichever is less.
    """

    def __init__(
        self, sentences: Sequence[Sequence[str]], reference: Sequence[str], size: int
    ) -> None:
        wanted = Counter(_grams(reference, size))
        column = {gram: i for i, gram in enumerate(wanted)}
        self._wanted = np.array(list(wanted.values()), np.float64)
        self._lengths = np.array(
            [max(len(sentence) - size + 1, 0) for sentence in sentences], np.float64
        )
        rows, columns, counts = [], [], []
        for row, sentence in enumerate(sentences):
            for gram, count in Counter(_grams(sentence, size)).items():
                if gram in column:
                    rows.append(row)
                    columns.append(column[gram])
                    counts.append(count)
        self._rows = np.array(rows, np.int64)
        self._columns = np.array(columns, np.int64)
        self._counts = np.array(counts, np.float64)
        self.begin()

    def begin(self) -> None:
        """Nothing is taken."""
        self._left = self._wanted.copy()
        self._overlap = self._length = 0.0

    def take(self, row: int) -> None:
        """A sentence more."""
        of = slice(*np.searchsorted(self._rows, (row, row + 1)))
        shared = np.minimum(self._counts[of], self._left[self._columns[of]])
        self._left[self._columns[of]] -= shared
        self._overlap += float(shared.sum())
        self._length += float(self._lengths[row])

    def with_each(self, count: int) -> NDArray[np.float64]:
        """F1 of what is taken with each of the first `count` sentences."""
        end = int(np.searchsorted(self._rows, count))
        shared = np.minimum(self._counts[:end], self._left[self._columns[:end]])
        overlap = self._overlap + np.bincount(self._rows[:end], shared, minlength=count)
        length = self._length + self._lengths[:count] + self._wanted.sum()
        return np.asarray(2.0 * overlap / np.maximum(length, 1.0))


def _grams(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[at:] for at in range(size)), strict=False))
