"""The naive methods over libraries: hnswlib, and libraries that are not there."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings

from tests.bench.paper.naive import NaiveFaiss, NaiveHnsw, library
from tests.bench.paper.tests.ways import copies, play, uniform
from tests.coversumm.scripts import Script, scripts
from tests.harness.oracle import brute_force
from worker.coversumm import Step, no_points

pytestmark = pytest.mark.long


@settings(max_examples=60, deadline=None)
@given(script=scripts())
@pytest.mark.hnsw
def test_hnsw_ranks_what_it_finds(script: Script) -> None:
    """Live sentences alone, never more than k, in the order of exact keys; all of them while they
    are few.
    """
    variant = NaiveHnsw(script.k, script.dimension)
    for step, live in zip(script.steps, script.live, strict=True):
        found = variant.apply(step)
        assert set(found) <= live.keys()
        assert len(set(found)) == len(found) <= min(script.k, len(live))
        everything = brute_force(live, len(live) or 1).ids
        assert list(found) == [id_ for id_ in everything if id_ in set(found)]


@pytest.mark.hnsw
def test_hnsw_finds_most_but_not_all() -> None:
    _, steps, truth = uniform(20)  # beyond the 1,024 there is room for at first
    found = play(NaiveHnsw(20, 20), steps)
    shared = [len(set(said) & set(right)) for said, right in zip(found, truth, strict=True)]
    assert sum(shared) > 0.8 * sum(map(len, truth))
    assert found != truth
    assert found[:15] == truth[:15]


@pytest.mark.hnsw
def test_hnsw_that_reaches_few() -> None:
    variant = NaiveHnsw(3, 2)
    play(variant, copies(5))
    query = variant._index.knn_query

    def reaches_one(query_: Any, k: int, num_threads: int) -> Any:
        if k > 1:
            raise RuntimeError(
                "Cannot return the results in a contiguous 2D array. Probably ef or M is too small"
            )
        return query(query_, k=k, num_threads=num_threads)

    with mock.patch.object(
        variant, "_index", mock.Mock(wraps=variant._index, knn_query=reaches_one)
    ):
        assert len(variant.apply(Step(no_points(2), no_points(2)))) == 1


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, package, method in (
        ("faiss", "faiss-cpu", NaiveFaiss),
        ("hnswlib", "hnswlib", NaiveHnsw),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            ImportError, match=rf"^{package} is not installed: pip install '\.\[bench\]'$"
        ):
            method(3, 2)
    assert library("json", "json").loads("1") == 1
