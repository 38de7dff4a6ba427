"""Centroid-OPT (Ghalandari 2017): greedily the sentence with which the *summary's* mean comes
nearest to the centroid.

The authors' published code (src/algorithms/centroid_opt_summarizer.py) does something else, in two
lines:

- line 16 sums the points of the summary with `np.sum` and no axis: the sum is one number, added to
  every coordinate;
- lines 26 to 28 run through all sentences, nearest first, without a `break` at the first free one,
  so the loop ends with the farthest.

`as_published` does as it does, so that its figure can be looked at beside the right one.
"""

import numpy as np
from numpy.typing import NDArray


def centroid_opt(points: NDArray[np.float64], k: int) -> list[int]:
    """The k rows in the order in which they are taken; equal ones by row."""
    centroid = points.mean(axis=0)
    total = np.zeros(points.shape[1])
    left = np.ones(len(points), np.bool_)
    taken: list[int] = []
    for size in range(1, min(k, len(points)) + 1):
        distances = np.linalg.norm((total + points) / size - centroid, axis=1)
        row = int(np.where(left, distances, np.inf).argmin())
        left[row] = False
        total += points[row]
        taken.append(row)
    return taken


def as_published(points: NDArray[np.float64], k: int) -> list[int]:
    """The same with the two faults."""
    if len(points) <= k:
        return list(range(len(points)))
    centroid = points.mean(axis=0)
    taken: list[int] = []
    for size in range(1, k + 1):
        total = points[taken].sum()
        distances = np.linalg.norm((total + points) / size - centroid, axis=1)
        distances[taken] = -1.0
        taken.append(int(distances.argmax()))
    return taken
