"""The methods by name, and what each needs to be made."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from tests.bench.paper.algorithms.centroid import Variant
from tests.bench.paper.algorithms.decay import CoverSummDecay
from tests.bench.paper.algorithms.random_admission import CoverSummRandom
from tests.bench.paper.algorithms.state import ALPHA, C_MAX
from tests.bench.paper.algorithms.variants import make_variant
from tests.bench.paper.measure import Contender
from worker.coversumm import Step


class Setting(NamedTuple):
    """What a method is made for. Those without parameters look at `k` and `dimension` alone."""

    k: int
    dimension: int
    width: float  # the paper's b
    alpha: float = ALPHA
    c_max: int = C_MAX
    p: float = 0.5  # of random, and c1 (in units of b) and c2 of decay
    c1: float = 0.0015
    c2: float = 1e-4


class EachStep:
    """A variant, step by step."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    @property
    def reservoir_searches(self) -> int:
        return self.variant.reservoir_searches

    @property
    def reservoir_size(self) -> int:
        return self.variant.reservoir_size

    def take(self, steps: Sequence[Step]) -> list[tuple[bytes, ...]]:
        apply = self.variant.apply
        return [apply(step) for step in steps]


class Method(NamedTuple):
    name: str
    # proved right at every step, ties included; the paper's own only under its assumptions
    exact: bool
    group: str  # of the runtime table
    make: Callable[[Setting], Contender]
    needs: str | None = None  # a module that is no part of the worker, and
    install: str = ""  # the package that brings it

    @property
    def available(self) -> bool:
        return self.needs is None or find_spec(self.needs) is not None


def _variant(name: str) -> Callable[[Setting], Contender]:
    def make(setting: Setting) -> Contender:
        return EachStep(
            make_variant(name, k=setting.k, dimension=setting.dimension, **_printed(setting))
        )

    return make


def _tuned_random(setting: Setting) -> Contender:
    return EachStep(CoverSummRandom(*setting[:2], **_printed(setting), p=setting.p))


def _tuned_decay(setting: Setting) -> Contender:
    decay = {"c1": setting.c1 * setting.width, "c2": setting.c2}
    return EachStep(CoverSummDecay(*setting[:2], **_printed(setting), **decay))


def _printed(setting: Setting) -> dict[str, Any]:
    return {"b": setting.width, "alpha": setting.alpha, "c_max": setting.c_max}


def _faiss(setting: Setting) -> Contender:
    from tests.bench.paper.naive import NaiveFaiss

    return EachStep(NaiveFaiss(setting.k, setting.dimension))


def _hnsw(setting: Setting) -> Contender:
    from tests.bench.paper.naive import NaiveHnsw

    return EachStep(NaiveHnsw(setting.k, setting.dimension))


EXACT, PAPERS, OTHERS, OURS = "exact", "CoverSumm as printed", "approximate", "ours, exact"

METHODS = {
    method.name: method
    for method in (
        Method("brute-force", True, EXACT, _variant("brute-force")),
        Method("naive-cover-tree", True, EXACT, _variant("naive-cover-tree")),
        Method("naive-faiss", True, EXACT, _faiss, "faiss", "faiss-cpu"),
        Method("coversumm-knn-range", False, PAPERS, _variant("coversumm-knn-range")),
        Method("coversumm-reservoir", False, PAPERS, _variant("coversumm-reservoir")),
        Method("coversumm-lazy", False, PAPERS, _variant("coversumm-lazy")),
        Method("naive-hnsw", False, OTHERS, _hnsw, "hnswlib", "hnswlib"),
        Method("coversumm-random", False, OTHERS, _variant("coversumm-random")),
        Method("coversumm-decay", False, OTHERS, _variant("coversumm-decay")),
        Method("exact", True, OURS, _variant("exact")),
        Method("native", True, OURS, _variant("native"), "worker._native", "coversumm-worker"),
    )
}
# Beside their published constants: p, c1 and c2 found on the held-out stream, as the paper does.
TUNED = {
    "coversumm-random": Method("coversumm-random, tuned", False, OTHERS, _tuned_random),
    "coversumm-decay": Method("coversumm-decay, tuned", False, OTHERS, _tuned_decay),
}
IN_TABLE = {
    method.name: method
    for name in METHODS
    for method in (METHODS[name], TUNED.get(name))
    if method is not None
}
