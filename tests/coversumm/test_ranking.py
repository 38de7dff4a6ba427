"""Distances to the last digit."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.coversumm.ranking import Ranking, distances, measure


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


@pytest.mark.parametrize("n", [1, 17, 1000, 2_000_000])
def test_rounding_is_decided_by_integers(n: int) -> None:
    """Long vectors, small distances and a unit that shows them: float64 alone would often round the
    wrong way.

    A distance of m millionths is right iff (m - 1/2)^2 <= d^2 * 10^12 < (m + 1/2)^2.
    """
    rng = np.random.default_rng(n)
    wrong = 0
    for spread in (1, 30, 1000, 30_000):
        for _ in range(500):
            x = rng.integers(-32767, 32768, 8)
            total = n * x + rng.integers(-spread * n, spread * n + 1, 8)
            key = n * int(x @ x) - 2 * int(x @ total)
            numerator = n * key + sum(int(s) ** 2 for s in total)
            (found,) = distances([float(key)], n, total.astype(np.float64), 1)
            doubled = 2 * round(found * 10**6)
            assert (doubled - 1) ** 2 * n * n <= 4 * 10**12 * numerator < (doubled + 1) ** 2 * n * n
            mean = total / n
            naive = np.sqrt(max(key / n + float(mean @ mean), 0.0))
            wrong += round(float(naive), 6) != found
    assert n == 1 or wrong > 0


def test_exact_halves_go_up_whatever_float64_says() -> None:
    """The centroid is an odd number of units from x, half-millionths at this scale; |S|^2 is far
    beyond 2^53.
    """
    rng = np.random.default_rng(0)
    n = 2_000_000
    for _ in range(200):
        x = rng.integers(-32767, 32768, 8)
        away = 2 * int(rng.integers(0, 1000)) + 1
        total = n * x
        total[0] += n * away
        key = n * int(x @ x) - 2 * int(x @ total)
        found = distances([float(key)], n, total.astype(np.float64), 2_000_000)
        assert found == ((away + 1) // 2 / 10**6,)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2_000_000)), max_size=5),
    st.integers(0, 2**32),
)
def test_rankings_measured_together_have_the_distances_of_each(
    shapes: list[tuple[int, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)

    def rankings() -> list[Ranking]:
        chance = np.random.default_rng(seed)
        made = []
        for count, n in shapes:
            x = chance.integers(-32767, 32768, (count, 8))
            total = n * chance.integers(-3000, 3000, 8)
            keys = sorted(float(n * (v @ v) - 2 * (v @ total)) for v in x)
            ids = tuple(b"r#%d" % i for i in range(count))
            made.append(Ranking(ids, (1,) * count, n, keys, total.astype(np.float64)))
        return made

    together, alone = rankings(), rankings()
    for ranking in together:
        if rng.random() < 0.3:
            ranking.distances()  # some have theirs already
    measure(together)
    assert together == alone
