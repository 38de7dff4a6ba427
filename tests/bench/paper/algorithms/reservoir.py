"""CoverSumm (reservoir): the algorithms as printed."""

from tests.bench.paper.algorithms.coversumm import cover_summ
from tests.bench.paper.algorithms.delete import delete
from tests.bench.paper.algorithms.state import ReservoirState
from worker.coversumm.points import Step


class CoverSummReservoir(ReservoirState):
    """Section 3, Algorithm 3 for what a step removes, then Algorithm 1 for each sentence that it
    adds.

    Exact under assumptions; `tests.bench.paper.algorithms` says where it fails.
    """

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """See `Variant`. The summary is formed once a step: forming it earlier would change
        nothing.
        """
        self.check(step)
        removed, added = step
        if removed.ids:
            delete(self, removed)
        for row, id_ in enumerate(added.ids):
            cover_summ(self, id_, added.vectors[row : row + 1])
        return self.reservoir.nearest(self.n, self.total, self.k)  # line 23; Algorithm 3, line 16
