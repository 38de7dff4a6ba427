"""Committed rows under changes that are on their way to them, so that what comes next can be worked
out meanwhile.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator

from worker.state.store import Changes, Rows, successor


class Overlay:
    """Rows as they will be when all changes above them are stored; see `Rows`.

    Changes are laid over the rows in the order in which they are going to be stored, and taken away
    after they are: in between both say the same, so whoever reads need not know which of the two it
    was. One thread may lay over while another one takes away and any of them reads.

    >>> from worker.state.store import MemoryRows
    >>> rows = Overlay(MemoryRows({b"a": b"1", b"b": b"1"}))
    >>> rows.add({b"a": None, b"c": b"2"})
    >>> list(rows.scan(b""))
    [(b'b', b'1'), (b'c', b'2')]
    """

    def __init__(self, stored: Rows) -> None:
        """`stored`: what lies below."""
        self._stored = stored
        # the newest first; replaced as a whole, so that readers need no lock
        self._layers: tuple[_Layer, ...] = ()
        self._lock = threading.Lock()

    def add(self, changes: Changes) -> None:
        """Lay these changes over all that is there; they are changed no more."""
        with self._lock:
            self._layers = (_Layer(changes), *self._layers)

    def remove(self, changes: Changes) -> None:
        """These changes are stored, or thrown away with all that came after them; nothing where
        they are not there.
        """
        with self._lock:
            self._layers = tuple(layer for layer in self._layers if layer.changes is not changes)

    def get(self, key: bytes) -> bytes | None:
        """See `Rows`."""
        for layer in self._layers:
            if key in layer.changes:
                return layer.changes[key]
        return self._stored.get(key)

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows`."""
        changes: dict[bytes, bytes | None] = {}
        # looked at before the stored rows: none is missed that is taken away now
        for layer in reversed(self._layers):
            changes |= layer.between(max(prefix, start or prefix), successor(prefix))
        stored = self._stored.scan(prefix, start)
        return _merged(stored, sorted(changes.items())) if changes else stored


class _Layer:
    """Some changes, and their keys in order once somebody scans."""

    __slots__ = ("_keys", "changes")

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self._keys: list[bytes] | None = None

    def between(self, first: bytes, end: bytes | None) -> dict[bytes, bytes | None]:
        """Those from a key to before another one; None: to the last."""
        if self._keys is None:
            self._keys = sorted(self.changes)
        keys = self._keys
        start = bisect_left(keys, first)
        return {
            key: self.changes[key]
            for key in keys[start : None if end is None else bisect_left(keys, end)]
        }


def _merged(
    stored: Iterator[tuple[bytes, bytes]], changes: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Both in the order of their keys; where both have one, the change counts."""
    waiting = iter(changes)
    changed, new = next(waiting, (None, None))
    for key, value in stored:
        while changed is not None and changed < key:
            if new is not None:
                yield changed, new
            changed, new = next(waiting, (None, None))
        if changed != key:
            yield key, value
    while changed is not None:
        if new is not None:
            yield changed, new
        changed, new = next(waiting, (None, None))
