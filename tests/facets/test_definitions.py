"""The file that defines facets: what is accepted, and one line with the place for what is not."""

import base64

import numpy as np
import pytest

from worker.errors import SetupError
from worker.facets import PRESETS
from worker.facets.definitions import (
    MAX_FACETS,
    Definitions,
    RatingRange,
    given_vectors,
    parse_definitions,
    preset,
    read_definitions,
)
from worker.facets.words import Words

GOOD = """
[[facet]]
name = "parking"
phrases = ["Parking was easy.", "There was no parking."]
[[facet]]
name = "critics"
rating = { min = 1, max = 2 }
k = 5
"""


def test_a_file_of_two_facets(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    parking, critics = read_definitions(str(tmp_path / "mine.toml")).facets
    assert (parking.name, parking.k, parking.threshold, parking.hidden) == (
        "parking",
        3,
        None,
        False,
    )
    assert (critics.rating, critics.k) == (RatingRange(1, 2), 5)
    assert parking.is_exclusive
    assert not critics.is_exclusive


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_six_to_ten_facets_with_phrases_and_one_that_is_hidden(name):
    definitions = read_definitions(f"preset:{name}")
    assert 6 <= len(definitions.facets) <= 10
    assert all(len(facet.phrases) > 1 for facet in definitions.facets)
    assert len(definitions.visible) == len(definitions.facets) - 1


def test_a_service_alone_is_not_the_support_of_an_app():
    (support,) = [
        facet for facet in read_definitions("preset:apps").facets if facet.name == "support"
    ]
    words = Words([support.words])
    assert not any(words.bits(["Great service"], tag) for tag in ("en", "fr", "de"))
    assert words.bits(["Le service client"], "fr") == words.bits(["Kundenservice"], "de") == 1


def facets_of(count):
    return "".join(f"[[facet]]\nname = '{number}'\nnewest = 1\n" for number in range(count))


def test_as_many_facets_as_are_allowed_are_read():
    assert len(parse_definitions(facets_of(MAX_FACETS), "mine.toml").facets) == MAX_FACETS


@pytest.mark.parametrize("hide_names", [False, True])
def test_what_is_stored_is_read(hide_names):
    text = f"hide_names = {str(hide_names).lower()}\n" + preset("stays")
    made = parse_definitions(text, "mine.toml").with_threshold(0.5).with_language(["fr"])
    read = Definitions.from_json(made.to_json())
    assert (read.facets, read.hide_names) == (made.facets, hide_names)


def test_the_identity_changes_with_every_definition():
    others = [
        GOOD,
        GOOD.replace("k = 5", "k = 4"),
        GOOD.replace("critics", "critic"),
        GOOD.replace("max = 2", "max = 3"),
        GOOD.replace("easy", "simple"),
        GOOD + "hidden = true\n",
        GOOD + "words = ['bad']\n",
        GOOD + "words = { en = ['bad'] }\n",
        GOOD + "words = ['bad']\nquotes = 'words'\n",
        "hide_names = true\n" + GOOD + "words = ['bad']\nquotes = 'words'\n",
    ]
    identities = {parse_definitions(text, "f").identity for text in others}
    assert len(identities) == len(others)


FACET = '[[facet]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no [[facet]]: at least one is needed"),
        ("facet = 3", "no [[facet]]: at least one is needed"),
        ("facet = [1]", "facet 1: Expected object, got int"),
        ("x = 1\n" + GOOD, "unknown field 'x': only [[facet]], languages, polarity, hide_"),
        ("[[facets]]", "hide_names are expected, did you mean facet?"),
        ("hide_names = 'yes'\n" + GOOD, "hide_names: 'yes' is not true or false"),
        ("hide_names = true\n" + GOOD, 'hide_names: no facet has quotes = "words"'),
        (FACET + "phrase = ['x']", "unknown field phrase, did you mean phrases?"),
        (FACET + "rating = { mim = 3 }", "rating: Object contains unknown field mim, did you mean"),
        ("[[facet]\n", "(at line 1, column 8)"),
        (FACET, "line 1: facet 'a': says nothing about its sentences: give at least one of"),
        ("[[facet]]\nnewest = 3", "line 1: facet 1: Object missing required field name"),
        (FACET + "phrases = ['x']\nvectors = ['x']",
         "line 1: facet 'a': has phrases and vectors: "),
        (FACET + "within_days = 0", "line 1: facet 'a': within_days: Expected int >= 1"),
        (FACET + "language = ['EN']", "facet 'a': language[0]: Expected str matching regex"),
        (FACET + "country = ['']", "facet 'a': country[0]: Expected str of length >= 1"),
        (FACET + "author_id = ['x', 'x']", "facet 'a': author_id: one is given twice"),
        (FACET + "newest = 3\nsides = true", "facet 'a': sides need polarity = { good"),
        (GOOD + "hidden = true\nsides = true", "facet 'critics': sides: a hidden facet"),
        ("polarity = { good = ['x'] }\n" + GOOD, "polarity: give bad, complete sentences, or"),
        ("polarity = { god = ['x'] }\n" + GOOD, "unknown field god, did you mean good"),
        ("polarity = { good = ['x'], bad = ['y'], margin = 3 }\n" + GOOD, "margin: Expected float"),
        (FACET + f"country = ['{'é' * 25}']", "has more than 48 bytes of JSON: no review has it"),
        (FACET + f"author_id = ['{'x' * 129}']", "has more than 128 bytes of JSON"),
        ("languages = []\n" + GOOD, "languages: give at least one"),
        ("languages = ['en', 'en']\n" + GOOD, "languages: one is given twice"),
        ("languages = ['en-GB']\n" + GOOD, "languages: [0]: Expected str matching regex"),
        ("languages = 'en'\n" + GOOD, "languages: Expected array, got str"),
        ("languages = ['en']\n" + GOOD + "language = ['fr']",
         "'critics': language: 'fr' is not in"),
        ("languages = ['en']\n" + GOOD.replace("critics", "everything"),
         "facet 'everything': with languages another facet has this name"),
        (f"languages = {[f'{a}{b}' for a in 'abcd' for b in 'abcdef']}\n" + GOOD,
         "72 facets in 24 languages, at most 64 are allowed"),
        (FACET + "words = ['x']", "line 1: facet 'a': says nothing about its sentences"),
        (FACET + "newest = 1\nwords = ['x', 'a**']", "facet 'a': words: 'a**': a star is allowed"),
        (FACET + "newest = 1\nwords = { fr = [' '] }", "facet 'a': words: ' ' is blank"),
        (FACET + "newest = 1\nwords = { fr-FR = ['x'] }",
         "facet 'a': words: Expected str matching"),
        (FACET + "newest = 1\nwords = {}", "facet 'a': words: Expected object of length >= 1"),
        (FACET + "newest = 1\nquotes = 'words'", "facet 'a': quotes: \"words\" is only for"),
        (FACET + "newest = 1\nwords = ['x']\nquotes = 'words'\nhidden = true",
         "facet 'a': quotes: \"words\" is only for a facet with words that is published"),
        (FACET + "newest = 1\nquotes = 'word'", "facet 'a': quotes: Invalid enum value 'word'"),
        (FACET + "newest = 0", "line 1: facet 'a': newest: Expected int >= 1"),
        (FACET + "newest = 3\nk = 101", "line 1: facet 'a': k: Expected int <= 100"),
        (FACET + "newest = 3\nthreshold = 0.3", "threshold: only for phrases or vectors"),
        (FACET + "phrases = ['x']\nthreshold = 2", "threshold: Expected float <= 1.0"),
        (FACET + "phrases = []", "phrases: Expected array of length >= 1"),
        (FACET + "phrases = [' ']", "phrases: ' ' is blank"),
        (FACET + "labels = ['x', 'x']", "labels: one is given twice"),
        (FACET + "rating = {}", "rating: give min, max or both"),
        (FACET + "rating = { min = 3, max = 2 }", "rating: min 3.0 is above max 2.0"),
        (FACET + "rating = { min = nan }", "rating: nan is not a bound: leave it out"),
        (FACET + "rating = { min = 1, max = inf }", "rating: inf is not a bound: leave it out"),
        (FACET + "vectors = ['x']\nthreshold = nan", "threshold: Expected float"),
        (FACET + "rating = { low = 3 }", "rating: Object contains unknown field low"),
        (FACET + "newest = 3\nhidden = true", "every facet is hidden: nothing would be published"),
        (
            "[[facet]]\nname = 'a (en)'\nrating = {min = 4}\n" + FACET + "language = ['en']",
            "facet 'a (en)': two are published by this name",
        ),
        ("# one\n\n" + FACET + "newest = 3\n" + FACET + "newest = 4",
         "line 6: facet 'a': another facet has the same name"),
        (facets_of(MAX_FACETS + 1), "65 facets, at most 64 are allowed"),
    ],
)  # fmt: skip
def test_an_error_is_one_line_with_its_place(text, said):
    with pytest.raises(SetupError) as raised:
        parse_definitions(text, "mine.toml")
    line = str(raised.value)
    assert line.startswith("COVERSUMM_FACETS: mine.toml: ")
    assert said in line
    assert "\n" not in line


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(SetupError, match=r"COVERSUMM_FACETS: .*none\.toml: No such file"):
        read_definitions(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_bytes(b"# \xff")
    with pytest.raises(SetupError, match=r"bad\.toml: not UTF-8 \(byte 2\)"):
        read_definitions(str(tmp_path / "bad.toml"))
    with pytest.raises(SetupError, match=r"no preset 'stay': one of stays, hotels"):
        read_definitions("preset:stay")


def packed(*numbers):
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


@pytest.mark.parametrize(
    "vector", [packed(1, 0), packed(0, 0, 0), packed(1, 0, np.nan), "no base64", "AAA"]
)
def test_a_vector_that_is_none_is_named(vector):
    text = f"{FACET}vectors = ['{packed(1, 0, 0)}', '{vector}']"
    (facet,) = parse_definitions(text, "f").facets
    with pytest.raises(SetupError, match=r"facet 'a': vectors\[1\]: not 3 float32 numbers"):
        given_vectors(facet, 3)
