"""The algorithm: exact incremental CentroidRank for one entity (CoverSumm, TMLR 2024), NumPy alone.

interface     CoverSumm, for a notebook: ids and embeddings in, ranked sentences out
core          EntityCore, the entry of the worker: steps of fixed-point vectors in, rankings out
single        one step at a time
bulk          many steps as one matrix product
state         one entity, and what both paths do with it: search its reservoir, refill it
reservoir     the sentences near the last refill's centroid, identical vectors as one row
knn           the k nearest in the reservoir
certificate   when the nearest in the reservoir are proved to be the nearest of all
gap           when nothing can have changed since the last evaluation
kernel        the inner loops of a step, compiled where there was a C compiler, else in NumPy
index         what a refill asks: flat, sgtree, graphgrove
fixed_point   embeddings as int16, and the bound below which float64 computes keys exactly
points        what goes in: batches of sentences, steps
ranking       what comes out
short_view    past near-copies down the whole ranking, on demand
oracle        the definition, by brute force
paper         the paper's algorithms as printed, to compare with

docs/algorithm.md has the notation, the theorem and its proof, and the paper's algorithms beside
these.
"""

from worker.coversumm.core import EntityCore
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
from worker.coversumm.index import Block, Index, Neighborhood, NewIndex, Totals
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.interface import CoverSumm, RankedSentence
from worker.coversumm.points import Points, Step, no_points
from worker.coversumm.ranking import Ranking, brute_force, measure
from worker.coversumm.state import Counters

__all__ = [
    "SCALE",
    "Block",
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
    "Totals",
    "UnknownSentence",
    "VectorError",
    "brute_force",
    "max_sentences",
    "measure",
    "no_points",
    "quantize",
    "quantize_rows",
]
