"""All the ways by name."""

from collections.abc import Callable

from worker.coversumm.paper.brute_force import BruteForce
from worker.coversumm.paper.centroid import Variant
from worker.coversumm.paper.decay import CoverSummDecay
from worker.coversumm.paper.exact import Ours
from worker.coversumm.paper.knn_range import CoverSummKnnRange
from worker.coversumm.paper.lazy import CoverSummLazy
from worker.coversumm.paper.naive_cover_tree import NaiveCoverTree
from worker.coversumm.paper.random_admission import CoverSummRandom
from worker.coversumm.paper.reservoir import CoverSummReservoir
from worker.coversumm.paper.state import ALPHA, C_MAX

K = 20  # the paper's summary budget, in all of its experiments

EXACT: dict[str, Callable[[int, int], Variant]] = {
    "brute-force": BruteForce,
    "naive-cover-tree": NaiveCoverTree,
    "exact": Ours,
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
    """The way of this name, one of NAMES, for an entity without sentences; for parameters see `ReservoirState`."""
    if name in EXACT:
        return EXACT[name](k, dimension)
    return COVERSUMM[name](k, dimension, b=b, alpha=alpha, c_max=c_max)
