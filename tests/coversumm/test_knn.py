"""How equal keys and copies become ranked rows and ids."""

from __future__ import annotations

import numpy as np
import pytest

from worker.coversumm.knn import knn
from worker.coversumm.reservoir import Reservoir

SENTENCES = [(9, b"d"), (1, b"a"), (1, b"c"), (-1, b"b"), (5, b"e"), (5, b"f"), (5, b"g")]


@pytest.mark.parametrize(
    ("k", "distinct", "ids", "next_key"),
    [
        (2, False, [b"a", b"b"], 1.0),  # a copy of the first is as near
        (3, False, [b"a", b"b", b"c"], 25.0),
        (4, False, [b"a", b"b", b"c", b"e"], 25.0),
        (6, False, [b"a", b"b", b"c", b"e", b"f", b"g"], 81.0),
        (9, False, [b"a", b"b", b"c", b"e", b"f", b"g", b"d"], np.inf),
        (2, True, [b"a", b"b"], 25.0),
        (3, True, [b"a", b"b", b"e"], 81.0),
    ],
)
def test_equal_keys_are_ordered_by_id_and_copies_cut_at_k(
    k: int, distinct: bool, ids: list[bytes], next_key: float
) -> None:
    reservoir = Reservoir(1, 1 if distinct else k)
    for x, id_ in SENTENCES:
        reservoir.insert(np.array([x], np.int16), float(x * x), id_)
    found = knn(reservoir, 1, np.zeros(1), k, distinct)
    assert reservoir.ids_of(found.rows) == ids
    assert found.keys == [float(x * x) for id_ in ids for x, name in SENTENCES if name == id_]
    assert found.next_key == next_key
