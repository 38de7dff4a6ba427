"""The short view: down the ranking, skipping what says nearly the same as something nearer.

A sentence is chosen unless its cosine to one chosen before it is above a threshold; the chosen one
then stands for it. So the sentences of a view differ, however many near-copies lie at the centre.
It is the paper's greedy walk down the complete ranking (which uses TF-IDF), without sorting or
holding all of it:

- a pass over all sentences keeps the nearest `CANDIDATES` distinct vectors that no chosen one
  stands for. Identical vectors are one candidate, under the lowest id of its copies;
- the walk goes down these. If they end before enough are chosen, the next pass excludes those
  that have been covered since.

Each pass chooses at least one sentence; in practice the first pass suffices. A last pass counts
what each stands for.

The view does not depend on the order of reading or on the machine: keys and dot products are exact
integers in float64, and a cosine is `dot / sqrt(|x|^2 * |y|^2)`, three operations that IEEE 754
rounds once each.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.copies import Copies
from worker.coversumm.fixed_point import SCALE
from worker.coversumm.index import Block, BlockPart
from worker.coversumm.index.flat import FlatIndex, keys_of
from worker.coversumm.ranking import distances

CANDIDATES = 2048
ROWS_AT_ONCE = 64  # candidates that a walk compares with all chosen ones
KEPT_BYTES = (
    16 * 2**20
)  # bytes of vectors that are read once; larger entities are read in each pass

Scan = Callable[
    [], Iterable[Block]
]  # all live sentences; their vectors are quantized, so none is zero


class Chosen(NamedTuple):
    """The sentences of a short view, nearest first."""

    ids: list[bytes]
    distances: tuple[float, ...]  # to the centroid, as `Ranking.distances`
    vectors: NDArray[np.int16]  # (m, D)


class StandsFor(NamedTuple):
    """The live sentences one stands for, itself included, and their groups (reviews)."""

    sentences: int
    groups: int


def read_once(scan: Scan, most_bytes: int = KEPT_BYTES) -> Scan:
    """`scan`, read only once if its vectors take at most `most_bytes`."""
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


class Candidate(NamedTuple):
    """The next sentence of a walk."""

    id: bytes
    key: float
    vector: NDArray[np.int16]  # (D,)


class Walk:
    """Down the ranking of some sentences, one at a time, past those that chosen ones stand for.

    Others than this walk may choose too: what is chosen only grows.
    """

    def __init__(
        self,
        scan: Scan,
        dimension: int,
        threshold: float,
        candidates: int = CANDIDATES,
        *,
        by_text: bool = False,
    ) -> None:
        """See `choose`. Between reads it holds the `candidates` alone."""
        self._scan = scan
        self._dimension = dimension
        self._threshold = threshold
        self._candidates = candidates
        index = FlatIndex(dimension, scan)
        self._n, self._total, _ = index.totals(Copies() if by_text else None)
        self._read(index)

    def _read(self, index: FlatIndex) -> None:
        """Take the nearest vectors of the index, each under the lowest id of its copies."""
        found = index.nearest(self._n, self._total, self._candidates, ids_kept=1)
        keys, ids = keys_of(found.vectors, self._n, self._total).tolist(), found.lowest_ids
        order = sorted(range(len(keys)), key=lambda row: (keys[row], ids[row]))
        self._found = [Candidate(ids[row][0], keys[row], found.vectors[row]) for row in order]
        self._vectors = found.vectors[order]
        self._at, self._is_all = 0, found.radius_key is None

    def nearest(self, chosen: Sequence[NDArray[np.int16]]) -> Candidate | None:
        """The nearest sentence that no chosen vector (D,) stands for; None if there is none."""
        others = np.array(chosen, np.int16).reshape(-1, self._dimension)
        while True:
            while self._at < len(self._found):
                rows = self._vectors[self._at : self._at + ROWS_AT_ONCE]
                is_left = np.ones(len(rows), np.bool_)
                if len(others):
                    is_left = cosines(rows, others).max(axis=1) <= self._threshold
                if is_left.any():
                    self._at += int(is_left.argmax())
                    return self._found[self._at]
                self._at += len(rows)
            if self._is_all:
                return None
            left = partial(_left, self._scan, others, self._threshold)
            self._read(FlatIndex(self._dimension, left))

    def distance(self, candidate: Candidate) -> float:
        """The distance to the centroid, as `Ranking.distances`."""
        (found,) = distances([candidate.key], self._n, self._total, SCALE)
        return found


def choose(
    scan: Scan,
    dimension: int,
    threshold: float,
    count: int,
    candidates: int = CANDIDATES,
    *,
    by_text: bool = False,
) -> Chosen:
    """The first `count` sentences of the walk, or all that can be chosen.

    `scan` reads all live sentences, vectors (D,) of `dimension`. A cosine above `threshold` (at
    least 0, below 1) makes a near-copy. A pass keeps `candidates` distinct vectors. `by_text`: each
    distinct vector counts once in the centroid.
    """
    walk = Walk(scan, dimension, threshold, candidates, by_text=by_text)
    found: list[Candidate] = []
    while len(found) < count:
        nearest = walk.nearest([candidate.vector for candidate in found])
        if nearest is None:
            break
        found.append(nearest)
    vectors = np.array([candidate.vector for candidate in found], np.int16).reshape(-1, dimension)
    return Chosen([candidate.id for candidate in found], tuple(map(walk.distance, found)), vectors)


def stands_for(
    scan: Scan, chosen: NDArray[np.int16], threshold: float, group_of: Callable[[bytes], bytes]
) -> list[StandsFor]:
    """The number of live sentences that each chosen sentence stands for: those nearest to it, with
    a cosine above `threshold`. Of equally near chosen ones the first counts.

    `scan` reads all live sentences, those of a group (`group_of` an id) adjacent; `chosen` is (m,
    D).
    """
    sentences = np.zeros(len(chosen), np.int64)
    groups = [0] * len(chosen)
    last: list[bytes | None] = [None] * len(chosen)
    for block in scan() if len(chosen) else ():
        found = cosines(block.vectors, chosen)
        nearest = found.argmax(axis=1)
        rows = np.flatnonzero(found[np.arange(len(found)), nearest] > threshold)
        sentences += np.bincount(nearest[rows], minlength=len(chosen))
        for row, at in zip(rows.tolist(), nearest[rows].tolist(), strict=True):
            group = group_of(block.id(row))
            if group != last[at]:
                last[at] = group
                groups[at] += 1
    return [StandsFor(*pair) for pair in zip(sentences.tolist(), groups, strict=True)]


def _left(scan: Scan, chosen: NDArray[np.int16], threshold: float) -> Iterator[Block]:
    """The sentences that none of the chosen (m, D) stands for."""
    for block in scan():
        is_left = cosines(block.vectors, chosen).max(axis=1) <= threshold
        yield BlockPart(block, np.flatnonzero(is_left))


def cosines(vectors: NDArray[np.int16], others: NDArray[np.int16]) -> NDArray[np.float64]:
    """The cosine of each of the vectors (m, D) to each of the others (r, D): (m, r)."""
    x, y = vectors.astype(np.float64), others.astype(np.float64)
    found: NDArray[np.float64] = (x @ y.T) / np.sqrt(np.vecdot(x, x)[:, None] * np.vecdot(y, y))
    return found
