"""The core in native code says what the definition says after every step."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import assume, given, settings
from numpy.typing import NDArray

from tests.bench import judge
from tests.coversumm.scripts import Script, points, scripts
from worker.coversumm import Points, Step

pytestmark = pytest.mark.native


def core(k: int, dimension: int, **options: bool):
    return import_module("worker._native").Core(k, dimension, **options)


@settings(max_examples=100, deadline=None)
@given(scripts())
def test_steps_are_the_oracle(script: Script) -> None:
    assume(not script.by_text)
    native = core(script.k, script.dimension, distinct=script.distinct)
    expected = [ranking and ranking.ids for ranking in script.expected()]
    assert native.apply(script.steps) == expected
    last = script.oracle(-1)
    assert native.ranking() == [*zip(last.ids, last.distances(), last.support, strict=True)]
    live = script.live[-1] if script.live else {}
    assert len(native) == len(live)
    assert all(id_ in native for id_ in live)


def stream(kind: str, n: int, dimension: int) -> NDArray[np.int16]:
    """Vectors of a kind, an eighth of them copies."""
    rng = np.random.default_rng(len(kind))
    turn = np.linspace(0, 3, n)[:, None] * np.eye(dimension)[0]
    vectors = {
        "uniform": rng.integers(-32767, 32768, (n, dimension)),
        "drifting": np.rint(3000 * (turn + rng.normal(size=(n, dimension)) / 2)),
        "grid": rng.integers(-1, 2, (n, dimension)),
        "clusters": 900 * rng.integers(0, 9, (n, 1)) + rng.integers(-99, 100, (n, dimension)),
    }[kind]
    copies = rng.random(n) < 1 / 8
    vectors[copies] = vectors[rng.integers(n, size=int(copies.sum()))]
    return vectors.astype(np.int16)


@pytest.mark.parametrize(("dimension", "k"), [(4, 20), (100, 1)])
@pytest.mark.parametrize("kind", ["uniform", "drifting", "grid", "clusters"])
def test_long_streams(kind: str, dimension: int, k: int) -> None:
    """Squares are above and below 2^31. All sentences come, and most go again."""
    vectors = stream(kind, 2000, dimension)
    native = core(k, dimension)
    said = native.apply(judge.added(vectors))
    assert judge.right_steps(said, judge.brute_force(vectors, k)) == 2000
    gone = np.random.default_rng(1).permutation(2000)[:1900].tolist()
    oracle = judge.brute_force_removing(vectors, gone, k)
    removals = native.apply(judge.removed(vectors, gone))
    assert judge.right_steps(removals, oracle, said) == 1900
    assert native.searches > 0 or kind != "drifting"
    assert native.reservoir_size <= 256


@pytest.mark.parametrize("kind", ["uniform", "drifting", "clusters"])
def test_searches_in_parts(kind: str) -> None:
    """A search of so many takes more than one step, each of which removes one and adds another."""
    live, steps, k = 4500, 600, 5
    x = stream(kind, live + steps, 3).astype(np.float64)
    vectors = x.astype(np.int16)
    native = core(k, 3)
    native.apply(judge.added(vectors[:live]))
    before, rng, squares = native.searches, np.random.default_rng(2), np.square(x).sum(axis=1)
    rows = list(range(live))
    for new in range(live, live + steps):
        at = int(rng.integers(live)) if new % 3 else int(np.argmin(squares[rows]))
        (gone,) = judge.removed(vectors, [rows[at]])
        native.apply([gone._replace(added=judge.added(vectors[new : new + 1], new)[0].added)])
        rows[at] = new
        order = np.sort(rows)
        keys = live * squares[order] - 2 * (x[order] @ x[order].sum(axis=0))
        ranked = order[np.argsort(keys, kind="stable")[:k]]
        assert judge.rows_named([id_ for id_, _, _ in native.ranking()]) == ranked.tolist()
    assert native.searches > before + 2


@pytest.mark.parametrize(
    ("removed", "added", "error"),
    [
        ([(b"x", [1, 2])], [], KeyError),
        ([], [(b"a", [1, 2])], ValueError),
        ([], [(b"x", [1, 2, 3])], ValueError),
    ],
)
def test_a_broken_step_is_refused(removed, added, error) -> None:
    native = core(2, 2)
    native.apply([Step(points([], 2), points([(b"a", [3, 4])], 2))])
    wide = max((len(vector) for _, vector in added), default=2)
    with pytest.raises(error):
        native.apply([Step(points(removed, 2), points(added, wide))])


def test_a_step_of_thousands_does_not_compare_each_pair() -> None:
    vectors = stream("clusters", 5000, 3)
    native = core(5, 3)
    native.apply([Step(points([], 3), Points([b"%04d" % at for at in range(5000)], vectors))])
    assert native.searches > 0
    assert native.reservoir_size < 1000
    expected = [b"%04d" % row for row in judge.brute_force(vectors, 5)[-1]]
    assert [id_ for id_, _, _ in native.ranking()] == expected


def test_a_step_that_does_not_fit_changes_nothing() -> None:
    wide = 1_000_000
    vectors = np.full((1, wide), 32767, np.int16)
    native, nothing = core(1, wide), points([], wide)
    for id_ in (b"a", b"b"):
        native.apply([Step(nothing, Points([id_], vectors))])
    gone = Points([b"a"], nothing.vectors)
    with pytest.raises(OverflowError, match="do not fit"):
        native.apply([Step(gone, Points([b"c", b"d"], np.repeat(vectors, 2, axis=0)))])
    assert (b"a" in native, len(native)) == (True, 2)
    native.apply([Step(gone, Points([b"c"], vectors))])
    assert native.ranking() == [(b"b", 0.0, 2)]


def test_other_numbers_are_refused() -> None:
    step = Step(points([], 2), points([(b"a", [3, 4])], 2))
    floats = step.added._replace(vectors=step.added.vectors.astype(np.float32))
    with pytest.raises(BufferError):
        core(2, 2).apply([step._replace(added=floats)])
    for k, dimension in [(0, 2), (2, 0)]:
        with pytest.raises(ValueError, match="at least 1"):
            core(k, dimension)
