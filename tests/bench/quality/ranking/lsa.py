"""Latent semantic analysis (Steinberger and Ježek 2004), and what sumy 0.13 calls so.

A sentence's score is its length in the space of the strongest topics, sqrt(sum sigma_i^2 v_i^2).
sumy keeps *all* topics (REDUCTION_RATIO = 1/1): then the sum is the length of the sentence's own
column of the matrix. It does not depend on the topics, so no decomposition is needed. Both variants
are here, under names of their own.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from tests.bench.quality.ranking.lex_rank import best
from tests.bench.quality.words import Words

TOPICS = 20  # looked at; those count that are at least half as strong as the first
SMOOTH = 0.4  # sumy's


def lsa(words: Words, k: int) -> list[int]:
    """The k best rows by the topics that are at least half as strong as the strongest; equal ones
    by row.
    """
    counts = words.counts
    sentences = counts.shape[0]
    topics = (max(sentences - TOPICS, 0), sentences - 1)
    squared, v = eigh((counts @ counts.T).toarray(), subset_by_index=topics)
    # of sigma squared: half is a quarter
    strong = np.where(squared >= squared[-1] / 4, squared, 0.0)
    return best(np.sqrt((v**2 * strong).sum(axis=1)), k)


def by_length_of_column(words: Words, k: int) -> list[int]:
    """What sumy's LSA ranks by, without its decomposition; equal ones by row."""
    return best(column_lengths(words), k)


def column_lengths(words: Words) -> NDArray[np.float64]:
    """The norms of the columns of sumy's matrix: 0.4 + 0.6 tf / max tf, in words a sentence does
    not have too.
    """
    counts = words.counts
    largest = np.maximum(counts.max(axis=1).toarray().ravel(), 1.0)
    squares = np.zeros(counts.shape[0])
    present = np.diff(counts.indptr)
    of = np.repeat(np.arange(counts.shape[0]), present)
    np.add.at(squares, of, (SMOOTH + (1.0 - SMOOTH) * counts.data / largest[of]) ** 2)
    absent = (counts.shape[1] - present) * SMOOTH**2
    return np.asarray(np.sqrt(np.where(present > 0, squares + absent, 0.0)))
