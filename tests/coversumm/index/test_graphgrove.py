"""graphgrove as an index: what the library says in float32 becomes what the flat index says, or is
refused.

Held to a stand-in with all of the library's limits, and to the real one where a CPython has it
(tests/coversumm/index/libraries).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.coversumm.index import libraries
from tests.coversumm.index.libraries import LIBRARIES, StandIn, install, tree_class
from tests.coversumm.scripts import Disk, Script, points, scripts
from worker.coversumm import (
    DuplicateSentence,
    EntityCore,
    FlatIndex,
    Neighborhood,
    Points,
    UnknownSentence,
    no_points,
    quantize,
)
from worker.coversumm.index import IndexUnavailable
from worker.coversumm.index.graphgrove import GraphgroveIndex, LibraryAnswer, library
from worker.processing.config import INDEXES, index_class

MANY = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=LIBRARIES)
def graphgrove(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library is one of those there are."""
    tree = tree_class(request.param)
    install(monkeypatch, tree)
    return tree


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, StandIn)


@pytest.fixture(autouse=True, scope="module")
def _processes_end() -> Iterator[None]:
    yield
    gc.collect()
    libraries.close_remotes()


def as_sets(found: Neighborhood) -> tuple[dict[bytes, tuple[int, list[bytes]]], float | None]:
    vectors = found.vectors
    assert vectors.dtype == np.int16
    return {
        v.tobytes(): (count, low)
        for v, count, low in zip(vectors, found.counts, found.lowest_ids, strict=True)
    }, found.radius_key


def agree(index: GraphgroveIndex, flat: FlatIndex, count: int, ids_kept: int = 3) -> None:
    """Both say the same, and the answer is as small as it can be."""
    totals, expected = index.totals(), flat.totals()
    assert (totals.n, totals.total.tolist(), totals.max_squared_norm) == (
        expected.n,
        expected.total.tolist(),
        expected.max_squared_norm,
    )
    if totals.n:
        asked = totals.n, totals.total, count, ids_kept
        assert as_sets(index.nearest(*asked)) == as_sets(flat.nearest(*asked))


@MANY
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 50, 32767]),
    st.sampled_from([1, 4, 90]),
    st.integers(1, 9),
)
def test_nearest_is_the_flat_indexs(
    graphgrove: Any, seed: int, grid: int, size: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    disk = Disk(2)
    drawn = rng.integers(-grid, grid + 1, (size, 2)).astype(np.int16)
    disk.live = {b"%d" % i: vector for i, vector in enumerate(drawn)}
    live = dict(disk.live)
    index, flat = GraphgroveIndex(2, disk.scan), FlatIndex(2, disk.scan)
    for round_ in range(3):
        for i in rng.permutation(size)[: size // 3 + 1]:  # removed, edited, back again
            id_ = b"%d" % i
            removed = points([(id_, live.pop(id_))] if id_ in live else [], 2)
            fresh = (
                {id_: rng.integers(-grid, grid + 1, 2).astype(np.int16)}
                if i % 3 or round_ == 2
                else {}
            )
            live |= fresh
            for searched in (index, flat):
                searched.update(removed, points(fresh.items(), 2))
        agree(index, flat, count)


@MANY
@given(scripts(), st.sampled_from([0, 1, 3]), st.data())
def test_the_core_over_it_is_the_oracle(
    graphgrove: Any, script: Script, spare: int, data: st.DataObject
) -> None:
    disk = Disk(script.dimension)
    index = GraphgroveIndex(script.dimension, disk.scan)
    core = script.core(spare, index)
    results: list[Any] = []
    while len(results) < len(script.steps):
        at = len(results)
        results += core.apply(script.steps[at : at + data.draw(st.sampled_from([1, 5, 40]))])
        disk.live = script.live[len(results) - 1]
        index.on_rows_written()
        if data.draw(st.booleans()):  # evicted or restarted
            index = GraphgroveIndex(script.dimension, disk.scan)
            core = script.loaded(spare, index)
    assert results == script.expected()
    assert core.ranking() == script.oracle(-1)


@pytest.mark.parametrize("d", [3, 64])
def test_near_ties_that_float32_cannot_tell_apart(graphgrove: Any, d: int) -> None:
    """Long vectors a few units apart: the library's error is as large as their distances to the
    centroid.
    """
    rng = np.random.default_rng(d)
    middle = quantize(rng.normal(size=(1, d)))[0].astype(int)
    clump = np.unique(middle + rng.integers(-2, 3, (400, d)), axis=0)
    far = quantize(rng.normal(size=(400, d)))
    vectors = np.concatenate([clump, far]).astype(np.int16)
    ids = [b"%d" % i for i in rng.permutation(len(vectors))]
    index, flat = GraphgroveIndex(d), FlatIndex(d)
    for searched in (index, flat):
        searched.update(no_points(d), Points(ids, vectors))
    for count in (1, 5, 40):
        agree(index, flat, count)
        # a centroid inside the clump
        total = middle.astype(np.float64) * 7 + rng.integers(-3, 4, d)
        assert as_sets(index.nearest(7, total, count, 2)) == as_sets(
            flat.nearest(7, total, count, 2)
        )


def test_vectors_of_any_length_stay_inside_the_frame(graphgrove: Any) -> None:
    """Longer and longer ones, to the longest there is: the tree begins again in a wider frame, its
    root is never raised.
    """
    d = 40
    index, flat = GraphgroveIndex(d), FlatIndex(d)
    rng = np.random.default_rng(1)
    number = 0
    for size in (0, 1, 1, 90, 3000, 32767):
        batch = rng.integers(-size, size + 1, (12, d)).astype(np.int16)
        if size == 32767:
            batch[0], batch[1] = -32768, 32767
        batch = batch[:1] if size == 0 else batch
        ids = [b"%d" % i for i in range(number, number + len(batch))]
        number += len(batch)
        for searched in (index, flat):
            searched.update(no_points(d), Points(ids, batch))
        agree(index, flat, 3)


def test_the_tree_is_built_again_when_more_than_half_is_gone(graphgrove: Any) -> None:
    d = 6
    vectors = quantize(np.random.default_rng(0).normal(size=(200, d)))
    ids = [b"%d" % i for i in range(200)]
    index, flat = GraphgroveIndex(d), FlatIndex(d)
    for searched in (index, flat):
        searched.update(no_points(d), Points(ids, vectors))
    agree(index, flat, 5)
    full = index.memory_bytes
    for at in range(0, 190, 10):
        gone = Points(ids[at : at + 10], vectors[at : at + 10])
        for searched in (index, flat):
            searched.update(gone, no_points(d))
        agree(index, flat, 5)
        if at == 90:
            assert index.memory_bytes > full * 0.8  # half are gone, and still there
        if at == 100:
            assert index.memory_bytes < full * 0.6
    for searched in (index, flat):  # back again, and out again for good
        searched.update(no_points(d), Points(ids[:190], vectors[:190]))
    agree(index, flat, 5)
    index.update(Points(ids, vectors), no_points(d))
    assert index.totals().n == 0
    assert index.memory_bytes == 0


def test_memory_counts_sentences_and_tree(stand_in: None) -> None:
    d = 100
    vectors = quantize(np.random.default_rng(0).normal(size=(1000, d)))
    index = GraphgroveIndex(d)
    core = EntityCore(5, d, index)
    empty = core.memory_bytes
    index.update(no_points(d), Points([b"%d" % i for i in range(1000)], vectors))
    before = index.memory_bytes
    assert before > 1000 * 2 * d
    index.nearest(1000, vectors.sum(axis=0).astype(float), 3, 1)
    assert index.memory_bytes >= before + 1000 * 4 * d
    assert core.memory_bytes - empty == index.memory_bytes
    settled = index.memory_bytes
    index.on_rows_written()
    assert index.memory_bytes == settled


def test_refusals_name_the_sentence(stand_in: None) -> None:
    x = np.ones((1, 2), np.int16)
    stored = Disk(2)
    stored.live = {b"s": x[0]}
    index = GraphgroveIndex(2, stored.scan)
    with pytest.raises(UnknownSentence, match="b'a'"):
        index.update(Points([b"a"], x), no_points(2))
    with pytest.raises(DuplicateSentence, match="b's'"):
        index.update(no_points(2), Points([b"s"], x))


@pytest.mark.parametrize("name", INDEXES)
def test_a_scan_that_fails_is_made_again(stand_in: None, name: str) -> None:
    disk, failing = Disk(2), [True]
    disk.live = {b"%d" % i: np.array([i, -i], np.int16) for i in range(9)}

    def scan() -> Iterator[Any]:
        for i, block in enumerate(disk.scan()):
            if i == 2 and failing:
                failing.pop()
                raise OSError("unreadable")
            yield block

    index = index_class(name)(2, scan)
    with pytest.raises(OSError, match="unreadable"):
        index.totals()
    assert (index.totals().n, index.totals().total.tolist()) == (9, [36.0, -36.0])


class Forgetful(StandIn):
    """Drops every tenth point it is given."""

    def insert(self, points: Any, ids: Any = None, use_multi_core: int = -1) -> None:
        keep = np.arange(len(points)) % 10 != 3
        super().insert(points[keep], ids[keep], use_multi_core)


class Ids(StandIn):
    """Makes every id 1, as the real one does with single vectors."""

    def insert(self, points: Any, ids: Any = None, use_multi_core: int = -1) -> None:
        super().insert(points, np.ones_like(ids), use_multi_core)


class Shorter(StandIn):
    """Measures something else."""

    factor = np.float32(0.9)

    def kNearestNeighbours(self, query: Any, **options: Any) -> Any:
        ids, distances = super().kNearestNeighbours(query, **options)
        return ids, distances * self.factor


class Longer(Shorter):
    factor = np.float32(1.1)


class Repeats(StandIn):
    """Names one point twice."""

    def kNearestNeighbours(self, query: Any, **options: Any) -> Any:
        ids, distances = super().kNearestNeighbours(query, **options)
        ids[0, -1] = ids[0, 0]
        return ids, distances


@pytest.mark.parametrize("tree", [Forgetful, Ids, Shorter, Longer, Repeats])
def test_a_library_that_contradicts_itself_is_not_believed(
    tree: type[StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tree)
    vectors = quantize(np.random.default_rng(0).normal(size=(100, 8)))
    index = GraphgroveIndex(8)
    index.update(no_points(8), Points([b"%d" % i for i in range(100)], vectors))
    with pytest.raises(LibraryAnswer):
        index.nearest(100, vectors.sum(axis=0).astype(float), 3, 1)


class Double(StandIn):
    """Built with float64."""

    def kNearestNeighbours(self, query: Any, **options: Any) -> Any:
        ids, distances = super().kNearestNeighbours(query, **options)
        return ids, distances.astype(np.float64)


def test_a_build_for_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Double)
    with pytest.raises(IndexUnavailable, match="float64"):
        index_class("graphgrove")


def _files(folder: Path, **files: str) -> None:
    package = folder / "graphgrove"
    package.mkdir()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)


SHELL = {"__init__": '__version__ = "0.0.1"\n', "main": "\ndef mult(x, y):\n  return x @ y\n"}
"""All that graphgrove 0.0.1 installs."""


@pytest.mark.parametrize(
    ("files", "what"),
    [
        (SHELL, "the empty package"),
        ({**SHELL, "sgtree": "import sgtreec\n"}, "No module named 'sgtreec'"),
        (
            {**SHELL, "sgtree": "raise ImportError('numpy.core.multiarray failed to import')\n"},
            "multiarray",
        ),
        ({**SHELL, "sgtree": ""}, "NNS_L2"),
        (None, "No module named 'graphgrove'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(
    files: dict[str, str] | None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "graphgrove"]:
        monkeypatch.delitem(sys.modules, name)
    if files is None:
        monkeypatch.setitem(sys.modules, "graphgrove", None)
        what = "import of graphgrove halted"
    else:
        _files(tmp_path, **files)
        monkeypatch.syspath_prepend(tmp_path)
    for refused in (library, lambda: GraphgroveIndex(3), lambda: index_class("graphgrove")):
        with pytest.raises(IndexUnavailable) as caught:
            refused()
        message = str(caught.value)
        assert what in message
        assert "github.com/nmonath/graphgrove" in message
        assert "\n" not in message
    for name in [name for name in sys.modules if name.split(".")[0] == "graphgrove"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
