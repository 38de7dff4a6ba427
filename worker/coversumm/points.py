"""Input: batches of sentences, and steps, the effect of one event on one entity."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import VectorError


class Points(NamedTuple):
    """A batch of sentences: ids in UTF-8, unique among live ones, and contiguous vectors (m, D)
    int16.

    >>> Points([b"r1#0", b"r1#1"], np.array([[1, 2], [3, 4]], np.int16)).vectors.shape
    (2, 2)
    """

    ids: Sequence[bytes]
    vectors: NDArray[np.int16]


class Step(NamedTuple):
    """The effect of one event: removed sentences, live before it, then added ones. An edit does
    both.

    >>> before, after = np.array([[1, 2]], np.int16), np.array([[3, 4]], np.int16)
    >>> edit = Step(removed=Points([b"r1#0"], before), added=Points([b"r1#0"], after))
    """

    removed: Points
    added: Points


def no_points(dimension: int) -> Points:
    """An empty batch."""
    return Points((), np.empty((0, dimension), np.int16))


def check(points: Points, dimension: int) -> None:
    """Raise VectorError unless the batch is well formed."""
    ids, vectors = points
    if vectors.shape != (len(ids), dimension) or vectors.dtype != np.int16:
        raise VectorError(
            f"vectors must be int16 ({len(ids)}, {dimension}), not {vectors.dtype} "
            f"{vectors.shape}: quantize them first"
        )
    if not vectors.flags.c_contiguous:
        raise VectorError("vectors must be contiguous in memory: use numpy.ascontiguousarray")
