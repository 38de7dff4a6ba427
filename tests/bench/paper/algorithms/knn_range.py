"""CoverSumm (knn+range): two queries in place of the reservoir search."""

from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.tree import QueryResult
from worker.coversumm import certificate


class CoverSummKnnRange(CoverSummReservoir):
    """Section 4: asks the tree for d_k and then for all within d_k + lambda, which counts as one
    search.

    Its answers are those of CoverSumm (reservoir).
    """

    def search(self) -> QueryResult:
        """All within d_k + lambda of the centroid (equation 4)."""
        found = self.tree.knn(self.n, self.total, self.k)
        # Not below the true d_k: rounded down, it could leave the k-th itself outside. Of fewer
        # than k, the farthest.
        squared = float(found.keys[-1]) / self.n + float(self.total @ self.total) / (
            self.n * self.n
        )
        d_k = certificate.upper(squared, certificate.slack(self.dimension, self.max_squared_norm))
        return self.tree.range(self.n, self.total, d_k + self.lam)
