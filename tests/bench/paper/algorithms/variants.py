"""All the ways by name."""

from collections.abc import Callable

from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.algorithms.centroid import Variant
from tests.bench.paper.algorithms.decay import CoverSummDecay
from tests.bench.paper.algorithms.exact import Ours, OursNatively
from tests.bench.paper.algorithms.knn_range import CoverSummKnnRange
from tests.bench.paper.algorithms.lazy import CoverSummLazy
from tests.bench.paper.algorithms.naive_cover_tree import NaiveCoverTree
from tests.bench.paper.algorithms.random_admission import CoverSummRandom
from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.state import ALPHA, C_MAX

K = 20  # the paper's summary budget, in all of its experiments

EXACT: dict[str, Callable[[int, int], Variant]] = {
    "brute-force": BruteForce,
    "naive-cover-tree": NaiveCoverTree,
    "exact": Ours,
    "native": OursNatively,
}
COVERSUMM: dict[str, type[CoverSummReservoir]] = {
    "coversumm-knn-range": CoverSummKnnRange,
    "coversumm-reservoir": CoverSummReservoir,
    "coversumm-lazy": CoverSummLazy,
    "coversumm-random": CoverSummRandom,
    "coversumm-decay": CoverSummDecay,
}
NAMES = (*EXACT, *COVERSUMM)


def make_variant(
    name: str, *, k: int = K, dimension: int, b: float, alpha: float = ALPHA, c_max: int = C_MAX
) -> Variant:
    """The way of this name, one of NAMES, for an entity without sentences; for parameters see
    `ReservoirState`.
    """
    if name in EXACT:
        return EXACT[name](k, dimension)
    return COVERSUMM[name](k, dimension, b=b, alpha=alpha, c_max=c_max)
