"""knn(R, mu): the k sentences of the reservoir nearest to a centroid (Algorithm 1, line 23).

Ties are ordered by the bytes of the ids. A row is a distinct vector; a ranking shows at most k of
its copies, or one with `distinct`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import kernel
from worker.coversumm.reservoir import Reservoir


class Neighbors(NamedTuple):
    """The nearest sentences in rank order."""

    ids: list[bytes]
    rows: list[int]  # the reservoir's row of each
    keys: list[float]
    next_key: float  # of the nearest other sentence in the reservoir, or infinity


def knn(
    reservoir: Reservoir, n: int, total: NDArray[np.float64], k: int, distinct: bool
) -> Neighbors:
    """The k nearest to total/n in the reservoir, or all if there are fewer."""
    rows, values = kernel.nearest(reservoir.vectors, reservoir.squared_norms, n, total, k + 1)
    lowest_ids = reservoir.lowest_ids
    if len(set(values)) < len(values):
        return _knn_of_equals(reservoir, reservoir.keys(n, total), k, distinct)
    if distinct or reservoir.live == len(reservoir):  # neither equal keys nor copies: most often
        top = rows[:k]
        next_key = values[k] if len(values) > k else np.inf
        return Neighbors([lowest_ids[row][0] for row in top], top, values[:k], next_key)
    ids, owners, chosen = expand(rows, values, lowest_ids, k, distinct=False)
    if not owners:
        return Neighbors(ids, owners, chosen, values[0] if values else np.inf)
    last = owners[-1]
    if owners.count(last) < reservoir.counts[last]:  # some of its copies are cut
        return Neighbors(ids, owners, chosen, chosen[-1])
    after = rows.index(last) + 1
    return Neighbors(ids, owners, chosen, values[after] if after < len(values) else np.inf)


def _knn_of_equals(
    reservoir: Reservoir, keys: NDArray[np.float64], k: int, distinct: bool
) -> Neighbors:
    """`knn` with equal keys: takes all rows up to the k-th key, ties included."""
    order = keys.argsort()
    weights = [1] * len(order) if distinct else reservoir.counts
    rows, values = order.tolist(), keys[order].tolist()
    held, end = 0, 0
    while end < len(rows) and (held < k or values[end] == values[end - 1]):
        held += weights[rows[end]]
        end += 1
    ids, owners, chosen = expand(rows[:end], values[:end], reservoir.lowest_ids, k, distinct)
    next_key = values[end - 1] if held > k else values[end] if end < len(values) else np.inf
    return Neighbors(ids, owners, chosen, next_key)


def expand(
    rows: Sequence[int],
    keys: Sequence[float],
    lowest_ids: Sequence[list[bytes]],
    k: int,
    distinct: bool,
) -> tuple[list[bytes], list[int], list[float]]:
    """Turn distinct vectors in key order into at most k sentences: (ids, the row of each, the key
    of each).

    `rows` ascend by `keys` and include every row with the last key. `lowest_ids[row]` are the
    lowest ids of a vector's copies, ascending, at least min(k, copies) of them (with `distinct`:
    one). Equal keys are merged by the bytes of the ids.
    """
    take = 1 if distinct else k
    if len(set(keys)) < len(keys):
        return _expand_ties(rows, keys, lowest_ids, k, take)
    first = [lowest_ids[row] for row in rows[:k]]
    if distinct or max(map(len, first), default=1) == 1:  # no copies either: most often
        return [copies[0] for copies in first], list(rows[:k]), list(keys[:k])
    ids: list[bytes] = []
    owners: list[int] = []
    values: list[float] = []
    for row, key in zip(rows, keys, strict=True):
        copies = lowest_ids[row]
        room = min(take, len(copies), k - len(ids))
        if room == 1:
            ids.append(copies[0])
            owners.append(row)
            values.append(key)
        else:
            ids += copies[:room]
            owners += [row] * room
            values += [key] * room
    return ids, owners, values


def _expand_ties(
    rows: Sequence[int], keys: Sequence[float], lowest_ids: Sequence[list[bytes]], k: int, take: int
) -> tuple[list[bytes], list[int], list[float]]:
    """`expand` where keys are equal, with at most `take` copies of a vector."""
    ids: list[bytes] = []
    owners: list[int] = []
    values: list[float] = []
    at = 0
    while at < len(rows) and len(ids) < k:
        end = at + 1
        while end < len(rows) and keys[end] == keys[at]:
            end += 1
        room = k - len(ids)
        tied = sorted(
            (id_, row) for row in rows[at:end] for id_ in lowest_ids[row][: min(take, room)]
        )[:room]
        ids += [id_ for id_, _ in tied]
        owners += [row for _, row in tied]
        values += [keys[at]] * len(tied)
        at = end
    return ids, owners, values
