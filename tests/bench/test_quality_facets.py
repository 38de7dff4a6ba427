"""What the study of facets counts: groups, the overview, what repeats, what is published."""

import numpy as np
import pytest

from tests.bench.quality import draw, facets, facets_shown
from tests.bench.quality.contenders import OURS
from tests.bench.quality.entity import Review, entity
from tests.bench.quality.hotels import Final
from tests.bench.quality.rouge import scored
from worker.coversumm import brute_force, quantize
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import FacetCriteria

DIMENSION = 6
RANDOM = np.random.default_rng(3)
VECTORS = quantize(RANDOM.normal(size=(80, DIMENSION)))
ENTITY = entity("e", [Review([f"good {n}", f"bad {n}"], 1 + n % 5) for n in range(40)], VECTORS)
TWO = FacetCriteria(
    Definitions([Facet("a", phrases=("x",)), Facet("b", phrases=("y",), hidden=True)]),
    quantize(np.eye(2, DIMENSION)),
)


def test_groups_are_the_members_of_facets():
    of_a, of_b = facets.groups_of(ENTITY, TWO)
    unit = ENTITY.unit
    assert of_a == [
        row for row in range(80) if unit[row, 0] >= 0.4 and unit[row, 0] >= unit[row, 1]
    ]
    assert of_b
    assert not set(of_a) & set(of_b)


def test_the_central_sentences_are_those_of_brute_force():
    rows = list(range(0, 80, 3))
    live = {b"%03d" % row: VECTORS[row] for row in rows}
    assert facets.central(ENTITY, rows, 5) == [int(id_) for id_ in brute_force(live, 5).ids]
    assert facets.central(ENTITY, [], 5) == []


def test_facets_are_read_in_turn_the_largest_first():
    assert facets.in_turn([[1], [2, 3, 4], []], [[1], [3, 2], []]) == [3, 1, 2]


def test_the_nearest_to_the_phrase():
    groups = facets.groups_of(ENTITY, TWO)
    best, _ = facets.near_phrases(ENTITY, TWO, groups, 2)
    assert best == sorted(groups[0], key=lambda row: -int(VECTORS[row, 0]))[:2]


def test_intervals_are_from_the_plain_summary_and_the_rival():
    def seen(text):
        final = Final(scored(text, ["the room was clean"]), 4, 0.0, 0.0)
        plain = Final(scored("the bus", ["the room was clean"]), 2, 0.0, 0.0)
        return facets.Seen({OURS: plain, facets.FACETS: final}, {}, {})

    rival = [scored("the room", ["the room was clean"])] * 2
    rows = facets.overviews([seen("the room was clean")] * 2, {"rival": rival}, "rival")
    of = {row["method"]: row for row in rows}
    assert of[facets.FACETS]["mean"] == [100.0, 100.0, 100.0]
    assert of["rival"]["from_rival"] == of[OURS]["from_plain"] == [0.0, 0.0]
    apart = 100 - of["rival"]["mean"][0]
    assert of[facets.FACETS]["from_rival"] == pytest.approx([apart, apart], abs=0.01)


def test_what_is_published_falls_with_the_least_number_of_changes():
    rows = [facets_shown.published(ENTITY, TWO, least, 5) for least in facets_shown.LEAST]
    assert [row["reviews"] for row in rows] == [40] * 3
    for topic in ("summary.changed", "facets.changed"):
        counts = [row[topic] for row in rows]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] > counts[-1] > 0


def test_hidden_facets_are_not_shown():
    shown = facets_shown.look_at(ENTITY, TWO, 5)
    of_a, of_b = facets.groups_of(ENTITY, TWO)
    assert (shown.members, shown.hidden) == (len(of_a) / 80, len(of_b) / 80)
    assert shown.twins == 0.0  # no other facet is shown


def test_drawn_sentences_are_members():
    drawn = draw.draw([ENTITY], TWO, count=3)
    for name, rows in zip("ab", facets.groups_of(ENTITY, TWO), strict=True):
        count, sentences = drawn[name]
        assert count == len(rows)
        assert len(set(sentences)) == 3
        assert set(sentences) <= {ENTITY.sentences[row] for row in rows}
