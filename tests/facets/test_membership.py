"""Membership by phrases, ratings and labels: exact, and the same in any company."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.facet_model import signed_square_of_cosine
from worker.coversumm.fixed_point import SCALE, quantize
from worker.errors import SetupError
from worker.events.inputs import ReviewDetails
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import MAX_VECTOR_BYTES, FacetCriteria, facet_criteria

DIMENSION = 8
numbers = st.lists(st.integers(-SCALE, SCALE), min_size=DIMENSION, max_size=DIMENSION).filter(any)


def of(*facets, vectors=()):
    return FacetCriteria(
        Definitions(facets), np.array(vectors, np.int16).reshape(len(vectors), DIMENSION)
    )


@given(
    phrases=st.lists(numbers, min_size=4, max_size=4),
    sentences=st.lists(numbers, min_size=1, max_size=20),
    threshold=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
    copies=st.lists(st.integers(0, 3), max_size=4),
)
def test_the_highest_cosine_in_pythons_integers(phrases, sentences, threshold, copies):
    sentences = sentences + [phrases[at] for at in copies]
    facets = of(
        Facet("a", phrases=("1", "2"), threshold=threshold),
        Facet("b", phrases=("3",)),
        Facet("c", phrases=("4",), threshold=0.2),
        vectors=phrases,
    )
    owners, thresholds = [0, 0, 1, 2], [threshold, threshold, 0.4, 0.2]
    wanted = []
    for sentence in sentences:
        cosines = [signed_square_of_cosine(phrase, sentence) for phrase in phrases]
        best = max(range(4), key=lambda i: (cosines[i], -i))
        near = cosines[best] >= Fraction(repr(thresholds[best])) ** 2
        wanted.append(1 << owners[best] if near else 0)
    matrix = np.array(sentences, np.int16)
    assert facets.nearest_facets(matrix).tolist() == wanted
    assert [facets.nearest_facets(row[None])[0] for row in matrix] == wanted


def test_ties_go_to_the_facet_defined_first():
    same = [SCALE, *[0] * (DIMENSION - 1)]
    facets = of(Facet("a", phrases=("1",)), Facet("b", phrases=("2",)), vectors=[same, same])
    assert facets.nearest_facets(np.array([same], np.int16)).tolist() == [0b01]


def test_the_threshold_is_included():
    phrase = [SCALE, *[0] * (DIMENSION - 1)]
    facets = of(Facet("a", phrases=("1",), threshold=1), vectors=[phrase])
    shorter = [SCALE - 1, *[0] * (DIMENSION - 1)]
    beside = [SCALE, 1, *[0] * (DIMENSION - 2)]
    found = facets.nearest_facets(np.array([phrase, shorter, beside], np.int16))
    assert found.tolist() == [1, 1, 0]


def test_a_copy_has_a_cosine_of_one_whatever_rounding_made_of_its_length():
    """Half of all vectors of fixed point are shorter than 32767."""
    vectors = quantize(np.random.default_rng(1).normal(size=(100, 384)))
    for at, vector in enumerate(vectors):
        facet = Facet("a", phrases=("1",), threshold=1)
        facets = FacetCriteria(Definitions([facet]), vector[None])
        assert np.flatnonzero(facets.nearest_facets(vectors)).tolist() == [at]
    facets = FacetCriteria(
        Definitions([Facet(f"f{at}", phrases=("1",), threshold=1) for at in range(60)]),
        vectors[:60],
    )
    assert facets.nearest_facets(vectors[:60]).tolist() == [1 << at for at in range(60)]


def test_a_cosine_at_the_threshold_is_decided_in_integers():
    """3/5 and 4/5 of lengths that are integers; float64 rounds some of them up, some down."""
    for scale in range(1, 400):
        phrase = [5 * scale, *[0] * (DIMENSION - 1)]
        sentence = [3 * scale, 4 * scale, *[0] * (DIMENSION - 2)]
        for threshold, is_member in ((0.6, True), (0.6000000000000001, False)):
            facets = of(Facet("a", phrases=("1",), threshold=threshold), vectors=[phrase])
            found = facets.nearest_facets(np.array([sentence], np.int16))
            assert found.tolist() == [int(is_member)]


@pytest.mark.parametrize(
    ("rating", "bits"), [(None, 0), (1, 0b001), (2, 0b011), (2.5, 0b010), (4, 0b110), (-0.0, 0b001)]
)
def test_ratings_include_both_bounds(rating, bits):
    facets = of(
        Facet("low", rating=RatingRange(max=2)),
        Facet("middle", rating=RatingRange(min=2, max=4)),
        Facet("high", rating=RatingRange(min=4)),
    )
    assert facets.review_bits(ReviewDetails(rating), "") == bits


@pytest.mark.parametrize(
    ("details", "language", "names"),
    [
        (ReviewDetails(), "", "none"),
        (ReviewDetails(verified=True), "fr", "none verified french"),
        (ReviewDetails(verified=False), "en", "none unverified european"),
        (ReviewDetails(country="FR", author_id="me"), "fr", "none french france mine"),
        (ReviewDetails(1.0, country="US", verified=True), "und", "none verified critics"),
    ],
)
def test_a_review_meets_all_criteria_of_a_facet(details, language, names):
    facets = of(
        Facet("none", labels=("x",)),
        Facet("verified", verified=True),
        Facet("unverified", verified=False),
        Facet("french", language=("fr",)),
        Facet("european", language=("en", "fr"), verified=False),
        Facet("france", country=("FR", "BE"), language=("fr",)),
        Facet("mine", author_id=("me", "you"), country=("FR",)),
        Facet("critics", rating=RatingRange(max=2), country=("US",), verified=True),
    )
    bits = facets.review_bits(details, language)
    found = [facet.name for at, facet in enumerate(facets.definitions.facets) if bits >> at & 1]
    assert found == names.split()


def test_phrases_exclude_one_another_among_facets_of_the_same_other_criteria():
    east, north = [SCALE, *[0] * (DIMENSION - 1)], [0, SCALE, *[0] * (DIMENSION - 2)]
    between = [SCALE * 4 // 5, SCALE * 3 // 5, *[0] * (DIMENSION - 2)]
    facets = of(
        Facet("east", phrases=("1",)),
        Facet("north", phrases=("2",)),
        Facet("critics of the north", phrases=("2",), rating=RatingRange(max=2)),
        vectors=[east, north, north],
    )
    assert facets.nearest_facets(np.array([east, north, between], np.int16)).tolist() == [
        0b001,
        0b110,
        0b101,
    ]
    assert facets.facets_of(0b101, 0, facets.review_bits(ReviewDetails(5), "")) == 0b001
    assert facets.facets_of(0b101, 0, facets.review_bits(ReviewDetails(1), "")) == 0b101


def test_with_languages_each_facet_exists_once_for_each():
    definitions = Definitions(
        [Facet("east", phrases=("1",)), Facet("both", phrases=("2",), language=("fr", "de"))],
        ("fr", "de", "en"),
    )
    assert [(facet.name, facet.language, facet.k) for facet in definitions.facets] == [
        ("everything", ("fr",), 20),
        ("east", ("fr",), 3),
        ("both", ("fr",), 3),
        ("everything", ("de",), 20),
        ("east", ("de",), 3),
        ("both", ("de",), 3),
        ("everything", ("en",), 20),
        ("east", ("en",), 3),
    ]
    vectors = np.eye(2, DIMENSION) * SCALE
    facets = FacetCriteria(definitions, vectors.astype(np.int16))
    assert facets.nearest_facets(facets.vectors).tolist() == [0b10010010, 0b00100100]
    assert facets.facets_of(0b10010010, 0, facets.review_bits(ReviewDetails(), "de")) == 0b011000
    assert facets.facets_of(0b10010010, 0, facets.review_bits(ReviewDetails(), "und")) == 0
    assert Definitions.from_json(definitions.to_json()).identity == definitions.identity


def test_any_label_counts():
    facets = of(Facet("a", labels=("x", "y")), Facet("b", labels=("y",)))
    assert facets.label_bits == {"x": 0b01, "y": 0b11}


def test_phrases_need_an_engine_and_room():
    with pytest.raises(SetupError, match=r"facet 'a': phrases need an embedder"):
        facet_criteria(Definitions([Facet("a", phrases=("one",))]), DIMENSION, None)
    many = tuple(map(str, range(MAX_VECTOR_BYTES // 2 // DIMENSION + 1)))
    with pytest.raises(SetupError, match=r"phrases and vectors of dimension 8 take"):
        facet_criteria(
            Definitions([Facet("a", phrases=many)]),
            DIMENSION,
            lambda texts: np.ones((len(texts), DIMENSION)),
        )


def test_a_count_does_not_depend_on_the_languages_of_another_facet():
    words = {"en": ("quiet",), "de": ("still",)}
    noise, german = Facet("noise", labels=("x",), words=words), Facet("de", language=("de",))
    alone, beside = of(noise), of(noise, german)
    for text, tag in [("quiet", None), ("still", None), ("still", "de"), ("quiet", "en-GB")]:
        counts = [
            criteria.mentions([text], criteria.language_of([text], tag), tag) & 1
            for criteria in (alone, beside)
        ]
        of_word = beside.mentions_of_word(text, beside.language_of([text], tag), tag)[0] & 1
        assert [*counts, of_word] == [int((text, tag) != ("still", None))] * 3
    both = of(Facet("german", language=("de",), words=words))
    assert both.mentions(["still"], "de", None) == 1


def test_without_a_language_the_list_of_the_models_counts():
    facet = Facet("noise", labels=("x",), words={"en": ("quiet",), "de": ("still",)})
    definitions = Definitions([facet, Facet("any", newest=1, words=("still",))])
    found = [
        FacetCriteria(definitions.with_language(codes), np.zeros((0, DIMENSION), np.int16))
        for codes in (None, ("en",), ("de", "en"), ("fr",), ("de",))
    ]
    assert [criteria.mentions(["still"], "", None) for criteria in found] == [0b10] * 4 + [0b11]
    assert len({criteria.definitions.identity for criteria in found}) == 2


def test_names_of_persons_are_quoted_unless_they_are_hidden():
    facet = Facet("host", newest=1, words=("host",), quotes="words")
    text = "Sarah was an attentive host, near at hand."
    found = [
        FacetCriteria(Definitions([facet], hide_names=hidden), np.zeros((0, DIMENSION), np.int16))
        for hidden in (False, True)
    ]
    assert [criteria.marks(0, 1, text, "", None) for criteria in found] == [1, 0]
    assert [
        criteria.marks(0, 1, text.replace("Sarah", "Nobody"), "", None) for criteria in found
    ] == [1, 1]
