"""Rows under changes that are on their way to them: the same as the rows with the changes, before
and after they are stored.
"""

from hypothesis import given
from hypothesis import strategies as st

from worker.state import MemoryRows
from worker.state.overlay import Overlay

KEYS = st.text("ab\xff", max_size=3).map(lambda text: text.encode("latin-1"))
ROWS = st.dictionaries(KEYS, st.binary(max_size=2), max_size=12)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=2), max_size=12)


def looks(rows, prefix, start):
    """All that can be asked."""
    return [
        rows.get(prefix),
        list(rows.scan(prefix)),
        list(rows.scan(prefix, start)),
        list(rows.scan(b"")),
    ]


@given(ROWS, st.lists(CHANGES, max_size=3), KEYS, KEYS, st.data())
def test_it_looks_as_the_rows_will(stored, layers, prefix, start, data):
    """Also while some are stored already and not taken away yet, or taken away."""
    rows, wanted = MemoryRows(stored), MemoryRows(stored)
    overlay = Overlay(rows)
    for changes in layers:
        overlay.add(changes)
        wanted.write(changes)
    expected = looks(wanted, prefix, start)
    assert looks(overlay, prefix, start) == expected
    for changes in layers[: data.draw(st.integers(0, len(layers)))]:
        rows.write(changes)
        assert looks(overlay, prefix, start) == expected
        overlay.remove(changes)
        assert looks(overlay, prefix, start) == expected


def test_a_scan_goes_on_as_it_began():
    rows = MemoryRows({b"a": b"1", b"b": b"1", b"c": b"1"})
    overlay = Overlay(rows)
    changes = {b"b": b"2", b"d": b"2"}
    overlay.add(changes)
    scan = overlay.scan(b"")
    assert next(scan) == (b"a", b"1")
    rows.write(changes)
    overlay.remove(changes)
    overlay.add({b"c": None})
    assert list(scan) == [(b"b", b"2"), (b"c", b"1"), (b"d", b"2")]


def test_changes_that_are_not_there_are_taken_away_in_vain():
    """Equal ones are others: what is on its way twice goes twice."""
    overlay = Overlay(MemoryRows())
    first, second = {b"a": b"1"}, {b"a": b"1"}
    overlay.add(first)
    overlay.add(second)
    overlay.remove({b"a": b"1"})
    overlay.remove(second)
    assert overlay.get(b"a") == b"1"
    overlay.remove(first)
    assert overlay.get(b"a") is None


class OvertakenRows(MemoryRows):
    """Stored rows; after each read of them another thread stores a change and takes it away."""

    def __init__(self, rows):
        super().__init__(rows)
        self.overlay = Overlay(self)
        self.changes = {b"n": b"1"}
        self.overlay.add(self.changes)

    def get(self, key):
        found = super().get(key)
        self._overtake()
        return found

    def scan(self, prefix, start=None):
        found = list(super().scan(prefix, start))
        self._overtake()
        return iter(found)

    def _overtake(self):
        self.write(self.changes)
        self.overlay.remove(self.changes)


def test_changes_that_are_taken_away_during_a_read_are_seen():
    """The stored rows of the moment before must not win."""
    rows = {b"n": b"0", b"other": b"0"}
    assert OvertakenRows(rows).overlay.get(b"n") == b"1"
    assert dict(OvertakenRows(rows).overlay.scan(b"")) == {b"n": b"1", b"other": b"0"}
