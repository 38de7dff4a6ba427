"""A review mentions a facet if one of its sentences has one of the facet's words."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.words import naive, patterns_for
from worker.facets import words as module
from worker.facets.words import MAX_PATTERN_CHARS, MAX_PATTERNS, Words, fold


def mentions(pattern, text, language=None):
    return bool(Words([[pattern]]).bits([text], language))


letters = st.sampled_from(
    ["a", "A", "b", "İ", "ａ", "é", "e\u0301", "É", "ß", "ss", "'", "’", "1", "का"]
)
unspaced = st.text(st.sampled_from("停车きパท่ข"), min_size=1, max_size=3)
one_word = (
    st.tuples(st.lists(letters, min_size=1, max_size=3), st.sampled_from(["", "", "*"]))
    .map(lambda given: "".join(given[0]) + given[1])
    .filter(lambda pattern: pattern.strip("'’*"))
)
patterns = st.one_of(
    one_word,
    st.lists(one_word, min_size=2, max_size=3).map(" ".join),
    st.lists(one_word, min_size=2, max_size=2).map("-".join),
    unspaced,
)
blanks = st.sampled_from([" ", " ", "-", ", ", ". ", "_", "停"])
texts = st.lists(st.one_of(letters, letters, blanks, unspaced), max_size=12).map("".join)
LANGUAGES = ("en", "fr", "zh")
given_words = st.one_of(
    st.none(),
    st.lists(patterns, min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(LANGUAGES), st.lists(patterns, min_size=1, max_size=3)),
)


@given(
    facets=st.lists(given_words, max_size=5),
    reviews=st.lists(
        st.tuples(
            st.lists(texts, max_size=3),
            st.sampled_from([None, "und", "de", "en", "en-US", "fr", "zh-Hant"]),
        ),
        max_size=4,
    ),
)
@example(facets=[["a b"]], reviews=[(["a", "b"], None), (["a-b"], None)])
@example(facets=[["停*"]], reviews=[(["a停车"], None)])
def test_every_pattern_in_every_sentence(facets, reviews):
    words = Words(facets)
    assert bool(words) == any(facets)
    for sentences, language in reviews:
        expected = 0
        for number, given_words in enumerate(facets):
            for pattern in patterns_for(given_words, language):
                if any(naive(pattern, text) for text in sentences):
                    expected |= 1 << number
        assert words.bits(sentences, language) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("clean", "It was CLEAN, really.", True),
        ("clean", "Cleaning was slow.", False),
        ("clean*", "Cleaning was slow.", True),
        ("clean*", "An unclean room.", False),
        ("air con", "No air-con!", True),
        ("air con", "Air conditioning", False),
        ("air con*", "Air conditioning", True),
        ("air con", "The air was fine, con was not.", False),
        ("self check* in", "Self-checked in", True),
        ("host's", "The host’s dog", True),
        ("host", "The host’s dog", False),
        ("propreté", "PROPRETÉ impeccable", True),
        ("propreté", "proprete\u0301", True),
        ("proprete", "propreté", False),
        ("straße", "STRASSE", True),
        ("wifi", "WIFI_password", True),
        ("停车", "这里停车很方便。", True),
        ("停车*", "停 车", False),
        ("wifi", "有wifi很方便", True),
        ("駐車場", "無料の駐車場があります", True),
        ("ที่จอดรถ", "มีที่จอดรถฟรี", True),
        ("주차*", "주차가 편해요", True),
        ("साफ*", "कमरा बहुत साफ था।", True),
        ("чист*", "Очень ЧИСТО", True),
        ("3", "3", True),
        ("clean", "It was 'clean'.", True),
        ("clean", "It was ‘clean’ and ’quiet’.", True),
        ("quiet", "It was ‘clean’ and ’quiet’.", True),
        ("'clean'", "It was clean.", True),
        ("rock 'n' roll", "Rock ’n’ roll!", True),
        ("l'*", "L'hôtel", True),
        ("l'*", "Location", False),
        ("istanbul", "İSTANBUL", True),
        ("İstanbul", "Istanbul", True),
        ("wifi", "ＷｉＦｉ", True),
        ("ｗｉｆｉ", "WiFi 7", True),
    ],
)
def test_examples(pattern, text, found):
    assert mentions(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "blank"),
        (" \t", "blank"),
        ("*", "star"),
        ("a *", "star"),
        ("*a", "star"),
        ("a*b", "star"),
        ("a**", "star"),
        ("停*车", "star"),
        ("?!", "letter"),
        ("'", "letter"),
        ("’*", "letter"),
        ("a" * (MAX_PATTERN_CHARS + 1), "longer"),
    ],
)
def test_a_wrong_pattern_is_named(pattern, said):
    with pytest.raises(ValueError, match=said) as caught:
        Words([["fine"], {"en": ["fine", pattern]}])
    assert repr(pattern[:40])[:-1] in str(caught.value)


@pytest.mark.parametrize("language", ["", "a", "EN", "en-US", "und", "e1"])
def test_a_table_has_languages(language):
    with pytest.raises(ValueError, match="no language"):
        Words([{language: ["a"]}])


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("en", 0b101),
        (" EN ", 0b101),
        ("eng", 0b101),
        ("fr_CA", 0b101),
        ("fre", 0b101),
        ("de-AT", 0b110),
        ("it", 0b100),
        ("xyz", 0b100),
        *((tag, 0b111) for tag in (None, "", " ", "und", "mul", "english", "日本語", "x-a", "e")),
    ],
)
def test_one_list_counts(tag, found):
    words = Words(
        [{"en": ["quiet"], "fr": ["charge"]}, {"de": ["still"], "en": ["noise"]}, ["any"]]
    )
    assert words.bits(["quiet charge still any"], tag) == found
    for other in ("charge", "noise") if found == 0b111 else ():
        assert not words.bits([other], tag)


def test_how_many():
    many = [f"w{number}" for number in range(MAX_PATTERNS)]
    assert Words([{"en": many, "fr": many}]).bits(["w499"], "fr") == 1
    with pytest.raises(ValueError, match="501 words"):
        Words([[*many, "one"]])
    all_facets = Words([[f"w{number}"] for number in range(64)])
    assert all_facets.bits(["w0 w63"], None) == 1 | 1 << 63
    with pytest.raises(ValueError, match="65 facets"):
        Words([None] * 65)


def test_the_cache_is_bounded_and_changes_nothing(monkeypatch):
    monkeypatch.setattr(module, "_CACHED_WORDS", 3)
    words = Words([["a*"], ["b"]])
    for _ in range(2):
        for number in range(20):
            assert words.bits([f"a{number} {'x' * 100}", "b"], None) == 3
    assert len(words._known) <= 3


@given(st.text())
def test_folding_twice_changes_nothing(text):
    assert fold(fold(text)) == fold(text)
