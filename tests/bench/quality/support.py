"""*Support*: of how many reviews does a summary say something that they say?

A review supports a sentence of a summary if one of its own has a cosine of `COSINE` or more to it.
The support of a sentence is the share of the entity's reviews that do, and the sentence is *rare*
if that is less than `RARE`; the support of a summary is the share that support at least one of its
sentences, and so the higher the more sentences it has. Vectors are those of
the default model, which chooses our sentences too, so the measure favours ours.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.bench.quality.entity import Entity

Vectors = NDArray[np.int16]
COSINE = 0.6
RARE = 0.05


class Supported(NamedTuple):
    """Of a summary: its support and the sum of that of its sentences, each from 0 to 1; how many
    sentences it has, and how many of them are rare.
    """

    support: float
    of_sentences: float
    sentences: int
    rare: int


def supported(entity: Entity, vectors: Vectors) -> Supported:
    """Of a summary of the entity with these (m, D) vectors of its sentences."""
    if not len(vectors):
        return Supported(0.0, 0.0, 0, 0)
    rows = vectors.astype(np.float32)
    unit = entity.vectors.astype(np.float32)
    lengths = np.linalg.norm(unit, axis=1)[:, None] * np.linalg.norm(rows, axis=1)
    says = unit @ rows.T >= COSINE * lengths
    supports = np.zeros((len(entity.ratings), len(rows)), bool)
    np.logical_or.at(supports, entity.review_of, says)
    each = supports.mean(axis=0)
    whole = supports.any(axis=1).mean()
    return Supported(float(whole), float(each.sum()), len(rows), int((each < RARE).sum()))


def row(name: str, of: Sequence[Supported]) -> dict[str, object]:
    """The means over summaries, and over the sentences of all of them."""
    sentences = sum(summary.sentences for summary in of)
    return {
        "summary": name,
        "support": round(float(np.mean([summary.support for summary in of])), 4),
        "of_a_sentence": round(sum(summary.of_sentences for summary in of) / sentences, 4),
        "rare": round(sum(summary.rare for summary in of) / sentences, 4),
        "sentences": round(sentences / len(of), 2),
    }
