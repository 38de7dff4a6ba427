"""The content words of sentences, and how often each is in each: what the methods without
embeddings look at.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from nltk.stem.porter import PorterStemmer
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_stem = cache(PorterStemmer().stem)


def content_words(sentence: str) -> list[str]:
    """Stems, without stop words, in order."""
    return [
        _stem(word) for word in _WORD.findall(sentence.lower()) if word not in ENGLISH_STOP_WORDS
    ]


class Words(NamedTuple):
    """`counts[i, j]`: how often word j is in sentence i."""

    counts: csr_array

    @property
    def lengths(self) -> NDArray[np.float64]:
        """Content words of each sentence."""
        return np.asarray(self.counts.sum(axis=1)).ravel()

    def first(self, count: int) -> "Words":
        """Of the first `count` sentences, without words that are in none of them, but for the
        first.
        """
        counts = self.counts[:count]
        return Words(counts[:, np.union1d(counts.indices, [0])])


def words_of(sentences: Sequence[Sequence[str]]) -> Words:
    """Of sentences as lists of words."""
    column: dict[str, int] = {}
    rows, columns = [], []
    for row, words in enumerate(sentences):
        for word in words:
            rows.append(row)
            columns.append(column.setdefault(word, len(column)))
    shape = (len(sentences), max(len(column), 1))  # a matrix without columns has no largest count
    counts = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts.sum_duplicates()
    return Words(counts)
