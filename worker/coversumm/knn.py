"""knn(R, mu): the k sentences of the reservoir nearest to a centroid (Algorithm 1, line 23).

Ties are ordered by the bytes of the ids. A row is a distinct vector; a ranking shows at most k of
its copies, or one with `distinct`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import kernel
from worker.coversumm.reservoir import Reservoir


class Neighbors(NamedTuple):
    """The nearest sentences in rank order."""

    rows: list[int]  # the reservoir's row of each: a vector with m copies among them stands m times
    keys: list[float]
    next_key: float  # of the nearest other sentence in the reservoir, or infinity


def knn(
    reservoir: Reservoir, n: int, total: NDArray[np.float64], k: int, distinct: bool
) -> Neighbors:
    """The k nearest to total/n in the reservoir, or all if there are fewer."""
    rows, keys = kernel.nearest(reservoir.vectors, reservoir.squared_norms, n, total, k + 1)
    if len(set(keys)) < len(keys):
        return _knn_of_equals(reservoir, reservoir.keys(n, total), k, distinct)
    top, counts = rows[:k], reservoir.counts
    if distinct or sum([counts[row] for row in top]) == len(top):  # no copies: most often
        return Neighbors(top, keys[:k], keys[k] if len(keys) > k else np.inf)
    shown: list[int] = []
    values: list[float] = []
    for row, key in zip(top, keys, strict=False):
        if counts[row] == 1:
            shown.append(row)
            values.append(key)
        else:
            copies = min(counts[row], k - len(shown))
            shown += [row] * copies
            values += [key] * copies
        if len(shown) == k:
            break
    if not shown or shown.count(row) < counts[row]:  # some of its copies are cut
        return Neighbors(shown, values, key if shown else np.inf)
    after = rows.index(row) + 1
    return Neighbors(shown, values, keys[after] if after < len(keys) else np.inf)


def _knn_of_equals(
    reservoir: Reservoir, keys: NDArray[np.float64], k: int, distinct: bool
) -> Neighbors:
    """`knn` with equal keys: all rows up to the k-th key, then the lowest ids among equals."""
    order = keys.argsort()
    weights = [1] * len(order) if distinct else reservoir.counts
    rows, values = order.tolist(), keys[order].tolist()
    held, end = 0, 0
    while end < len(rows) and (held < k or values[end] == values[end - 1]):
        held += weights[rows[end]]
        end += 1
    most, lowest_ids = 1 if distinct else k, reservoir.lowest_ids
    ranked = sorted(
        (key, id_, row)
        for row, key in zip(rows[:end], values[:end], strict=True)
        for id_ in lowest_ids[row][:most]
    )[:k]
    next_key = values[end - 1] if held > k else values[end] if end < len(values) else np.inf
    return Neighbors([row for _, _, row in ranked], [key for key, _, _ in ranked], next_key)
