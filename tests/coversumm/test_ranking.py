"""Distances to the last digit, and how equals and copies are expanded."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.coversumm.ranking import distances, expand


def exact_distance(key: int, n: int, total: list[int], scale: int) -> float:
    with localcontext() as context:
        context.prec = 120
        squared = Decimal(n * key + sum(s * s for s in total)) / Decimal((n * scale) ** 2)
        return float(squared.sqrt().quantize(Decimal("0.000001"), ROUND_HALF_UP))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_distances_are_exact(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 3, 17, 1000, 2_000_000]))
    coordinate = st.integers(-32767, 32767)
    x = data.draw(st.lists(st.lists(coordinate, min_size=3, max_size=3), min_size=1, max_size=4))
    mean = data.draw(st.lists(coordinate, min_size=3, max_size=3))
    if data.draw(st.booleans()):
        mean = x[0]  # distance zero or next to it
    total = [c * n + data.draw(st.integers(-2, 2)) for c in mean]
    keys = sorted(
        n * sum(c * c for c in v) - 2 * sum(c * s for c, s in zip(v, total, strict=True)) for v in x
    )
    keys = [key for key in keys if n * key + sum(s * s for s in total) >= 0]
    scale = data.draw(st.sampled_from([32767, 1, 1000]))
    ours = distances([float(key) for key in keys], n, np.array(total, np.float64), scale)
    assert ours == tuple(exact_distance(key, n, total, scale) for key in keys)


def test_a_half_goes_up() -> None:
    """d = 1 / scale: half a millionth goes up to one, a hair less goes down."""
    assert distances([1.0], 1, np.zeros(1), 2_000_000) == (0.000001,)
    assert distances([1.0], 1, np.zeros(1), 2_000_001) == (0.0,)


LOW = [[b"d"], [b"a", b"c"], [b"b"], [b"e", b"f", b"g"]]


def test_equals_are_merged_by_id() -> None:
    ids, owners, keys = expand([0, 1, 2], [5.0, 5.0, 5.0], LOW, 3, distinct=False)
    assert (ids, owners, keys) == ([b"a", b"b", b"c"], [1, 2, 1], [5.0] * 3)
    assert expand([0, 1, 2], [5.0, 5.0, 5.0], LOW, 2, distinct=True)[0] == [b"a", b"b"]


def test_copies_are_cut_at_k() -> None:
    assert expand([3, 0], [1.0, 2.0], LOW, 2, distinct=False)[0] == [b"e", b"f"]
    assert expand([3, 0], [1.0, 2.0], LOW, 4, distinct=False)[0] == [b"e", b"f", b"g", b"d"]
    assert expand([3, 0], [1.0, 2.0], LOW, 2, distinct=True)[0] == [b"e", b"d"]
