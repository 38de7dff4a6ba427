"""The methods by name, and what each needs to be made."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from tests.bench.paper.algorithms.centroid import Variant
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
            make_variant(
                name,
                k=setting.k,
                dimension=setting.dimension,
                b=setting.width,
                alpha=setting.alpha,
                c_max=setting.c_max,
            )
        )

    return make


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
