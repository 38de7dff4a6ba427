"""What all ways share: parameters, refusals, and that all deleted is as never added."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from tests.bench.paper.algorithms.centroid import Variant
from tests.bench.paper.algorithms.lazy import CoverSummLazy
from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.variants import NAMES, make_variant
from tests.bench.paper.naive import NaiveHnsw
from tests.bench.paper.tests.ways import EXACT, HNSW, play
from tests.coversumm.scripts import adds, points
from worker.coversumm import (
    DuplicateSentence,
    EntityFull,
    Points,
    Step,
    UnknownSentence,
    VectorError,
    no_points,
)

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", [*NAMES, "naive-faiss", HNSW])
def test_all_deleted_is_as_never_added(name: str) -> None:
    makers = EXACT | {"naive-hnsw": NaiveHnsw}
    make = makers.get(name)
    variant = make(2, 2) if make else make_variant(name, k=2, dimension=2, b=10.0, alpha=10.0)
    assert variant.apply(Step(no_points(2), no_points(2))) == ()
    steps = adds(np.array([[1, 2], [3, 4], [3, 5]], np.int16))
    for _ in range(2):
        play(variant, steps)
        gone = points([(step.added.ids[0], step.added.vectors[0]) for step in steps], 2)
        assert variant.apply(Step(gone, no_points(2))) == ()
        assert variant.apply(Step(no_points(2), points([(b"new", (9, 9))], 2))) == (b"new",)
        assert variant.apply(Step(points([(b"new", (9, 9))], 2), no_points(2))) == ()


@pytest.mark.parametrize("name", [*NAMES, "naive-faiss", HNSW])
def test_refusals_name_the_culprit(name: str) -> None:
    makers = EXACT | {"naive-hnsw": NaiveHnsw}

    def make(dimension: int = 2) -> Variant:
        if name in makers:
            return makers[name](2, dimension)
        return make_variant(name, k=2, dimension=dimension, b=10.0)

    x = np.ones((1, 2), np.int16)
    with pytest.raises(UnknownSentence, match="b'a'"):
        make().apply(Step(Points([b"a"], x), no_points(2)))
    variant = make()
    variant.apply(Step(no_points(2), Points([b"a"], x)))
    with pytest.raises(DuplicateSentence, match="b'a'"):
        variant.apply(Step(no_points(2), Points([b"a"], x)))
    with pytest.raises(VectorError, match="int16"):
        make().apply(Step(no_points(2), Points([b"a"], x.astype(np.float32))))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        make(0)
    long = Points([b"%d" % i for i in range(40)], np.full((40, 4), 32767, np.int16))
    short = Points([b"s%d" % i for i in range(20)], np.ones((20, 4), np.int16))
    with mock.patch("worker.coversumm.fixed_point.EXACT", 3 * 4 * 32767**2 * 50):
        variant = make(4)
        variant.apply(Step(no_points(4), long))
        with pytest.raises(EntityFull, match="sentences"):
            variant.apply(Step(no_points(4), short))


def test_every_name_has_its_parameters() -> None:
    for name in NAMES:
        way = make_variant(name, k=3, dimension=5, b=7.0, alpha=0.5, c_max=9)
        if name.startswith("coversumm-"):
            assert isinstance(way, CoverSummReservoir)
            assert (way.k, way.dimension, way.b, way.alpha, way.c_max) == (3, 5, 7.0, 0.5, 9)
            assert isinstance(way, CoverSummLazy) == (
                name.split("-")[1] in ("lazy", "random", "decay")
            )
        else:
            assert not isinstance(way, CoverSummReservoir)
    with pytest.raises(KeyError):
        make_variant("unknown", dimension=5, b=7.0)
