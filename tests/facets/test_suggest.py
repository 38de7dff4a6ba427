"""Suggested facets: clusters, their words, junk, and a file that always loads."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.facets import suggest
from worker.facets.definitions import parse_definitions
from worker.facets.suggest import ShortSentences, Suggestion, definitions_file, is_short, k_means
from worker.facets.words import Words

SUBJECTS = {
    "parking": ["Parking was {}.", "There was {} parking.", "The parking lot is {}."],
    "breakfast": ["The breakfast was {}.", "We had a {} breakfast.", "A {} breakfast buffet."],
    "praise": ["We would stay here {} again.", "It was a {} hotel.", "We had a {} stay."],
}
ADJECTIVES = ["good", "bad", "easy", "free", "poor", "great", "awful", "nice", "cheap", "simple"]


def entities_of():
    """Thirty texts of three subjects, of two entities; parking twice in the second one."""
    found = {}
    for subject, forms in SUBJECTS.items():
        for number, adjective in enumerate(ADJECTIVES):
            text = forms[number % 3].format(adjective)
            found[text] = Counter({"a": 1, "b": 2} if subject == "parking" else {"a": 1, "b": 1})
    return found


def vectors_of(texts):
    """One direction for each subject, with some noise that is a function of the row."""
    axes = np.eye(8)
    noise = np.random.default_rng(5).normal(scale=0.1, size=(len(texts), 8))
    subjects = ["arking", "breakfast", ""]
    of = [next(n for n, word in enumerate(subjects) if word in text) for text in texts]
    return (axes[of] * 3 + noise).astype(np.float32)


def references():
    """General phrases lie in the direction of praise, all others in that of parking."""
    phrases, general = suggest.reference_phrases()
    return np.eye(8, dtype=np.float32)[[2] * general + [0] * (len(phrases) - general)]


def suggested(count=3):
    sentences = ShortSentences(entities_of())
    return suggest.suggest(sentences, vectors_of(sentences.texts), references(), count)


def test_each_subject_is_a_suggestion_the_largest_first():
    parking, *others = suggested()
    assert (parking.name, parking.count, parking.share) == ("parking", 30, 30 / 70)
    assert {one.name for one in others} >= {"breakfast"}
    assert [one.count for one in others] == [20, 20]
    for one in (parking, *others):
        assert len(set(one.samples)) == len(one.samples) == suggest.SAMPLES
        assert one.phrase in entities_of()


def test_only_general_praise_is_junk():
    assert {one.name: one.is_junk for one in suggested()} == {
        "parking": False,
        "breakfast": False,
        next(one.name for one in suggested() if one.name not in SUBJECTS): True,
    }


def test_words_are_frequent_inside_and_rare_outside():
    by_name = {one.name: one.words for one in suggested()}
    assert by_name["parking"][0] == "parking"
    assert "buffet" in by_name["breakfast"]
    for words in by_name.values():
        assert "was" not in words
        assert "the" not in words


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_each_row_is_in_the_cluster_of_the_nearest_mean(k, seed):
    random = np.random.default_rng(seed)
    unit = random.normal(size=(60, 3)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    weights = random.integers(1, 4, 60).astype(np.float32)
    labels, cosines = k_means(unit, weights, k)
    means = np.array([weights[labels == one] @ unit[labels == one] for one in range(k)])
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(cosines, (unit @ means.T)[np.arange(60), labels], atol=1e-5)
    assert (cosines >= (unit @ means.T).max(axis=1) - 1e-5).all()


@pytest.mark.parametrize(
    ("text", "short"),
    [("Too short", False), ("Parking was easy.", True), (" ".join("abcdefghijkl"), True),
     (" ".join("abcdefghijklm"), False), (f"a b {'c' * 300}", False)],
)  # fmt: skip
def test_short_sentences_have_three_to_twelve_words(text, short):
    assert is_short(text) == short


WORD = st.from_regex("[a-zé日]{1,9}('s)?", fullmatch=True)
TEXT = st.text(min_size=1, max_size=30).filter(lambda text: text.strip("\x00\x7f \t\r\n"))


def line(text):
    return suggest._line(text)


@given(
    st.lists(
        st.tuples(
            TEXT, TEXT, st.lists(TEXT, max_size=3), st.lists(WORD, max_size=3), st.booleans()
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda one: one[0],
    )
)
def test_a_file_of_any_texts_loads(given):
    given = [one for one in given if line(one[1])]
    suggestions = [
        Suggestion(name, line(phrase), 3, 0.1, [line(one) for one in samples], words, junk)
        for name, phrase, samples, words, junk in given
    ]
    if not suggestions:
        return
    facets = parse_definitions(definitions_file(suggestions, "these"), "x").facets
    assert [one.name for one in facets] == [one.name for one in suggestions]
    assert [one.phrases for one in facets] == [(one.phrase,) for one in suggestions]
    all_junk = all(one.is_junk for one in suggestions)
    assert [one.hidden for one in facets] == [one.is_junk and not all_junk for one in suggestions]
    assert [one.words for one in facets] == [
        None if one.is_junk or not one.words else tuple(one.words) for one in suggestions
    ]


def test_words_are_those_that_count_mentions():
    """Each suggested word finds the sentences that it was counted in."""
    texts = ["L’ÉTÉ was warm.", "Bob's pool_side, Bob’s!", "It is 30 °C here."]
    found = []
    for text in texts:
        sentences = ShortSentences(
            {text: Counter({"a": 5}), "Nothing of all that.": Counter({"a": 9})}
        )
        for word in sentences.telling_words([0]):
            assert Words([[word]]).bits([text], None) == 1, word
            found.append(word)
    assert {"l'été", "bob's", "pool", "side", "30"} <= set(found)


def test_a_word_is_mostly_inside():
    """Four sentences with it inside and four outside are enough, five outside are too many."""
    inside = [f"Pool number {n}." for n in range(4)]
    for outside, found in ((4, True), (5, False)):
        others = [f"A pool {n} of {n}." for n in range(outside)]
        others += [f"Nothing here {n}." for n in range(60)]
        texts = ShortSentences({text: Counter("a") for text in inside + others})
        assert ("pool" in texts.telling_words(range(4))) is found
