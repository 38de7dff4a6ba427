"""CoverSumm (random): a coin decides who joins the reservoir."""

from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.algorithms.lazy import CoverSummLazy


class CoverSummRandom(CoverSummLazy):
    """Section 4: in place of line 20 of Algorithm 1, x_t joins R with probability `p`, drawn with
    `seed`. Not exact.

    It loses each new near sentence that the coin turns away until the next search, and fills R with
    far ones, which makes line 9 search more often.

    The published code never searches and holds the last 100 that won the coin: the text of the
    paper describes no such thing, and its accuracy of 0.2 percent is that code's.
    """

    def __init__(
        self, k: int, dimension: int, *, p: float = 0.5, seed: int = 0, **parameters: Any
    ) -> None:
        """`parameters` are those of `ReservoirState`."""
        super().__init__(k, dimension, **parameters)
        self.p = p
        self.coin = Random(seed)

    def admits(self, x: NDArray[np.float64], drift: float) -> bool:
        """Whether a new sentence joins R: if the coin says so."""
        return self.coin.random() < self.p
