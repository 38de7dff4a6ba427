"""The judge: its history is the definition's, and what differs from it in one place is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.judge import (
    added,
    brute_force,
    brute_force_removing,
    id_of,
    percent,
    removed,
    right_steps,
)
from worker.coversumm import EntityCore, FlatIndex
from worker.coversumm import brute_force as definition
from worker.coversumm.ranking import Ranking

TIED = st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=1, max_size=12)


def by_definition(vectors, rows, k):
    return [int(id_) for id_ in definition({id_of(row): vectors[row] for row in rows}, k).ids]


@given(TIED, st.integers(1, 5), st.randoms(use_true_random=False))
def test_history_is_the_definition(points, k, random):
    vectors = np.array(points, np.int16)
    n = len(vectors)
    assert [rows.tolist() for rows in brute_force(vectors, k)] == [
        by_definition(vectors, range(t), k) for t in range(1, n + 1)
    ]
    gone = random.sample(range(n), n)
    assert [rows.tolist() for rows in brute_force_removing(vectors, gone[:-1], k)] == [
        by_definition(vectors, sorted(set(range(n)) - set(gone[:t])), k) for t in range(1, n)
    ]
    assert [rows.tolist() for rows in brute_force_removing(vectors, gone, k)][-1:] == [[]]


def test_steps_are_rows():
    vectors = np.arange(6, dtype=np.int16).reshape(3, 2)
    index = FlatIndex(2)
    core = EntityCore(3, 2, index)
    core.apply(added(vectors))
    core.apply(added(vectors, 3))
    core.apply(removed(vectors, [2, 0]))
    assert core.n == 4
    assert index.totals().total.tolist() == [2 + 0 + 2 + 4, 3 + 1 + 3 + 5]


ORACLE = [np.array(rows) for rows in ([0], [0, 1], [1, 2], [2, 1])]


def ranking(*rows):
    return Ranking(tuple(id_of(row) for row in rows), (), 1, [], np.zeros(1), 1)


@pytest.mark.parametrize(
    "form", [list, np.array, lambda rows: tuple(map(id_of, rows)), lambda rows: ranking(*rows)]
)
def test_every_form_of_an_answer(form):
    assert right_steps([form([0]), form([0, 1]), form([1, 2]), form([2, 1])], ORACLE) == 4


@pytest.mark.parametrize("wrong", [[1, 0], [0], [0, 2], [0, 1, 2], []])
def test_one_wrong_place_is_a_wrong_step(wrong):
    assert right_steps([[0], wrong, [1, 2], [2, 1]], ORACLE) == 3


def test_silence_means_the_same_set():
    assert right_steps([ranking(0), ranking(0, 1), ranking(1, 2), None], ORACLE) == 4
    assert right_steps([ranking(0), None, ranking(1, 2), None], ORACLE) == 3
    assert right_steps([ranking(0), ranking(0, 2), ranking(1, 2), ranking(1, 2)], ORACLE) == 2
    assert right_steps([None], ORACLE[:1]) == 0
    assert right_steps([None], ORACLE[:1], before=[ranking(3), ranking(0), None]) == 1
    assert right_steps([None], ORACLE[:1], before=[ranking(0), ranking(3), None]) == 0


def test_every_step_is_judged():
    with pytest.raises(ValueError, match="zip"):
        right_steps([[0]], ORACLE)


def test_nearly_all_is_not_all():
    assert percent(10, 10) == 100.0
    assert percent(9_999_999, 10_000_000) == 99.9999
    assert percent(1, 3) == 33.3333
