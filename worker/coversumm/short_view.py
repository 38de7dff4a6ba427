"""The short view: down the ranking, nearest to the centroid first, and past what says nearly the
same as something nearer.

A sentence is chosen unless its cosine to one chosen before it is above a threshold; then that one
stands for it. So every sentence of a view says something else, however many near-copies lie at the
centre. It is a greedy walk down the whole ranking (the rule by which the paper makes its summaries,
which takes TF-IDF for it), here without sorting or holding all of it:

- a pass over all sentences keeps the nearest `CANDIDATES` distinct vectors that nothing chosen
  stands for. Identical vectors are one candidate, under the lowest id of its copies, so a hundred
  thousand of them cost what one does;
- the walk goes down these. Where they end before enough are chosen, the next pass leaves out what
  is stood for by now.

Each pass chooses one at least, and in practice the first is enough. A last one counts what each
stands for.

The view is the same whatever order sentences are read in, and on every machine: keys and dot
products are exact integers in float64, and a cosine is `dot / sqrt(|x|^2 * |y|^2)`, three
operations that IEEE 754 rounds once each.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import SCALE
from worker.coversumm.index import Block
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.ranking import distances

CANDIDATES = 2048
KEPT_BYTES = 16 * 2**20
"""Vectors of so many bytes are read once; of more, each pass reads them again."""

Scan = Callable[[], Iterable[Block]]
"""All live sentences; the vectors are quantized ones, so none is zero."""


class Chosen(NamedTuple):
    """The sentences of a short view, nearest first."""

    ids: list[bytes]
    distances: tuple[float, ...]
    """To the centroid, as `Ranking.distances`."""
    vectors: NDArray[np.int16]
    """(m, D)."""


class StandsFor(NamedTuple):
    """How many live sentences one stands for, itself included, and how many groups (reviews) these
    are of.
    """

    sentences: int
    groups: int


def kept(scan: Scan, most_bytes: int = KEPT_BYTES) -> Scan:
    """The same sentences, read once where they are few enough to be kept."""
    blocks: list[Block] | None = None

    def read() -> Iterator[Block]:
        nonlocal blocks
        if blocks is not None:
            yield from blocks
            return
        held: list[Block] = []
        size = 0
        for block in scan():
            yield block
            size += block.vectors.nbytes
            if size <= most_bytes:
                held.append(block)
            else:
                held.clear()
        if size <= most_bytes:
            blocks = held

    return read


def choose(
    scan: Scan, dimension: int, threshold: float, count: int, candidates: int = CANDIDATES
) -> Chosen:
    """The first `count` sentences of the walk, or all there are to choose.

    Args:
        scan: all live sentences.
        dimension: of their vectors.
        threshold: a cosine above it makes a near-copy; at least 0, below 1.
        count: of sentences, at most.
        candidates: distinct vectors that a pass keeps.
    """
    n, total, _ = FlatIndex(dimension, scan).totals()
    ids: list[bytes] = []
    keys: list[float] = []
    vectors = np.empty((0, dimension), np.int16)
    is_all = n == 0
    while not is_all and len(ids) < count:
        near = _Nearest(candidates)
        for block in scan():
            near.offer(block, _keys(block.vectors, n, total), vectors, threshold)
        found, found_keys, found_vectors = near.sorted(dimension)
        is_all = not near.was_cut
        rows = _walk(found_vectors, threshold, count - len(ids))
        ids += [found[row] for row in rows]
        keys += [found_keys[row] for row in rows]
        vectors = np.concatenate((vectors, found_vectors[rows]))
    return Chosen(ids, distances(keys, n, total, SCALE), vectors)


def stands_for(
    scan: Scan, chosen: NDArray[np.int16], threshold: float, group_of: Callable[[bytes], bytes]
) -> list[StandsFor]:
    """Of each chosen sentence, how many live ones it stands for: those that are nearer to it than
    to any other chosen one (of equals, than to any before it), with a cosine above the threshold.

    Args:
        scan: all live sentences; those of one group are neighbours in it.
        chosen: the vectors of the chosen ones (m, D), in order.
        threshold: as for `choose`.
        group_of: the group of a sentence id.
    """
    sentences = np.zeros(len(chosen), np.int64)
    groups = [0] * len(chosen)
    last: list[bytes | None] = [None] * len(chosen)
    for block in scan() if len(chosen) else ():
        cosines = _cosines(block.vectors, chosen)
        nearest = cosines.argmax(axis=1)
        rows = np.flatnonzero(cosines[np.arange(len(cosines)), nearest] > threshold)
        sentences += np.bincount(nearest[rows], minlength=len(chosen))
        for row, at in zip(rows.tolist(), nearest[rows].tolist(), strict=True):
            group = group_of(block.id(row))
            if group != last[at]:
                last[at] = group
                groups[at] += 1
    return [StandsFor(*one) for one in zip(sentences.tolist(), groups, strict=True)]


class _Nearest:
    """The nearest distinct vectors of a pass, each with the lowest id of its copies, ordered by key
    and id.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._limit = np.inf  # a key: what is beyond has been cut
        self._lowest: dict[bytes, tuple[float, bytes]] = {}  # by the vector's bytes
        self.was_cut = False

    def offer(
        self,
        block: Block,
        keys: NDArray[np.float64],
        chosen: NDArray[np.int16],
        threshold: float,
    ) -> None:
        """Take in the block's rows up to the limit that nothing chosen stands for."""
        rows = np.flatnonzero(keys <= self._limit)
        if len(rows) and len(chosen):
            rows = rows[_cosines(block.vectors[rows], chosen).max(axis=1) <= threshold]
        lowest = self._lowest
        for row, key in zip(rows.tolist(), keys[rows].tolist(), strict=True):
            data, one = block.vectors[row].tobytes(), (key, block.id(row))
            if data not in lowest or one < lowest[data]:
                lowest[data] = one
        if len(lowest) > 2 * self._room:
            self._cut()

    def _cut(self) -> None:
        """Keep the nearest. A lower id of a vector that goes may come yet, and would bring it back
        where it belongs.
        """
        if len(self._lowest) > self._room:
            nearest = sorted(self._lowest.items(), key=lambda item: item[1])[: self._room]
            self._lowest = dict(nearest)
            self._limit = nearest[-1][1][0]
            self.was_cut = True

    def sorted(self, dimension: int) -> tuple[list[bytes], list[float], NDArray[np.int16]]:
        """Ids, keys and vectors (r, D) of the nearest, in order."""
        self._cut()
        items = sorted(self._lowest.items(), key=lambda item: item[1])
        vectors = np.frombuffer(b"".join(data for data, _ in items), np.int16).reshape(
            -1, dimension
        )
        return [id_ for _, (_, id_) in items], [key for _, (key, _) in items], vectors


def _walk(vectors: NDArray[np.int16], threshold: float, count: int) -> list[int]:
    """The rows that are chosen, at most `count`, of vectors in order of which none is stood for
    yet.
    """
    chosen: list[int] = []
    is_left = np.ones(len(vectors), np.bool_)
    while len(chosen) < count and is_left.any():
        row = int(is_left.argmax())
        chosen.append(row)
        is_left[row] = False
        rows = np.flatnonzero(is_left)
        is_left[rows] = _cosines(vectors[rows], vectors[row : row + 1])[:, 0] <= threshold
    return chosen


def _keys(vectors: NDArray[np.int16], n: int, total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each vector's key n*|x|^2 - 2*x.S, exact."""
    x = vectors.astype(np.float64)
    keys: NDArray[np.float64] = n * np.vecdot(x, x) - 2.0 * (x @ total)
    return keys


def _cosines(vectors: NDArray[np.int16], others: NDArray[np.int16]) -> NDArray[np.float64]:
    """The cosine of each of the vectors (m, D) to each of the others (r, D): (m, r)."""
    x, y = vectors.astype(np.float64), others.astype(np.float64)
    cosines: NDArray[np.float64] = (x @ y.T) / np.sqrt(np.vecdot(x, x)[:, None] * np.vecdot(y, y))
    return cosines
