"""The ways that the paper compares, streams for them, and what they must say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.algorithms.centroid import Variant
from tests.bench.paper.algorithms.knn_range import CoverSummKnnRange
from tests.bench.paper.algorithms.lazy import CoverSummLazy
from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.variants import make_variant
from tests.bench.paper.naive import NaiveFaiss
from tests.coversumm.scripts import Script, adds
from tests.harness.oracle import brute_force
from worker.coversumm import Step

Ids = tuple[bytes, ...]
PRINTED: dict[str, type[CoverSummReservoir]] = {
    "coversumm-knn-range": CoverSummKnnRange,
    "coversumm-reservoir": CoverSummReservoir,
    "coversumm-lazy": CoverSummLazy,
}
ALPHAS = st.sampled_from([0.0, 1e-4, 0.01, 0.3, 10.0])
CAPACITIES = st.sampled_from([1, 6, 100])
# hnswlib is compiled when it is installed
HNSW = pytest.param("naive-hnsw", marks=pytest.mark.hnsw)

EXACT: dict[str, Callable[[int, int], Variant]] = {
    "brute-force": lambda k, d: make_variant("brute-force", k=k, dimension=d, b=2.0),
    "naive-cover-tree": lambda k, d: make_variant("naive-cover-tree", k=k, dimension=d, b=2.0),
    "naive-faiss": NaiveFaiss,
    "exact": lambda k, d: make_variant("exact", k=k, dimension=d, b=2.0),
    "native": lambda k, d: make_variant("native", k=k, dimension=d, b=2.0),
}


def play(variant: Variant, steps: Sequence[Step]) -> list[Ids]:
    return [variant.apply(step) for step in steps]


def oracle(script: Script) -> list[Ids]:
    return [brute_force(live, script.k).ids for live in script.live]


def width(script: Script) -> float:
    """The b of a script's vectors."""
    return 2.0 * max(
        (int(np.abs(v).max()) for live in script.live for v in live.values()), default=1
    )


def paper(make: type[CoverSummReservoir], script: Script, **parameters: Any) -> CoverSummReservoir:
    return make(script.k, script.dimension, b=width(script), **parameters)


def without_removals(script: Script) -> Script:
    """The same sentences, each added where it first comes and never removed."""
    kept = Script(script.dimension, script.k, False)
    for step in script.steps:
        live = kept.live[-1] if kept.live else {}
        fresh = zip(step.added.ids, step.added.vectors, strict=True)
        kept.add([], {id_: tuple(vector.tolist()) for id_, vector in fresh if id_ not in live})
    return kept


def drifting(seed: int) -> Script:
    """300 events around a moving mean: copies, ties, edits, removals, now and then of half of
    everything.
    """
    rng = np.random.default_rng(seed)
    script = Script(3, 5, False)
    grid = [2, 8, 40, 2000, 30000][seed]
    for t in range(300):
        live = list(script.live[-1]) if script.live else []
        removed = [live[rng.integers(len(live))]] if live and rng.random() < 0.3 else []
        if t in (120, 200):
            removed = live[::2]
        center = grid * np.array([t / 600, 0, -t / 1200])
        fresh = {
            b"%d" % (1000 + t): tuple(np.rint(center + grid / 4 * rng.normal(size=3)).astype(int))
        }
        if removed and rng.random() < 0.3:
            fresh[removed[0]] = tuple(np.rint(center).astype(int))
        script.add(removed, fresh)
    return script


@cache
def uniform(dimension: int) -> tuple[NDArray[np.int16], list[Step], list[Ids]]:
    """2,000 vectors of a cube, as steps, and the 20 nearest after each."""
    vectors = np.random.default_rng(7).integers(-16000, 16001, (2000, dimension)).astype(np.int16)
    steps = adds(vectors)
    return vectors, steps, play(BruteForce(20, dimension), steps)


def on_uniform(
    make: type[CoverSummReservoir] = CoverSummReservoir, dimension: int = 20, **parameters: Any
) -> tuple[CoverSummReservoir, list[int]]:
    """CoverSumm on `uniform`, and the steps at which it errs."""
    _, steps, truth = uniform(dimension)
    variant = make(20, dimension, b=32000.0, **parameters)
    found = play(variant, steps)
    return variant, [
        at for at, (said, right) in enumerate(zip(found, truth, strict=True)) if said != right
    ]


def repaired(make: type[CoverSummReservoir]) -> type[CoverSummReservoir]:
    """Algorithm 1 with line 16 put right: r = d_k + lambda, within which R is complete."""

    class Repaired(make):  # type: ignore[misc, valid-type]
        def reinitialise_reservoir(self) -> float:
            farthest = super().reinitialise_reservoir()
            if self.n < self.k:
                return inf
            d_k = self.distance_from_last(float(self.tree.knn(self.n, self.total, self.k).keys[-1]))
            self.set_radius(d_k + self.lam)
            return max(self.radius_key, farthest)

    return Repaired


def copies(count: int) -> list[Step]:
    return adds(np.full((count, 2), 5, np.int16))
