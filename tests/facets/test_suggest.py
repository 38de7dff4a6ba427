"""Suggested facets: subjects by the words beside them, groups, and a file that always loads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.facets import suggest
from worker.facets.definitions import parse_definitions
from worker.facets.suggest import ReviewTexts, Suggestion, definitions_file, singular
from worker.facets.words import Words

SUBJECTS = {
    "parking": ["The {} parking was far.", "We liked the parking.", "Parking is far {}."],
    "street": ["The {} street was far.", "The street was nice.", "Near a {} street."],
    "breakfast": ["The {} breakfast was far.", "A good breakfast.", "Breakfast has {} bread."],
}
AXES = {"parking": 0, "street": 0, "breakfast": 1, "great": 3, "terrible": 4}


def embed(texts):
    """A direction for each subject, parking and streets the same; praise and complaints apart."""
    vectors = np.full((len(texts), 8), 0.01, np.float32)
    for row, text in enumerate(texts):
        for word, axis in AXES.items():
            vectors[row, axis] += 3 * (word in text.lower())
        vectors[row, 5] += 1e-3 * (sum(map(ord, text)) % 89)
    return vectors


def reviews(subjects=SUBJECTS, ratings=(5.0, 1.0), entities="ab"):
    """A review of each sentence, of the entities in turn, parking twice as often."""
    adjectives = ["wooden", "green", "narrow", "round", "painted"]
    texts = [
        form.format(adjective)
        for subject, forms in subjects.items()
        for form in forms * (2 if subject == "parking" else 1)
        for adjective in adjectives
    ]
    return [
        ReviewTexts(entities[at % len(entities)], ratings[at % len(ratings)], [text])
        for at, text in enumerate(texts)
    ]


def suggested(given, count=12):
    return suggest.suggest(given, embed, count)


def test_similar_terms_are_one_facet_named_after_the_most_frequent():
    parking, breakfast = suggested(reviews())
    assert (parking.name, parking.words, parking.review_count) == (
        "parking",
        ["parking", "street"],
        45,
    )
    assert (breakfast.name, breakfast.words, breakfast.review_count) == (
        "breakfast",
        ["breakfast"],
        15,
    )
    assert [found.name for found in suggested(reviews(), 1)] == ["parking"]


def test_the_counts_are_those_of_the_words():
    given = reviews()
    for found in suggested(given):
        words = Words([found.words])
        assert sum(words.bits(review.sentences, None) for review in given) == found.review_count


@pytest.mark.parametrize(
    ("forms", "is_subject"),
    [
        (["The kettle was {}.", "A {} kettle."], True),
        (["It is very {} and dusty.", "Very dusty, with {} legs."], True),
        (["It is very great with {} legs."], False),  # praise alone
        (["We walked {} far.", "To walk {} far."], False),  # a verb
        (["A {} room with Janet.", "Thanks, dear Janet."], False),  # a name
        (["The {} hotel was far."], False),  # what is reviewed
    ],
)  # fmt: skip
def test_the_words_beside_a_word_say_whether_it_is_a_subject(forms, is_subject):
    given = reviews({"other": forms})
    names = {"kettle", "dusty", "great", "walk", "walked", "janet", "hotel"}
    found = [term.name for term in suggest._terms(given) if term.name in names]
    assert bool(found) is is_subject, found


def test_verbs_of_low_ratings_are_subjects():
    good = [ReviewTexts("ab"[at % 2], 5.0, ["We enjoy it."]) for at in range(20)]
    bad = [ReviewTexts("ab"[at % 2], 1.0, ["It crashes again and again."]) for at in range(6)]
    assert [found.name for found in suggested(good + bad)] == ["crashes"]
    assert suggested([review._replace(rating=None) for review in good + bad]) == []


def test_a_word_of_one_entity_is_none_if_there_are_several():
    given = [
        ReviewTexts("a", 5.0, [f"The kettle was {word}."]) for word in ("far", "red", "hot") * 4
    ]
    assert [found.name for found in suggested(given)] == ["kettle"]
    assert suggested([*given, ReviewTexts("b", 5.0, ["Nothing."])]) == []


def test_phrases_are_sentences_about_this_subject_alone():
    forms = {
        "parking": ["The {} parking was great.", "The parking was terrible."],
        "breakfast": ["The {} breakfast was great.", "Breakfast and parking were terrible."],
    }
    given = reviews(forms, ratings=(1.0,), entities="ab")
    texts = {text for review in given for text in review.sentences}
    parking, breakfast = sorted(suggested(given), key=lambda found: -len(found.name))[::-1]
    assert parking.complaint == "The parking was terrible."
    assert parking.phrase in texts
    assert (breakfast.phrase in texts, breakfast.complaint) == (True, None)
    parking, _ = suggested([review._replace(rating=5.0) for review in given])
    assert parking.complaint is None  # its review praises


@pytest.mark.parametrize(
    ("word", "base"),
    [("beds", "bed"), ("batteries", "battery"), ("ties", "tie"), ("boxes", "box"), ("bus", "bus"),
     ("glass", "glass"), ("dishes", "dish"), ("houses", "house")],
)  # fmt: skip
def test_plurals(word, base):
    assert singular(word) == base


TEXT = st.text(min_size=1, max_size=30).filter(lambda text: text.split() and text.strip("\x00"))
WORD = st.from_regex("[a-zé]{3,9}", fullmatch=True)
SUGGESTION = st.builds(
    Suggestion, WORD, st.lists(WORD, min_size=1, max_size=4), st.integers(5, 9999), TEXT,
    st.none() | TEXT,
)  # fmt: skip


@given(st.lists(SUGGESTION, min_size=1, max_size=5, unique_by=lambda found: found.name))
def test_a_file_of_any_texts_loads(given):
    facets = parse_definitions(definitions_file(given, "these"), "x").facets
    assert [facet.name for facet in facets] == [found.name for found in given]
    assert [facet.words for facet in facets] == [tuple(found.words) for found in given]
    assert [facet.phrases for facet in facets] == [
        tuple(" ".join(text.split()) for text in (found.phrase, found.complaint) if text)
        for found in given
    ]
    assert all(facet.quotes_words for facet in facets)
