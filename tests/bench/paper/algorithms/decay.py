"""CoverSumm (decay lambda): a threshold that decays with time decides who joins the reservoir."""

from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.algorithms.lazy import CoverSummLazy


class CoverSummDecay(CoverSummLazy):
    """Section 4: in place of line 20 of Algorithm 1, x_t joins R if drift <= c1 exp(-c2 t). Not
    exact.

    How it is read: the paper says that it replaces line 6, the insertion, but also that the
    threshold decides "whether a new point should be part of the reservoir"; that is line 20. Its
    Delta is the drift of line 8, its T is t. The constants are not printed: c1 = 0.0015 b, c2 =
    1/10000 are those of the published code for data of width 2.

    It turns away near ones whenever the drift is above a threshold that knows nothing of the data,
    at first nearly always.

    The published code has R = the k nearest of the last search, admits nobody, and searches if
    drift > c1 exp(-c2 t): the text of the paper describes no such thing, and its accuracy of 1.0
    percent is that code's.
    """

    def __init__(
        self,
        k: int,
        dimension: int,
        *,
        c1: float | None = None,
        c2: float = 1e-4,
        **parameters: Any,
    ) -> None:
        """`parameters` are those of `ReservoirState`."""
        super().__init__(k, dimension, **parameters)
        self.c1, self.c2 = 0.0015 * self.b if c1 is None else c1, c2

    def admits(self, x: NDArray[np.float64], drift: float) -> bool:
        """Whether a new sentence joins R: if the centroid has not drifted beyond the threshold."""
        return drift <= self.c1 * exp(-self.c2 * self.n)
