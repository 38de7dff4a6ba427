"""The algorithm: exact incremental CentroidRank for one entity (CoverSumm, TMLR 2024), on NumPy
alone.

interface     CoverSumm, for notebooks: ids and embeddings in, ranked sentences out
core          EntityCore, for the worker: steps of fixed-point vectors in, rankings out
native        the module with the same core in native code, where it is built
copies        how many live sentences each vector has, where it counts once
reservoir     the sentences near the centroid of the last refill, identical vectors as one row, and
              the k nearest of them
certificate   when these are proved to be the nearest of all
index         what a refill searches: flat, sgtree or graphgrove; subsets loads many cores at once
fixed_point   embeddings as int16, and the bound below which float64 computes keys exactly
matrix        arrays that grow
points        input: batches of sentences, steps
ranking       output, and the definition by brute force
short_view    the ranking without near-copies, on demand

docs/algorithm.md has the notation, the theorem, its proof and the paper's algorithms.
"""

from worker.coversumm.core import Counters, EntityCore, load_all
from worker.coversumm.fixed_point import (
    SCALE,
    CoreError,
    DuplicateSentence,
    EntityFull,
    UnknownSentence,
    VectorError,
    max_sentences,
    quantize,
    quantize_rows,
)
from worker.coversumm.index import Index, Neighborhood, NewIndex
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.index.subsets import Subsets
from worker.coversumm.interface import CoverSumm, RankedSentence
from worker.coversumm.points import Points, Step, no_points
from worker.coversumm.ranking import Ranking, brute_force, measure

__all__ = [
    "SCALE",
    "CoreError",
    "Counters",
    "CoverSumm",
    "DuplicateSentence",
    "EntityCore",
    "EntityFull",
    "FlatIndex",
    "Index",
    "Neighborhood",
    "NewIndex",
    "Points",
    "RankedSentence",
    "Ranking",
    "Step",
    "Subsets",
    "UnknownSentence",
    "VectorError",
    "brute_force",
    "load_all",
    "max_sentences",
    "measure",
    "no_points",
    "quantize",
    "quantize_rows",
]
