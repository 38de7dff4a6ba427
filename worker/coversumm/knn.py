"""knn(R, mu): the k sentences of the reservoir nearest to a centroid (Algorithm 1, line 23).

Ties are ordered by the bytes of the ids. A row is a distinct vector; a ranking shows at most k of
its copies, or one with `distinct`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.reservoir import Reservoir


class Neighbors(NamedTuple):
    """The nearest sentences in rank order."""

    keys: list[float]
    ids: list[bytes]
    rows: list[int]  # the reservoir's row of each


def knn(
    reservoir: Reservoir, n: int, total: NDArray[np.float64], k: int, distinct: bool
) -> Neighbors:
    """The k nearest to total/n in the reservoir, or all if there are fewer."""
    keys, most = reservoir.keys(n, total), 1 if distinct else k
    limit = np.inf if len(keys) <= k else np.partition(keys, k - 1)[k - 1]
    near = np.flatnonzero(keys <= limit)  # k rows, and those with the key of the k-th
    ranked = sorted(
        (key, id_, row)
        for key, row in zip(keys[near].tolist(), near.tolist(), strict=True)
        for id_ in reservoir.lowest_ids[row][:most]
    )[:k]
    return Neighbors(*map(list, zip(*ranked, strict=True))) if ranked else Neighbors([], [], [])
