"""Committed rows under changes that are not committed yet."""

import threading
from bisect import bisect_left
from collections.abc import Iterator

from worker.state.store import Changes, Rows, successor


class Overlay:
    """Rows as they will be when all changes above them are stored; see `Rows`.

    Changes are added in the order in which they will be stored, and removed after that. In between
    both have the same content, so readers need not know which one they see. One thread may add
    while another removes and any thread reads.

    >>> from worker.state.store import MemoryRows
    >>> rows = Overlay(MemoryRows({b"a": b"1", b"b": b"1"}))
    >>> rows.add({b"a": None, b"c": b"2"})
    >>> list(rows.scan(b""))
    [(b'b', b'1'), (b'c', b'2')]
    """

    def __init__(self, stored: Rows) -> None:
        self._stored = stored
        # the newest first; replaced as a whole, so that readers need no lock
        self._layers: tuple[_Layer, ...] = ()
        self._lock = threading.Lock()

    def add(self, changes: Changes) -> None:
        """Lay these changes over the others; they must not be changed afterwards."""
        with self._lock:
            self._layers = (_Layer(changes), *self._layers)

    def remove(self, changes: Changes) -> None:
        """Remove changes that are stored, or discarded with all later ones; unknown ones are
        ignored.
        """
        with self._lock:
            self._layers = tuple(layer for layer in self._layers if layer.changes is not changes)

    def get(self, key: bytes) -> bytes | None:
        for layer in self._layers:
            if key in layer.changes:
                return layer.changes[key]
        return self._stored.get(key)

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        changes: dict[bytes, bytes | None] = {}
        # looked at before the stored rows: none is missed that is taken away now
        for layer in reversed(self._layers):
            changes |= layer.between(max(prefix, start or prefix), successor(prefix))
        stored = self._stored.scan(prefix, start)
        return _merged(stored, sorted(changes.items())) if changes else stored


class _Layer:
    """Some changes; their keys are sorted at the first scan."""

    __slots__ = ("_keys", "changes")

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self._keys: list[bytes] | None = None

    def between(self, first: bytes, end: bytes | None) -> dict[bytes, bytes | None]:
        """The changes from key `first` to before `end` (None: to the last)."""
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
    """Both in key order; a change replaces the row of its key."""
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
