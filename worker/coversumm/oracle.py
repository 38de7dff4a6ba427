"""The oracle: the definition itself in Python integers, from all live sentences at once. All else is held to it."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import SCALE
from worker.coversumm.ranking import Ranking


def brute_force(
    live: Mapping[bytes, NDArray[np.int16]], k: int, *, distinct: bool = False, scale: int = SCALE
) -> Ranking:
    """The ranking of the live sentences {id: vector (D,) int16}, in O(n*D).

    >>> live = {b"a": np.array([9, 0], np.int16), b"b": np.array([1, 0], np.int16), b"c": np.array([2, 0], np.int16)}
    >>> brute_force(live, k=2)  # the centroid is (4, 0)
    Ranking(n=3, ids=(b'c', b'b'))
    """
    n = len(live)
    vectors = {id_: tuple(vector.tolist()) for id_, vector in live.items()}
    total = [sum(column) for column in zip(*vectors.values(), strict=True)]
    copies = Counter(vectors.values())
    keys = {
        vector: n * sum(x * x for x in vector) - 2 * sum(x * s for x, s in zip(vector, total, strict=True))
        for vector in copies
    }
    ranked = sorted(vectors, key=lambda id_: (keys[vectors[id_]], id_))
    if distinct:
        first: dict[tuple[int, ...], bytes] = {}
        for id_ in ranked:
            first.setdefault(vectors[id_], id_)
        ranked = list(first.values())
    chosen = ranked[:k]
    return Ranking(
        tuple(chosen),
        tuple(copies[vectors[id_]] for id_ in chosen),
        n,
        [float(keys[vectors[id_]]) for id_ in chosen],
        np.array(total, dtype=np.float64),
        scale,
    )
