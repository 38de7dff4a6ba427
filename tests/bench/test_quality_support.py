"""What the study of support counts, and what it makes of suggested facets."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.build import support as tables
from tests.bench.quality import data, suggested, support, support_study
from tests.bench.quality.contenders import OURS
from tests.bench.quality.entity import Review, entity
from tests.bench.test_quality import embed, folder, small_study
from worker.coversumm import quantize

__all__ = ["folder", "small_study"]

EAST, NORTH = quantize(np.eye(2, 3))
BETWEEN = quantize([[0.75, 0.66, 0.0]])[0]  # near both


def hotel(*reviews):
    """Of reviews as vectors of their sentences."""
    vectors = np.array([vector for of in reviews for vector in of], np.int16)
    return entity("h", [Review(["x"] * len(of)) for of in reviews], vectors)


def test_a_review_counts_once_for_a_sentence_and_once_for_the_summary():
    of = hotel([EAST, EAST], [BETWEEN], [NORTH], [-EAST])
    found = support.supported(of, np.array([EAST], np.int16))
    assert found == support.Supported(2 / 4, 2 / 4, 1, 0)
    found = support.supported(of, np.array([EAST, NORTH], np.int16))
    assert found == support.Supported(3 / 4, 2 / 4 + 2 / 4, 2, 0)


def test_what_fewer_than_one_review_of_twenty_says_is_rare():
    twenty = [[EAST]] * 19 + [[NORTH]]
    assert support.supported(hotel(*twenty), np.array([NORTH], np.int16)).rare == 0
    assert support.supported(hotel(*twenty, [EAST]), np.array([NORTH], np.int16)).rare == 1


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(0, 4))
def test_support_is_that_of_a_loop(seed, reviews, sentences):
    random = np.random.default_rng(seed)
    of = hotel(*[quantize(random.normal(size=(2, 3))) for _ in range(reviews)])
    rows = quantize(random.normal(size=(sentences, 3))) if sentences else EAST[:0].reshape(0, 3)

    def says(vector, row):
        one, other = vector.astype(float), row.astype(float)
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other) >= support.COSINE

    supports = [
        [any(says(of.vectors[2 * review + n], row) for n in (0, 1)) for row in rows]
        for review in range(reviews)
    ]
    each = [sum(column) / reviews for column in zip(*supports, strict=True)]
    assert support.supported(of, rows) == pytest.approx(
        (sum(map(any, supports)) / reviews, sum(each), sentences, each.count(0.0))
    )


def test_means_are_over_summaries_and_over_all_their_sentences():
    of = [support.Supported(0.5, 0.5, 1, 0), support.Supported(1.0, 1.5, 3, 2)]
    assert support.row("s", of) == {
        "summary": "s", "support": 0.75, "of_a_sentence": 0.5, "rare": 0.5, "sentences": 2.0,
    }  # fmt: skip


def test_short_sentences_of_other_hotels_count_once_a_review():
    reviews = [data.TextReview("lara:a", "Nice pool here. Nice pool here. No.")] * 2
    found = suggested.sentences_of([*reviews, data.TextReview("lara:b", None)])
    assert found.texts == ["Nice pool here."]
    assert found.weights.tolist() == [4.0]
    assert found.entity_count == 1


def test_both_parts_on_little_data(small_study, monkeypatch):
    one = support_study.SupportStudy(small_study.folder, small_study.screen, small_study.results)
    monkeypatch.setattr(support_study.SupportStudy, "embed", staticmethod(embed))
    monkeypatch.setattr(suggested, "COUNTS", (2, 3))
    one.run()
    recorded = json.loads((small_study.results / "quality_support.json").read_text())
    rows = {row["summary"]: row for row in recorded["support"]}
    assert {OURS, "facets", "QT", support_study.PEOPLE} <= set(rows)
    assert rows[OURS]["support"] > 0
    assert "mean" not in rows[support_study.PEOPLE]
    assert [row["asked"] for row in recorded["suggested"]["overviews"]] == [2, 3]
    assert recorded["suggested"]["hotels"] == 2
    for table in tables.TABLES.values():
        assert len(table(recorded).splitlines()) > 3
