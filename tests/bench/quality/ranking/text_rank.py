"""TextRank (Mihalcea and Tarau 2004): PageRank over the words that sentences share."""

import numpy as np
from numpy.typing import NDArray

from tests.bench.quality.ranking.lex_rank import best
from tests.bench.quality.words import Words

DAMPING = 0.85
EPSILON = 1e-4  # the walk ends where it moves by less


def text_rank(words: Words, k: int) -> list[int]:
    """The k best rows; equal ones by row."""
    return best(scores(words), k)


def scores(words: Words) -> NDArray[np.float64]:
    """The standing of each sentence: an edge weighs the words in common by the logarithms of both
    lengths.
    """
    counts, lengths = words.counts, words.lengths
    sentences = counts.shape[0]
    weights = (counts @ counts.T).toarray()
    logarithms = np.log(np.maximum(lengths, 1.0))
    norms = logarithms[:, None] + logarithms[None, :]
    weights /= np.where(norms > 0, norms, 1.0)
    weights /= weights.sum(axis=1)[:, None] + 1e-7
    standing = np.full(sentences, 1.0 / sentences)
    while True:
        moved = (1.0 - DAMPING) / sentences * standing.sum() + DAMPING * (weights.T @ standing)
        if np.linalg.norm(moved - standing) <= EPSILON:
            return np.asarray(moved)
        standing = moved
