"""The algorithm: exact incremental CentroidRank for one entity (CoverSumm, TMLR 2024), NumPy alone.

fixed_point   embeddings as int16, and the bound below which float64 computes keys exactly
points        what goes in: batches of sentences, steps
reservoir     the sentences near the last refill's centroid, identical vectors as one
certificate   when the nearest in the reservoir are proved to be the nearest of all
state         one entity; looking at its reservoir, refilling it
run           consecutive steps as matrices
places        who can be among the nearest in a run of steps, and the keys after each
single, bulk  one step at a time; many steps as one matrix product
core          CoverSumm, the entry
index         what a refill asks: flat, sgtree, graphgrove
ranking       what comes out
oracle        the definition, by brute force
paper         the paper's algorithms as printed, to compare with
"""

from worker.coversumm.core import CoverSumm
from worker.coversumm.errors import CoreError, DuplicateSentence, EntityFull, UnknownSentence, VectorError
from worker.coversumm.fixed_point import SCALE, max_sentences, quantize, quantize_rows
from worker.coversumm.index import Block, Index, Neighborhood, NewIndex, Totals
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.oracle import brute_force
from worker.coversumm.points import Points, Step, no_points
from worker.coversumm.ranking import Ranking
from worker.coversumm.state import Counters

__all__ = [
    "SCALE",
    "Block",
    "CoreError",
    "Counters",
    "CoverSumm",
    "DuplicateSentence",
    "EntityFull",
    "FlatIndex",
    "Index",
    "Neighborhood",
    "NewIndex",
    "Points",
    "Ranking",
    "Step",
    "Totals",
    "UnknownSentence",
    "VectorError",
    "brute_force",
    "max_sentences",
    "no_points",
    "quantize",
    "quantize_rows",
]
