"""Copies of each distinct vector of a set: live sentences, for a set in which a vector counts
once.

A vector is known by its digest. Most have one copy: their digests are a sorted array of 16 bytes
each, and a dictionary has what differs from it.
"""

from collections.abc import Iterable
from hashlib import blake2b
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import UnknownSentence
from worker.coversumm.points import Points

FEWEST = 256  # entries of the dictionary from which on it may be settled
ENTRY_BYTES = 130  # of the dictionary: a digest and a slot


def digest(vector: NDArray[np.int16]) -> bytes:
    """A short key for a vector, (D,)."""
    return blake2b(vector.data, digest_size=16).digest()


class Net(NamedTuple):
    """The changes of a step."""

    left: NDArray[np.int16]  # vectors that have no live sentence any more, (l, D)
    joined: list[int]  # rows of the added ones that are the first of their vector
    counts: dict[bytes, int]  # after it
    live: int  # after it


class Copies:
    """The number of live sentences of each distinct vector.

    >>> copies = Copies()
    >>> vectors = np.array([[1, 2], [3, 4], [1, 2]], np.int16)
    >>> copies.take(vectors)
    [0, 1]
    >>> net = copies.net(Points([b"a"], vectors[:1]), Points([b"b"], vectors[1:2]))
    >>> net.left.tolist(), net.joined  # one is left of the first, and the other has two now
    ([], [])
    """

    def __init__(self) -> None:
        self.live = 0  # sentences
        self._once = np.empty(0, "S16")  # digests, sorted, of one copy unless `_counts` has them
        self._counts: dict[bytes, int] = {}
        self._room = FEWEST

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return self._once.nbytes + ENTRY_BYTES * len(self._counts)

    def take(self, vectors: NDArray[np.int16], counts: Iterable[int] = repeat(1)) -> list[int]:
        """Take in live sentences, `counts` of each vector (m, D); which rows are the first of
        theirs.
        """
        first = []
        for row, (vector, added) in enumerate(zip(vectors, counts, strict=False)):
            key = digest(vector)
            before = self._count(key)
            if not before:
                first.append(row)
            self._counts[key] = before + added
            self.live += added
        return first

    def net(self, removed: Points, added: Points) -> Net:
        """The changes that a step would make. Raises UnknownSentence if a vector to remove has
        none.
        """
        before: dict[bytes, int] = {}
        counts: dict[bytes, int] = {}
        row_of: dict[bytes, int] = {}
        for points, change in ((removed, -1), (added, 1)):
            for row, vector in enumerate(points.vectors):
                key = digest(vector)
                if key not in before:
                    before[key] = counts[key] = self._count(key)
                counts[key] += change
                if counts[key] < 0:
                    raise UnknownSentence(f"sentence {points.ids[row]!r} is not live")
                if change < 0 or (key not in row_of and not before[key]):
                    row_of[key] = row
        left = [row_of[key] for key, count in counts.items() if before[key] and not count]
        joined = [row_of[key] for key, count in counts.items() if count and not before[key]]
        live = self.live - len(removed.ids) + len(added.ids)
        gone = removed.vectors[left] if left else removed.vectors[:0]
        return Net(gone, joined, counts, live)

    def apply(self, net: Net) -> None:
        """Carry out such a step."""
        self._counts |= net.counts
        self.live = net.live
        if len(self._counts) > self._room:
            self.settle()

    def settle(self) -> None:
        """Keep as little as possible in the dictionary."""
        changed, counts = np.array(list(self._counts), "S16"), self._counts
        once = np.array([key for key, count in counts.items() if count == 1], "S16")
        others = self._once[~np.isin(self._once, changed)]
        self._once = np.sort(np.concatenate((others, once)))
        self._counts = {key: count for key, count in counts.items() if count > 1}
        self._room = len(self._counts) + max(FEWEST, len(self._counts), len(self._once) // 8)

    def _count(self, key: bytes) -> int:
        found, once = self._counts.get(key), self._once
        if found is not None or not len(once):
            return found or 0
        at = int(once.searchsorted(key))
        # NumPy leaves out zeros at the end of bytes.
        return int(at < len(once) and once[at] == key.rstrip(b"\0"))
