"""The measurement of copies: what is kept, and which sentences are a facet's."""

import numpy as np

from tests.bench.quality import copies
from tests.bench.quality.entity import Review, entity
from tests.bench.quality.facets import groups_of
from worker.coversumm import quantize
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import FacetCriteria


def of(angles):
    """Vectors around one direction."""
    return quantize([[1.0, np.cos(a) / 9, np.sin(a) / 9] for a in angles])


def test_copies_take_a_set_unless_texts_are_weighed():
    honest = of(np.linspace(0, 6, 60))
    honest[:9] = of([0.1])  # nine guests wrote the same
    advert = quantize([[0.9, 0.3, -0.2]])
    added = np.tile(advert, (200, 1))
    kept = {way: copies.kept(honest, added, 20, way) for way in copies.WAYS}
    assert kept["reviews"] == 0
    assert kept["reviews, distinct"] < kept["texts"]
    alone = [copies.kept(honest, added[:1], 20, way) for way in ("texts", "reviews")]
    assert alone[0] == kept["texts"]
    assert alone[1] > kept["reviews"]


def test_honest_reviews_are_compared_by_their_texts():
    vectors = of(np.linspace(0, 6, 60))
    vectors[:9] = vectors[0]
    found = copies.honest([entity("e", [Review(["x"] * 60)], vectors)])
    assert found["copies"] == {"mean": round(8 / 60, 4), "most": round(8 / 60, 4)}
    assert found["texts"] == {"mean": 20, "least": 20}
    assert found["reviews"]["mean"] < 20


def test_a_sentence_is_in_the_group_of_its_nearest_phrase():
    axes = np.eye(3, dtype=np.int16) * 30_000
    names = ["a", "b", "c"]
    facets = FacetCriteria(Definitions([Facet(name, phrases=(name,)) for name in names]), axes)
    vectors = quantize([[0, 1, 0.1], [1, 0, 0], [0, 0.2, 1], [0.1, 1, 0], [-1, -1, -1]])
    assert groups_of(entity("e", [Review(["x"] * 5)], vectors), facets) == [[1], [0, 3], [2]]
