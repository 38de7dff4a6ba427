"""The flat index: a refill looks at every sentence. Refills are rare, so this is the default.

Sentences are stored blocks read through `scan`, as of the last `settle`, under an overlay in memory of the updates
since; without `scan` all are in memory. A scan joins small blocks into matrices of `TILE` rows before it computes,
keeps the candidates below a limit that falls as it goes, and makes ids for those alone.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.errors import DuplicateSentence, UnknownSentence
from worker.coversumm.index import TILE, Block, Neighborhood, Totals, lowest
from worker.coversumm.points import Points


class _Tile(NamedTuple):
    """Rows of several blocks as one matrix; `id` finds the block a row came from."""

    vectors: NDArray[np.int16]
    blocks: list[Block]
    ends: list[int]

    def ids(self, rows: NDArray[np.int64]) -> list[bytes]:
        ends = np.array(self.ends)
        where = np.searchsorted(ends, rows, side="right").tolist()
        starts = [0, *self.ends]
        return [self.blocks[b].id(row - starts[b]) for b, row in zip(where, rows.tolist(), strict=True)]


class FlatIndex:
    """All live sentences of one entity, in memory or behind `scan`."""

    def __init__(self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None) -> None:
        self._dimension = dimension
        self._scan = scan
        self.scan_cost = (
            1.0 if scan is None else 16.0
        )  # a stored row is read, checked and joined before it is computed
        self._matrix = np.empty((0, dimension), np.int16)
        self._ids: list[bytes] = []
        self._rows: dict[bytes, int] = {}
        self._gone: set[bytes] = set()  # stored sentences that were removed since the last settle

    @property
    def memory_bytes(self) -> int:
        """Roughly what the sentences in memory take."""
        return self._matrix.nbytes + 200 * len(self._ids) + 120 * len(self._gone)

    def update(self, removed: Points, added: Points) -> None:
        """See `Index`. An unknown id to remove is noticed only without stored blocks."""
        for id_ in removed.ids:
            self._remove(id_)
        m = len(added.ids)
        if not m:
            return
        start = len(self._ids)
        if start + m > len(self._matrix):
            grown = np.empty((max(8, 2 * len(self._matrix), start + m), self._dimension), np.int16)
            grown[:start] = self._matrix[:start]
            self._matrix = grown
        self._matrix[start : start + m] = added.vectors
        self._ids.extend(added.ids)
        self._rows.update(zip(added.ids, range(start, start + m), strict=True))
        if len(self._rows) != len(self._ids):
            raise DuplicateSentence(f"a sentence to add is live already, one of {list(added.ids)[:3]!r}")

    def _remove(self, id_: bytes) -> None:
        row = self._rows.pop(id_, None)
        if row is None:
            if self._scan is None or id_ in self._gone:
                raise UnknownSentence(f"sentence {id_!r} is not live")
            self._gone.add(id_)
            return
        last = self._ids.pop()
        if row < len(self._ids):
            self._ids[row] = last
            self._rows[last] = row
            self._matrix[row] = self._matrix[len(self._ids)]

    def settle(self) -> None:
        """See `Index`."""
        if self._scan is not None:
            if len(self._matrix) > 64:
                self._matrix = np.empty((0, self._dimension), np.int16)
            self._ids.clear()
            self._rows.clear()
            self._gone.clear()

    def totals(self) -> Totals:
        """See `Index`."""
        n, total, longest = 0, np.zeros(self._dimension), 0.0
        for tile in self._tiles():
            vectors = tile.vectors
            if self._gone:
                ids = tile.ids(np.arange(len(vectors)))
                vectors = vectors[[id_ not in self._gone for id_ in ids]]
            n, total, longest = _add_up(n, total, longest, vectors)
        n, total, longest = _add_up(n, total, longest, self._matrix[: len(self._ids)])
        return Totals(n, total, longest)

    def nearest(self, n: int, total: NDArray[np.float64], count: int, ids_kept: int) -> Neighborhood:
        """See `Index`."""
        pool = _Pool(count, ids_kept, self._gone)
        for tile in self._tiles():
            pool.offer(_keys(tile.vectors, n, total), tile.vectors, tile.ids, stored=True)
        size = len(self._ids)
        if size:
            keys = _keys(self._matrix[:size], n, total)
            pool.offer(
                keys, self._matrix, lambda rows: [self._ids[row] for row in rows.tolist()], stored=False
            )
        return pool.neighborhood(self._dimension)

    def _tiles(self) -> Iterator[_Tile]:
        """The stored blocks, joined into matrices of at least TILE rows each but the last."""
        if self._scan is None:
            return
        blocks: list[Block] = []
        parts: list[NDArray[np.int16]] = []
        ends: list[int] = []
        rows = 0
        for block in self._scan():
            vectors = block.vectors
            rows += len(vectors)
            blocks.append(block)
            parts.append(vectors)
            ends.append(rows)
            if rows >= TILE:
                yield _Tile(np.concatenate(parts), blocks, ends)
                blocks, parts, ends, rows = [], [], [], 0
        if rows:
            yield _Tile(np.concatenate(parts), blocks, ends)


def _add_up(
    n: int, total: NDArray[np.float64], longest: float, vectors: NDArray[np.int16]
) -> tuple[int, NDArray[np.float64], float]:
    for at in range(0, len(vectors), TILE):
        v = vectors[at : at + TILE].astype(np.float64)
        total = total + v.sum(axis=0)
        longest = max(longest, float(np.vecdot(v, v).max()))
    return n + len(vectors), total, longest


def _keys(vectors: NDArray[np.int16], n: int, total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each vector's key, exact, computed a tile at a time."""
    keys = np.empty(len(vectors))
    tile = np.empty((TILE, vectors.shape[1]))
    for at in range(0, len(vectors), TILE):
        v = tile[: len(vectors) - at]
        v[:] = vectors[at : at + TILE]
        keys[at : at + TILE] = n * np.vecdot(v, v) - 2.0 * (v @ total)
    return keys


class _Group:
    """The copies of one vector seen so far; the ids are cut to the lowest from time to time."""

    __slots__ = ("count", "ids", "key")

    def __init__(self, key: float) -> None:
        self.key = key
        self.count = 0
        self.ids: list[bytes] = []


class _Pool:
    """The candidates of a pass: all live sentences seen so far with a key below `limit`."""

    def __init__(self, count: int, ids_kept: int, gone: set[bytes]) -> None:
        self._count = count
        self._ids_kept = ids_kept
        self._gone = gone
        self._limit = np.inf
        self._groups: dict[bytes, _Group] = {}  # by the vector's bytes

    def offer(
        self,
        keys: NDArray[np.float64],
        vectors: NDArray[np.int16],
        ids_of: Callable[[NDArray[np.int64]], list[bytes]],
        *,
        stored: bool,
    ) -> None:
        gone = self._gone if stored else None
        self._lower_limit(keys, len(gone) if gone else 0)
        rows = np.flatnonzero(keys < self._limit)
        if not len(rows):
            return
        for key, row, id_ in zip(keys[rows].tolist(), rows.tolist(), ids_of(rows), strict=True):
            if gone and id_ in gone:
                continue
            data = vectors[row].tobytes()
            group = self._groups.get(data)
            if group is None:
                group = self._groups[data] = _Group(key)
            group.count += 1
            group.ids.append(id_)
            if len(group.ids) >= 8 * self._ids_kept:
                group.ids = lowest(group.ids, self._ids_kept)
        if len(self._groups) > 4 * self._count:
            self._prune()

    def _lower_limit(self, keys: NDArray[np.float64], gone: int) -> None:
        """`count` distinct live vectors below some key of this batch alone make a limit.

        Distinct keys are distinct vectors, and each sentence that is gone spoils one key at most.
        """
        wanted = self._count + gone
        if len(keys) > 4 * wanted:
            lowest_keys = np.unique(np.partition(keys, 4 * wanted)[: 4 * wanted])
            if len(lowest_keys) <= wanted:
                lowest_keys = np.unique(keys)
            if len(lowest_keys) > wanted:
                self._limit = min(self._limit, float(lowest_keys[wanted]))

    def _prune(self) -> None:
        """Lower the limit to the first key beyond the `count` nearest vectors, and keep what is below."""
        groups = self._groups
        if len(groups) <= self._count:
            return
        keys = sorted([group.key for group in groups.values()])
        beyond = [key for key in keys[self._count :] if key > keys[self._count - 1]]
        if beyond:
            self._limit = min(self._limit, beyond[0])
            self._groups = {data: group for data, group in groups.items() if group.key < self._limit}

    def neighborhood(self, dimension: int) -> Neighborhood:
        self._prune()
        near = {data: group for data, group in self._groups.items() if group.key < self._limit}
        groups = near.values()
        return Neighborhood(
            np.frombuffer(b"".join(near), np.int16).reshape(-1, dimension).copy(),
            [group.count for group in groups],
            [lowest(group.ids, self._ids_kept) for group in groups],
            None if self._limit == np.inf else self._limit,
        )
