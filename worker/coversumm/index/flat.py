"""The flat index: a refill scans every sentence. Refills are rare, so this is the default.

Sentences are the stored blocks that `scan` reads, as of the last `on_rows_written`, under an
overlay in memory of the updates since; without `scan` all are in memory. A search joins small
blocks into tiles of at least `TILE` rows, keeps the candidates below a limit that falls during the
search, and makes ids for those alone. Loading an entity counts, then searches: the search reuses
the rows read.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.copies import Copies
from worker.coversumm.fixed_point import DuplicateSentence, UnknownSentence
from worker.coversumm.index import TILE, Block, Neighborhood, Totals
from worker.coversumm.matrix import GrowingArray
from worker.coversumm.points import Points

READ_ROWS = 8192  # stored rows, about six megabytes, held at once: from a count to the next search


class FlatIndex:
    """All live sentences of one entity, in memory or behind `scan`.

    >>> index = FlatIndex(2)
    >>> vectors = np.array([[0, 0], [3, 4], [3, 4], [9, 9]], np.int16)
    >>> index.update(Points([], vectors[:0]), Points([b"a", b"b", b"c", b"d"], vectors))
    >>> n, total, _ = index.totals()
    >>> n, total.tolist()
    (4, [15.0, 17.0])
    >>> found = index.nearest(n, total, count=1, ids_kept=5)
    >>> found.vectors.tolist(), found.counts, found.lowest_ids
    ([[3, 4]], [2], [[b'b', b'c']])
    """

    def __init__(self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None) -> None:
        self._dimension = dimension
        self._scan = scan
        # A stored row is read, checked and joined to others before its distance is computed.
        self.scan_cost = 1.0 if scan is None else 16.0
        self._vectors = GrowingArray(np.int16, dimension)
        self._ids: list[bytes] = []  # one a vector
        self._rows: dict[bytes, int] = {}  # by id
        self._removed: set[bytes] = set()  # stored sentences that are not live any more
        # Of stored sentences; few searches come before these are stored too.
        self._updates: list[tuple[Points, Points]] = []
        # all stored rows, if few, from a count to the next search
        self._read: list[_Tile] | None = None

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of the sentences in memory."""
        waiting = sum([added.vectors.nbytes + 200 * len(added.ids) for _, added in self._updates])
        held = self._vectors.nbytes + 200 * len(self._ids) + 120 * len(self._removed)
        return waiting + held

    def update(self, removed: Points, added: Points) -> None:
        """See `Index`. With stored blocks errors are noticed at the next search, an unknown id to
        remove never.
        """
        if self._scan is None:
            self._update(removed, added)
        else:
            self._updates.append((removed, added))

    def _apply_waiting(self) -> None:
        """Apply the updates that wait for a search."""
        for removed, added in self._updates:
            self._update(removed, added)
        self._updates.clear()

    def _update(self, removed: Points, added: Points) -> None:
        for id_ in removed.ids:
            self._remove(id_)
        m = len(added.ids)
        if not m:
            return
        start = len(self._ids)
        self._vectors.append(added.vectors)
        self._ids.extend(added.ids)
        self._rows.update(zip(added.ids, range(start, start + m), strict=True))
        if len(self._rows) != len(self._ids):
            raise DuplicateSentence(
                f"a sentence to add is live already, one of {list(added.ids)[:3]!r}"
            )

    def _remove(self, id_: bytes) -> None:
        row = self._rows.pop(id_, None)
        if row is None:
            if self._scan is None or id_ in self._removed:
                raise UnknownSentence(f"sentence {id_!r} is not live")
            self._removed.add(id_)
            return
        self._vectors.remove(row)
        last = self._ids.pop()
        if row < len(self._ids):
            self._ids[row] = last
            self._rows[last] = row

    def __contains__(self, id_: bytes) -> bool:
        """True if this sentence is live and in memory."""
        return id_ in self._rows

    def points(self, ids: Sequence[bytes]) -> Points:
        """Copies of the live sentences in memory with these ids. Raises UnknownSentence."""
        try:
            rows = [self._rows[id_] for id_ in ids]
        except KeyError as error:
            raise UnknownSentence(f"sentence {error} is not live") from None
        return Points(ids, self._vectors.rows[rows])

    def on_rows_written(self) -> None:
        self._read = None
        self._updates.clear()
        if self._scan is not None and (self._vectors.nbytes or self._removed):
            self._vectors.clear()
            self._ids.clear()
            self._rows.clear()
            self._removed.clear()

    def totals(self, copies: Copies | None = None) -> Totals:
        self._apply_waiting()
        totals = Totals(0, np.zeros(self._dimension), 0.0)
        read: list[_Tile] = []
        rows = 0
        for tile in self._tiles():
            vectors = tile.vectors
            rows += len(vectors)
            if rows <= READ_ROWS:
                read.append(tile)
            else:
                read.clear()
            if self._removed:
                ids = tile.ids(np.arange(len(vectors)))
                vectors = vectors[[id_ not in self._removed for id_ in ids]]
            totals = add_up(totals, vectors, copies)
        self._read = read if rows <= READ_ROWS else None
        return add_up(totals, self._vectors.rows, copies)

    def nearest(
        self, n: int, total: NDArray[np.float64], count: int, ids_kept: int
    ) -> Neighborhood:
        self._apply_waiting()
        candidates = SearchCandidates(count, ids_kept, self._removed)
        read, self._read = self._read, None
        for tile in self._tiles() if read is None else read:
            keys = keys_of(tile.vectors, n, total)
            candidates.offer(keys, tile.vectors, tile.ids, stored=True)
        if self._ids:
            vectors = self._vectors.rows
            candidates.offer(keys_of(vectors, n, total), vectors, self._ids_of, stored=False)
        return candidates.neighborhood(self._dimension)

    def _ids_of(self, rows: NDArray[np.int64]) -> list[bytes]:
        return [self._ids[row] for row in rows.tolist()]

    def _tiles(self) -> "Iterator[_Tile]":
        """The stored blocks, joined into tiles of at least TILE rows each but the last."""
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


class _Tile(NamedTuple):
    """The rows of several blocks as one matrix."""

    vectors: NDArray[np.int16]
    blocks: list[Block]
    ends: list[int]  # the row after each block's last

    def ids(self, rows: NDArray[np.int64]) -> list[bytes]:
        """The ids of some rows, each from the row's block."""
        ends = np.array(self.ends)
        where = np.searchsorted(ends, rows, side="right").tolist()
        starts = [0, *self.ends]
        return [
            self.blocks[b].id(row - starts[b]) for b, row in zip(where, rows.tolist(), strict=True)
        ]


def add_up(totals: Totals, vectors: NDArray[np.int16], copies: Copies | None = None) -> Totals:
    """The totals with these vectors, (m, D); with `copies` with those that it does not have yet."""
    n, total, max_squared_norm = totals
    if copies is not None:
        vectors = vectors[copies.take(vectors)]
    for at in range(0, len(vectors), TILE):
        x = vectors[at : at + TILE].astype(np.float64)
        total = total + x.sum(axis=0)
        max_squared_norm = max(max_squared_norm, float(np.vecdot(x, x).max()))
    return Totals(n + len(vectors), total, max_squared_norm)


def keys_of(vectors: NDArray[np.int16], n: int, total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each vector's key n*|x|^2 - 2*x.S, exact, computed a tile at a time."""
    keys = np.empty(len(vectors))
    tile = np.empty((min(TILE, len(vectors)), vectors.shape[1]))
    for at in range(0, len(vectors), TILE):
        x = tile[: len(vectors) - at]
        x[:] = vectors[at : at + TILE]
        keys[at : at + TILE] = n * np.vecdot(x, x) - 2.0 * (x @ total)
    return keys


class _Copies:
    """The copies of one vector seen so far; `ids` is cut to the lowest from time to time."""

    __slots__ = ("count", "ids", "key")

    def __init__(self, key: float) -> None:
        self.key = key
        self.count = 0
        self.ids: list[bytes] = []


class SearchCandidates:
    """The candidates of a search, by vector: all live sentences seen so far with a key below
    `limit`.

    At least `count` distinct live vectors have a key below the limit, so nothing at or above it
    counts.
    """

    def __init__(self, count: int, ids_kept: int, removed: Collection[bytes] = ()) -> None:
        self._count = count
        self._ids_kept = ids_kept
        self._removed = removed
        self._limit = np.inf
        self._copies: dict[bytes, _Copies] = {}  # by the vector's bytes

    def offer(
        self,
        keys: NDArray[np.float64],
        vectors: NDArray[np.int16],
        ids_of: Callable[[NDArray[np.int64]], list[bytes]],
        *,
        stored: bool,
    ) -> None:
        """Take in the rows below the limit; of `stored` ones those not removed since."""
        removed = self._removed if stored else None
        self._lower_limit(keys, len(removed) if removed else 0)
        rows = np.flatnonzero(keys < self._limit)
        if not len(rows):
            return
        for key, row, id_ in zip(keys[rows].tolist(), rows.tolist(), ids_of(rows), strict=True):
            if removed and id_ in removed:
                continue
            data = vectors[row].tobytes()
            copies = self._copies.get(data)
            if copies is None:
                copies = self._copies[data] = _Copies(key)
            copies.count += 1
            copies.ids.append(id_)
            if len(copies.ids) >= 8 * self._ids_kept:
                copies.ids = sorted(copies.ids)[: self._ids_kept]
        if len(self._copies) > 4 * self._count:
            self._prune()

    def _lower_limit(self, keys: NDArray[np.float64], removed: int) -> None:
        """Set the limit by these rows alone if `count` distinct live vectors lie below some key of
        theirs.

        Distinct keys are distinct vectors, and each removed sentence takes away at most one key.
        """
        wanted = self._count + removed
        if len(keys) > 4 * wanted:
            lowest_keys = np.unique(np.partition(keys, 4 * wanted)[: 4 * wanted])
            if len(lowest_keys) <= wanted:
                lowest_keys = np.unique(keys)
            if len(lowest_keys) > wanted:
                self._limit = min(self._limit, float(lowest_keys[wanted]))

    def _prune(self) -> None:
        """Lower the limit to the first key beyond the `count` nearest vectors."""
        if len(self._copies) <= self._count:
            return
        keys = sorted([copies.key for copies in self._copies.values()])
        beyond = [key for key in keys[self._count :] if key > keys[self._count - 1]]
        if beyond:
            self._limit = min(self._limit, beyond[0])
            self._copies = {
                data: copies for data, copies in self._copies.items() if copies.key < self._limit
            }

    def neighborhood(self, dimension: int) -> Neighborhood:
        """The result of `Index.nearest`."""
        self._prune()
        near = {data: copies for data, copies in self._copies.items() if copies.key < self._limit}
        return Neighborhood(
            np.frombuffer(b"".join(near), np.int16).reshape(-1, dimension).copy(),
            [copies.count for copies in near.values()],
            [sorted(copies.ids)[: self._ids_kept] for copies in near.values()],
            None if self._limit == np.inf else self._limit,
        )
