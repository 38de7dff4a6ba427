"""SumBasic (Vanderwende et al. 2007): the sentence of the likeliest words, whose words are then less likely."""

import numpy as np

from tests.bench.quality.words import Words


def sum_basic(words: Words, k: int) -> list[int]:
    """The k best rows: the mean probability of a sentence's words, each squared once for each time it was taken."""
    counts, lengths = words.counts, words.lengths
    total = lengths.sum()
    if not total:
        return list(range(min(k, len(lengths))))
    likely = np.asarray(counts.sum(axis=0)).ravel() / total
    left = np.ones(len(lengths), np.bool_)
    taken: list[int] = []
    for _ in range(min(k, len(lengths))):
        scores = np.where(left, (counts @ likely) / np.maximum(lengths, 1), -1.0)
        row = int(scores.argmax())
        left[row] = False
        taken.append(row)
        sentence = counts[[row]]
        likely[sentence.indices] **= 2.0**sentence.data
    return taken
