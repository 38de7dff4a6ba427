"""The graphgrove library's SG tree as an index: the paper's own search, with exact answers.

Behaviour of graphgrove 0.0.11, observed on its wheel for CPython 3.8, and how this module handles
it. (The tests run this module on that wheel in a separate process; with the worker in one process
only a build from source can run.)

- Arrays are read as they lie in memory: they must be contiguous float32 matrices. Ids must be
  int64, and come back only from the batch form of `insert`: the form for one vector turns every id
  into 1. This module uses only batches.
- Equal vectors are dropped, with a line on standard output. Copies are one point here, so none are
  inserted.
- `remove` does nothing. Removed vectors stay in the tree and are left out of its answers; when more
  than half are gone the tree is rebuilt.
- A query for more neighbours than there are points reads past the end; this module never makes
  one. `RangeSearch` writes past the end; this module does not use it.
- A vector far outside the tree becomes a new root above the old one, whose radius is not kept, so
  the nearest neighbour may then be missed. A tree therefore starts from a frame of three points,
  none of them a sentence, that is wide enough for all vectors: the first root stays the root, and a
  root is never pruned.
- `from_matrix` prints; so does a query on one core by its own thread (`use_multi_core=0`), but not
  one on one other thread (1). The frame is built once, with output silenced, and every tree begins
  as a copy of it (`from_string`).

Distances are float32 with a bounded error. With u = 2^-24, D the dimension and r the width of the
frame, which no distance in it exceeds: int16 vectors are exact in float32, a computed distance is
off by less than (D/2 + 4)u of itself (a difference, a square, D terms in any order, half of all
that by the root), and the rounded centroid is within ur of the centroid. A subtree is pruned by
d(q, c) - max d(c, y), three such distances and a subtraction. So a sentence that is not in an
answer, whose last distance is d, is farther from the centroid than d - (3D/2 + 14)ur. `error` is
2(D + 8)ur. Sentences nearer than that are compared by their exact keys. If they do not suffice,
more are requested, at last all. An answer that contradicts the exact distances is refused.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import frexp, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.copies import Copies
from worker.coversumm.fixed_point import DuplicateSentence, UnknownSentence
from worker.coversumm.index import Block, IndexUnavailable, Neighborhood, Totals, first_beyond
from worker.coversumm.index.flat import keys_of
from worker.coversumm.matrix import GrowingArray
from worker.coversumm.points import Points

TILE = 4096  # rows computed, or given to the library, at once
FRAME = 3  # points of the frame; the library's id of a row is the row's number plus this
NODE_BYTES = 200  # of the library's node besides its vector
ROW_BYTES = 450  # Python objects of a row: a set, two dictionary entries, the vector's bytes
ID_BYTES = 150

SOURCE = (
    "build graphgrove 0.0.11 or newer from https://github.com/nmonath/graphgrove for this Python"
)

Floats = NDArray[np.float64]


class LibraryAnswer(RuntimeError):
    """The library's answer cannot be true, so its other answers cannot be trusted."""


def library() -> Any:
    """The library's tree class. Raises IndexUnavailable, which says why and what to do."""
    try:
        import_module("graphgrove")
    except ImportError as error:
        raise IndexUnavailable(
            f"graphgrove cannot be imported ({error}), and PyPI has wheels only for CPython 3.6 "
            f"to 3.8: {SOURCE}"
        ) from error
    try:
        tree: Any = import_module("graphgrove.sgtree").NNS_L2
    except ModuleNotFoundError as error:
        if error.name != "graphgrove.sgtree":
            raise IndexUnavailable(f"graphgrove cannot be used ({error}): {SOURCE}") from error
        raise IndexUnavailable(
            "the installed graphgrove is the empty package (0.0.1) that PyPI has for this Python, "
            f"without a tree: {SOURCE}"
        ) from None
    except (ImportError, AttributeError) as error:
        raise IndexUnavailable(f"graphgrove cannot be used ({error}): {SOURCE}") from error
    _check_float32(tree)
    return tree


@cache
def _check_float32(tree: Any) -> None:
    """Refuse a build for another type, which would misread float32 arrays."""
    room = np.zeros((4, 2), np.float32)  # a float64 build reads twice as far
    room[1:] = 1
    with _silence():
        _, distances = tree.from_matrix(room[:2], use_multi_core=0).kNearestNeighbours(
            room[:1], k=1, use_multi_core=1
        )
    if distances.dtype != np.float32:
        raise IndexUnavailable(
            f"graphgrove is built for {distances.dtype} instead of float32: "
            f"{SOURCE}, without options"
        )


@contextmanager
def _silence() -> Iterator[None]:
    """Discard standard output and error of the process: the library prints from C++."""
    kept = [(stream, os.dup(stream)) for stream in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream, _ in kept:
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, copy in kept:
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)


@cache
def _frame(tree: Any, dimension: int, half: float) -> bytes:
    """A serialized tree of three points on a line, `half` apart; no int16 vector equals one."""
    points = np.zeros((FRAME, dimension), np.float32)
    # the library takes the one in the middle as the root
    points[:, 0] = (0.5, 0.5 + half, 0.5 - half)
    with _silence():
        packed: bytes = tree.from_matrix(points, use_multi_core=0).serialize()
    return packed


class _Answer(NamedTuple):
    rows: NDArray[np.int64]  # without the frame
    distances: Floats
    certain: float  # every other point is farther from the centroid


class _Tree:
    """The library's tree over rows of a matrix, numbered in order of insertion."""

    def __init__(self, tree: Any, dimension: int, max_squared_norm: float) -> None:
        # The root covers vectors up to `half` from it, which is near the origin: a tenth is room
        # for all roundings.
        self._half = 2.0 ** frexp(1.1 * (sqrt(max_squared_norm) + 1))[1]
        self._tree = tree.from_string(_frame(tree, dimension, self._half))
        self._dimension = dimension
        self.size = 0
        self.error = 2 * (dimension + 8) * 2.0**-24 * (2 * self._half + 1)

    def covers(self, max_squared_norm: float) -> bool:
        """True if vectors of at most this squared norm lie inside the frame."""
        return 1.1 * (sqrt(max_squared_norm) + 1) <= self._half

    def insert(self, vectors: NDArray[np.int16]) -> None:
        """Add rows; distinct, and inside the frame."""
        points = np.ascontiguousarray(vectors, np.float32)
        start = self.size + FRAME
        self._tree.insert(
            points, np.arange(start, start + len(points), dtype=np.int64), use_multi_core=0
        )
        self.size += len(points)
        if len(self._tree) != self.size + FRAME:
            raise LibraryAnswer(
                f"graphgrove holds {len(self._tree)} points after {self.size + FRAME} were inserted"
            )

    def nearest(self, centroid: Floats, count: int) -> _Answer:
        """The library's `count` nearest rows or more; `count` is at most `size`."""
        query = centroid.astype(np.float32).reshape(1, -1)
        ids, distances = self._tree.kNearestNeighbours(query, k=count + FRAME, use_multi_core=1)
        numbers, far = ids[0].astype(np.int64), distances[0].astype(np.float64)
        rows = numbers - FRAME
        if (
            rows.max() >= self.size
            or numbers.min() < 0
            or len(set(numbers.tolist())) < len(numbers)
        ):
            raise LibraryAnswer(
                f"graphgrove names points that it was not given, or one twice: {numbers[:5]}"
            )
        return _Answer(rows[rows >= 0], far[rows >= 0], float(far.max()) - self.error)


class GraphgroveIndex:
    """All live sentences of one entity in memory; the tree is as of the last search."""

    scan_cost = 1.0

    def __init__(self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None) -> None:
        """`scan` is read once, at the first use. Raises IndexUnavailable without the library."""
        self._library = library()
        self._dimension = dimension
        self._scan = scan
        self._vectors = GrowingArray(np.int16, dimension)  # distinct, a row each
        self._ids: list[set[bytes]] = []  # of each row; a row without any was removed
        self._row_of: dict[bytes, int] = {}
        self._row_of_vector: dict[bytes, int] = {}
        self._live = 0  # rows with ids
        self._max_squared_norm = 0.0  # of all rows
        self._tree: _Tree | None = None  # has the first rows, removed ones too

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of sentences and tree."""
        in_tree = self._tree.size if self._tree is not None else 0
        return (
            self._vectors.nbytes
            + (ROW_BYTES + 2 * self._dimension) * len(self._ids)
            + ID_BYTES * len(self._row_of)
            + (NODE_BYTES + 4 * self._dimension) * in_tree
        )

    def update(self, removed: Points, added: Points) -> None:
        """See `Index`. The tree gets new vectors at the next search."""
        self._read()
        for id_ in removed.ids:
            row = self._row_of.pop(id_, None)
            if row is None:
                raise UnknownSentence(f"sentence {id_!r} is not live")
            self._ids[row].discard(id_)
            self._live -= not self._ids[row]
        self._add(added.ids, added.vectors)
        if len(self._ids) > 2 * self._live:
            self._compact()

    def on_rows_written(self) -> None:
        """See `Index`. Everything is in memory, so there is nothing to release."""

    def totals(self, copies: Copies | None = None) -> Totals:
        self._read()
        counts = np.array([len(ids) for ids in self._ids], np.float64)
        if copies is not None:
            rows = self._live_rows()
            copies.take(self._vectors.rows[rows], counts[rows].astype(int).tolist())
            counts = np.minimum(counts, 1.0)
        total, max_squared_norm = np.zeros(self._dimension), 0.0
        for at in range(0, len(counts), TILE):
            x = self._vectors.rows[at : at + TILE].astype(np.float64)
            weights = counts[at : at + TILE]
            total += weights @ x
            max_squared_norm = max(max_squared_norm, float((np.vecdot(x, x) * (weights > 0)).max()))
        n = len(self._row_of) if copies is None else self._live
        return Totals(n, total, max_squared_norm)

    def nearest(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        self._read()
        tree = self._complete_tree()
        slack = certificate.slack(self._dimension, self._max_squared_norm)
        mean_squared = float(total @ total) / (n * n)
        ask = (count + 8) * tree.size // self._live  # as if removed ones were spread evenly
        while ask < tree.size:
            answer = tree.nearest(total / n, ask)
            keys = keys_of(self._vectors.rows[answer.rows], n, total)
            squared = keys / n + mean_squared
            if (
                (answer.distances - tree.error > certificate.uppers(squared, slack))
                | (answer.distances + tree.error < certificate.lowers(squared, slack))
            ).any():
                raise LibraryAnswer(
                    "graphgrove's distances are not those of the vectors it was given"
                )
            live = np.array([bool(self._ids[row]) for row in answer.rows.tolist()], bool)
            rows, keys = answer.rows[live], keys[live]
            limit = first_beyond(keys, count)
            if limit is not None:
                farthest = certificate.upper(limit / n + mean_squared, slack)
                if farthest < answer.certain * certificate.ROOTS:
                    return self._neighborhood(rows, keys, limit, ids_kept)
            ask *= 2
        rows = self._live_rows()
        keys = keys_of(self._vectors.rows[rows], n, total)
        return self._neighborhood(rows, keys, first_beyond(keys, count), ids_kept)

    def _read(self) -> None:
        """Load the stored sentences into memory, once."""
        if self._scan is None:
            return
        ids: list[bytes] = []
        parts = [np.empty((0, self._dimension), np.int16)]
        for block in self._scan():  # all of them, or none: a failure leaves the index as it was
            parts.append(block.vectors)
            ids += [block.id(row) for row in range(len(block.vectors))]
        self._scan = None
        self._add(ids, np.concatenate(parts))

    def _add(self, ids: Iterable[bytes], vectors: NDArray[np.int16]) -> None:
        data, width = vectors.tobytes(), 2 * self._dimension
        new = []
        for i, id_ in enumerate(ids):
            if id_ in self._row_of:
                raise DuplicateSentence(f"a sentence to add is live already: {id_!r}")
            vector = data[i * width : (i + 1) * width]
            row = self._row_of_vector.get(vector)
            if row is None:
                row = self._row_of_vector[vector] = len(self._ids)
                self._ids.append(set())
                new.append(i)
            self._live += not self._ids[row]
            self._ids[row].add(id_)
            self._row_of[id_] = row
        for at in range(0, len(new), TILE):
            fresh = vectors[new[at : at + TILE]]
            self._vectors.append(fresh)
            x = fresh.astype(np.float64)
            self._max_squared_norm = max(self._max_squared_norm, float(np.vecdot(x, x).max()))

    def _compact(self) -> None:
        """Drop removed rows, and the tree, which contains them."""
        rows = self._live_rows()
        self._vectors.keep(rows)
        self._ids = [self._ids[row] for row in rows.tolist()]
        self._row_of = {id_: row for row, ids in enumerate(self._ids) for id_ in ids}
        self._row_of_vector = {
            vector.tobytes(): row for row, vector in enumerate(self._vectors.rows)
        }
        self._tree = None

    def _live_rows(self) -> NDArray[np.int64]:
        return np.flatnonzero([bool(ids) for ids in self._ids])

    def _complete_tree(self) -> _Tree:
        if self._tree is None or not self._tree.covers(self._max_squared_norm):
            self._tree = _Tree(self._library, self._dimension, self._max_squared_norm)
        tree = self._tree
        while tree.size < len(self._ids):
            tree.insert(self._vectors.rows[tree.size : tree.size + TILE])
        return tree

    def _neighborhood(
        self, rows: NDArray[np.int64], keys: Floats, limit: float | None, ids_kept: int
    ) -> Neighborhood:
        inside = rows if limit is None else rows[keys < limit]
        ids = [self._ids[row] for row in inside.tolist()]
        return Neighborhood(
            self._vectors.rows[inside],
            [len(of_row) for of_row in ids],
            [sorted(of_row)[:ids_kept] for of_row in ids],
            limit,
        )
