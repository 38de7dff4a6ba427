"""Polarity: whether a sentence praises or complains, by its direction and its review's rating.

The direction is one vector: the mean of good phrases less the mean of bad ones. Its product with a
sentence is an integer below 2^53, so float64 computes it exactly in any order.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import SCALE
from worker.facets.definitions import Polarity


class Direction:
    """Decides for each sentence on which side it is: whether its product with `vector`, or the
    negative of that, is above `beyond`. Both are integers.

    >>> polarity = Polarity(good=("Good.",), bad=("Bad.",), margin=0.5)
    >>> direction = Direction(polarity, np.array([[SCALE, 0], [0, SCALE]], np.int16))
    >>> direction.signs(np.array([[SCALE, 0], [0, SCALE], [SCALE, SCALE]], np.int16)).tolist()
    [1, -1, 0]
    >>> direction.signs(np.array([[SCALE // 2, 0], [SCALE // 2 + 1, 0]], np.int16)).tolist()
    [0, 1]
    """

    def __init__(self, polarity: Polarity, vectors: NDArray[np.int16]) -> None:
        """`vectors`: (p, D), those of the good phrases before those of the bad ones."""
        good, bad = polarity.counts
        exact = vectors.astype(np.int64)
        total = bad * exact[:good].sum(axis=0) - good * exact[good:].sum(axis=0)
        self.vector = total.astype(np.float64)
        self._middle = polarity.middle
        margin = Fraction(str(polarity.margin))  # as it is written
        self.beyond = float(margin * SCALE * SCALE * good * bad // 1)

    def signs(self, vectors: NDArray[np.int16]) -> NDArray[np.int8]:
        """Signs by row of (m, D): 1 if it points to the good phrases, -1 if to the bad ones, by
        more than the margin; else 0.
        """
        products = vectors.astype(np.float64) @ self.vector
        good, bad = products > self.beyond, products < -self.beyond
        signs: NDArray[np.int8] = good.astype(np.int8) - bad.astype(np.int8)
        return signs

    def of_rating(self, rating: float | None) -> int:
        """1 for a rating above the middle, -1 for another, 0 without one."""
        if rating is None:
            return 0
        return 1 if rating > self._middle else -1
