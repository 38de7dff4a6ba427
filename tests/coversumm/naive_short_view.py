"""The short view by its definition."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.harness.oracle import brute_force
from worker.coversumm.short_view import StandsFor

Live = dict[bytes, NDArray[np.int16]]


def group_of(id_: bytes) -> bytes:
    return id_.partition(b"#")[0]


def cosine(x: NDArray[np.int16], y: NDArray[np.int16]) -> float:
    a, b = x.tolist(), y.tolist()
    dot, xx, yy = (
        sum(p * q for p, q in zip(*pair, strict=True)) for pair in ((a, b), (a, a), (b, b))
    )
    return dot / math.sqrt(float(xx) * float(yy))


def naive(
    live: Live, threshold: float, count: int, *, by_text: bool = False
) -> tuple[list[bytes], list[StandsFor]]:
    """The definition: the whole ranking, walked down; then everything counted under its nearest."""
    chosen: list[bytes] = []
    for id_ in brute_force(live, len(live), by_text=by_text).ids:
        if len(chosen) < count and all(
            cosine(live[id_], live[other]) <= threshold for other in chosen
        ):
            chosen.append(id_)
    under: dict[bytes, list[bytes]] = {other: [] for other in chosen}
    for id_, vector in live.items() if chosen else ():
        nearest = max(chosen, key=lambda other: cosine(vector, live[other]))  # the first of equals
        if cosine(vector, live[nearest]) > threshold:
            under[nearest].append(id_)
    return chosen, [StandsFor(len(ids), len(set(map(group_of, ids)))) for ids in under.values()]
