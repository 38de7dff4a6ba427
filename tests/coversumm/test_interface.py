"""CoverSumm for a notebook: equal to brute force after every call, and clear about what
it refuses.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.oracle import brute_force
from worker.coversumm import (
    CoverSumm,
    DuplicateSentence,
    RankedSentence,
    UnknownSentence,
    VectorError,
    quantize,
)


def truth(live: dict[str, list[float]], k: int, *, distinct: bool) -> list[RankedSentence]:
    """What a search of all live sentences finds."""
    if not live:
        return []
    vectors = zip(live, quantize(list(live.values())), strict=True)
    ranking = brute_force({id_.encode(): vector for id_, vector in vectors}, k, distinct=distinct)
    rows = zip(ranking.ids, ranking.distances(), ranking.support, strict=True)
    return [RankedSentence(id_.decode(), distance, support) for id_, distance, support in rows]


# Few directions, so that there are copies and ties; ids that are no ASCII.
VECTORS = st.lists(st.sampled_from([0.0, 1.0, 1.0, -2.0]), min_size=3, max_size=3).filter(any)
STEPS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ä", "日本", "z", "", "b2", "b10"]), VECTORS),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize("is_native", [True, False])
@given(steps=STEPS, k=st.integers(1, 4), distinct=st.booleans())
def test_equals_brute_force_after_every_call(
    is_native: bool, steps: list[tuple[str, list[float]]], k: int, distinct: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not is_native:
            patch.setattr("worker.coversumm.interface.native_module", lambda: None)
        core, live = CoverSumm(k, 3, distinct=distinct), {}
    before: set[str] = set()
    for id_, vector in steps:
        if id_ in live:
            del live[id_]
            changed = core.remove(id_)
        else:
            live[id_] = vector
            changed = core.add(id_, vector)
        expected = truth(live, k, distinct=distinct)
        assert core.summary() == expected
        assert changed == ({sentence.id for sentence in expected} != before)
        assert (len(core), id_ in core) == (len(live), id_ in live)
        before = {sentence.id for sentence in expected}


def test_many_at_once_are_as_good_as_one_by_one() -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((500, 16)).astype(np.float32) + 1
    ids = [f"r{i}#0" for i in range(500)]
    at_once, one_by_one = CoverSumm(7, 16), CoverSumm(7, 16)
    assert at_once.add_many(ids, vectors)
    for id_, vector in zip(ids, vectors, strict=True):
        one_by_one.add(id_, vector)
    assert at_once.summary() == one_by_one.summary()
    shown = [sentence.id for sentence in at_once.summary()]
    assert at_once.remove_many(shown)
    assert not {sentence.id for sentence in at_once.summary()} & set(shown)
    live = {id_: row.tolist() for id_, row in zip(ids, vectors, strict=True) if id_ not in shown}
    assert at_once.summary() == truth(live, 7, distinct=False)


@pytest.mark.long
@pytest.mark.native
@pytest.mark.parametrize("seed", range(4))
def test_both_forms_say_the_same_at_every_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a stream that drifts grows and shrinks over the sizes at which native code changes its
    ways, one sentence at a time there.
    """
    rng, distinct = np.random.default_rng(seed), bool(seed % 2)
    k, dimension = [1, 5, 20, 3][seed], [3, 8, 40, 3][seed]
    forms = [CoverSumm(k, dimension, distinct=distinct)]
    monkeypatch.setattr("worker.coversumm.interface.native_module", lambda: None)
    forms.append(CoverSumm(k, dimension, distinct=distinct))
    live: list[str] = []
    made = changes = 0
    for bound, grows in ((4150, True), (150, False), (300, True)):
        while (len(live) < bound) == grows:
            near = min(abs(len(live) - size) for size in (256, 4096)) < 9
            count = 1 if near else int(rng.integers(1, 150))
            if (rng.random() < 0.75) == grows:
                ids = [f"r{made + at}#0" for at in range(count)]
                turn = 2 * np.cos(made / 900 + np.arange(dimension))
                vectors = np.rint(rng.normal(size=(count, dimension)) + turn) + 1 / 8
                said = [form.add_many(ids, vectors) for form in forms]
                live, made = live + ids, made + count
            else:
                near_ones = [sentence.id for sentence in forms[0].summary()[: count // 9]]
                rng.shuffle(live)
                gone = {*live[: count // 2], *near_ones}
                said = [form.remove_many(sorted(gone)) for form in forms]
                live = [id_ for id_ in live if id_ not in gone]
            assert said[0] == said[1]
            assert forms[0].summary() == forms[1].summary()
            assert len(forms[0]) == len(forms[1]) == len(live)
            changes += said[0]
    assert changes > 50


@pytest.fixture(params=["native", "python"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr("worker.coversumm.interface.native_module", lambda: None)


@pytest.mark.usefixtures("form")
def test_the_callers_arrays_stay_the_callers() -> None:
    core, vectors = CoverSumm(2, 2), np.array([[1.0, 0.0], [0.0, 1.0]])
    core.add_many(["a", "b"], vectors)
    before = core.summary()
    vectors[:] = -7
    assert core.summary() == before
    core.remove("a")
    assert core.summary() == [RankedSentence("b", 0.0, 1)]


BAD = [
    (["c"], [[1.0, 2.0, 3.0]], VectorError,
     "sentence 'c': its vector has 3 numbers, this CoverSumm takes 2"),
    (["c", "d"], [[1.0, 2.0], [0.0, 0.0]], VectorError,
     "sentence 'd': its vector is zero, which has no direction"),
    (["c", "d"], [[1.0, float("nan")], [1.0, 0.0]], VectorError,
     "sentence 'c': its vector is not finite"),
    (["c"], [[float("inf"), 0.0]], VectorError, "sentence 'c': its vector is not finite"),
    (["c", "a"], [[1.0, 2.0], [1.0, 2.0]], DuplicateSentence, "sentence 'a' is live already"),
    (["c", "c"], [[1.0, 2.0], [1.0, 2.0]], DuplicateSentence, "sentence 'c' is to be added twice"),
    (["c", "d"], [[1.0, 2.0]], VectorError, r"the shape \(1, 2\): 2 ids need as many rows"),
    (["c"], [1.0, 2.0], VectorError, r"the shape \(2,\): 1 ids need as many rows"),
    (["c"], [["x", "y"]], VectorError, "not a matrix of numbers"),
    (["c", "d"], [[1.0], [1.0, 2.0]], VectorError, "not a matrix of numbers"),
    ("cd", [[1.0, 2.0], [1.0, 2.0]], TypeError, "not the string 'cd'"),
    ([7], [[1.0, 2.0]], TypeError, "an id is a string, not 7"),
]  # fmt: skip


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(("ids", "vectors", "error", "says"), BAD)
def test_what_is_refused_is_named_and_changes_nothing(ids, vectors, error, says) -> None:
    core = CoverSumm(2, 2)
    core.add_many(["a", "b"], [[1.0, 0.0], [1.0, 1.0]])
    before = core.summary()
    with pytest.raises(error, match=says):
        core.add_many(ids, vectors)
    assert (core.summary(), len(core)) == (before, 2)
    core.add("c", [0.0, 1.0])
    assert len(core) == 3


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ([1.0], "sentence 'a': its vector has 1 numbers"),
        ([[1.0, 2.0]], r"sentence 'a': its vector has the shape \(1, 2\), not one row"),
        (3.0, r"the shape \(\), not one row"),
        ("good", "sentence 'a': its vector is not a list of numbers"),
        (None, r"sentence 'a': its vector"),
    ],
)
def test_one_vector_is_one_row_of_numbers(vector, says) -> None:
    core = CoverSumm(2, 2)
    with pytest.raises(VectorError, match=says):
        core.add("a", vector)
    assert len(core) == 0


@pytest.mark.usefixtures("form")
def test_what_is_not_live_cannot_be_removed() -> None:
    core = CoverSumm(2, 2)
    core.add_many(["a", "b"], [[1.0, 0.0], [1.0, 1.0]])
    for ids, says in (
        (["a", "c"], "sentence 'c' is not live"),
        (["a", "a"], "'a' is to be removed twice"),
    ):
        with pytest.raises(UnknownSentence, match=says):
            core.remove_many(ids)
        assert len(core) == 2
    core.remove("a")
    with pytest.raises(UnknownSentence, match="it was not added, or was removed"):
        core.remove("a")
    with pytest.raises(TypeError, match="not the string"):
        core.remove_many("b")
