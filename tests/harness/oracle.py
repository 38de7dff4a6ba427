"""The summary of live sentences by brute force."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import Ranking
from worker.coversumm import brute_force as ranking_of


def brute_force(live: Mapping[bytes, NDArray[np.int16]], k: int, **ways: bool) -> Ranking:
    """The ranking of {id: vector (D,)}."""
    vectors = np.stack([*live.values()]) if live else np.empty((0, 1), np.int16)
    return ranking_of([*live], vectors, k, **ways)
