"""How equal keys and copies are expanded into sentences."""

from __future__ import annotations

from worker.coversumm.knn import expand

LOW = [[b"d"], [b"a", b"c"], [b"b"], [b"e", b"f", b"g"]]


def test_equals_are_merged_by_id() -> None:
    ids, owners, keys = expand([0, 1, 2], [5.0, 5.0, 5.0], LOW, 3, distinct=False)
    assert (ids, owners, keys) == ([b"a", b"b", b"c"], [1, 2, 1], [5.0] * 3)
    assert expand([0, 1, 2], [5.0, 5.0, 5.0], LOW, 2, distinct=True)[0] == [b"a", b"b"]


def test_copies_are_cut_at_k() -> None:
    assert expand([3, 0], [1.0, 2.0], LOW, 2, distinct=False)[0] == [b"e", b"f"]
    assert expand([3, 0], [1.0, 2.0], LOW, 4, distinct=False)[0] == [b"e", b"f", b"g", b"d"]
    assert expand([3, 0], [1.0, 2.0], LOW, 2, distinct=True)[0] == [b"e", b"d"]
