"""LexRank (Erkan and Radev 2004): the sentences that most others are like, and those like them."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array

from tests.bench.quality.words import Words

THRESHOLD = 0.1  # of the cosine of two sentences that are neighbours
EPSILON = 0.1  # sumy's: the walk ends where it moves by less


def lex_rank(words: Words, k: int) -> list[int]:
    """The k best rows; equal ones by row."""
    return best(scores(words), k)


def scores(words: Words) -> NDArray[np.float64]:
    """How central each sentence is among its neighbours by TF-IDF."""
    counts = words.counts
    sentences = counts.shape[0]
    largest = counts.max(axis=1).toarray().ravel()
    frequency = diags_array(1.0 / np.maximum(largest, 1.0)) @ counts
    within = np.bincount(counts.indices, minlength=counts.shape[1])
    weighted = (frequency @ diags_array(np.log(sentences / (1.0 + within)))).tocsr()
    norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    unit = diags_array(1.0 / np.where(norms > 0, norms, 1.0)) @ weighted
    neighbours = ((unit @ unit.T).toarray() > THRESHOLD).astype(np.float64)
    neighbours /= np.maximum(neighbours.sum(axis=1), 1.0)[:, None]
    standing = np.full(sentences, 1.0 / sentences)
    while True:
        moved = neighbours.T @ standing
        moved /= np.linalg.norm(moved) or 1.0
        if np.linalg.norm(moved - standing) <= EPSILON:
            return np.asarray(moved)
        standing = moved


def best(scored: NDArray[np.float64], k: int) -> list[int]:
    """The rows of the k highest scores, the highest first, equal ones by row."""
    return [int(row) for row in np.argsort(-scored, kind="stable")[:k]]
