"""The language of a review: by its tag, else by its text, with the same answer on every machine."""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from math import log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.demo.reviews import bundled_reviews
from worker.errors import SetupError
from worker.text import language
from worker.text.language import LEAST_BYTES, OTHERS, UNKNOWN, LanguageDetector

SAID = {
    "en": "The apartment was clean and the host answered quickly.",
    "fr": "Le logement est propre et très bien situé, je recommande.",
    "de": "Die Wohnung ist sauber, und der Vermieter war sehr freundlich.",
    "es": "El apartamento es muy cómodo y la ubicación es excelente.",
    "it": "La casa è molto carina e tenuta con molta cura.",
    "pt": "O apartamento é bem localizado e a anfitriã foi muito atenciosa.",
    "nl": "We werden hartelijk ontvangen door een vriendelijke gastheer.",
    "pl": "Apartament był wyjątkowo czysty i dobrze wyposażony.",
    "ru": "Красивый дом, прямо в центре города.",
    "el": "Ευρύχωρο διαμέρισμα σε τρία επίπεδα.",
    "he": "דירה נחמדה ונעימה במיקום שקט",
    "tr": "Çok güzel ve kaliteli bir gün geçirdik.",
    "zh": "非常满意！",
    "ja": "部屋はとても清潔でした。",
    "ko": "너무 좋은 넓은 숙소, 친절한 호스트",
}


@cache
def of_all() -> LanguageDetector:
    return LanguageDetector(OTHERS)


def test_each_language_is_found_among_all() -> None:
    assert {name: of_all().language_of(text) for name, text in SAID.items()} == {
        name: name for name in SAID
    }


def test_what_is_not_asked_for_does_not_become_the_nearest_that_is() -> None:
    detector = LanguageDetector(["en", "fr"])
    found = {name: detector.language_of(text) for name, text in SAID.items()}
    assert {name for name, code in found.items() if code != UNKNOWN} == {"en", "fr"}


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("pt-BR", "pt"),
        ("PT", "pt"),
        ("pt_BR", "pt"),
        ("fr", "und"),
        (" ger ", "und"),
        ("por", "pt"),
    ],
)
def test_a_tag_decides_whatever_the_text_says(tag: str, expected: str) -> None:
    assert LanguageDetector(["en", "pt"]).language_of(SAID["en"], tag) == expected


def test_without_a_tag_the_text_decides() -> None:
    detector = LanguageDetector(["en", "pt"])
    assert [detector.language_of(SAID["pt"], tag) for tag in (None, "")] == ["pt", "pt"]


def test_a_language_that_the_model_does_not_know_is_found_by_its_tag() -> None:
    assert LanguageDetector(["tlh"]).language_of("Qapla'", "tlh") == "tlh"


@pytest.mark.parametrize("text", ["", "Great!", "👍👍👍👍👍👍👍👍", "100 100 100", "a" * 11])
def test_too_short_a_text_has_no_language(text: str) -> None:
    assert of_all().language_of(text) == UNKNOWN


def test_a_text_of_capitals_is_read_as_one_of_small_letters() -> None:
    assert of_all().language_of(SAID["de"].upper()) == "de"


def test_answers_are_those_of_the_library() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    theirs = LanguageIdentifier.from_model_file(MODEL_FILE)
    theirs.set_languages(OTHERS)
    ours = of_all()
    bundled = [json.loads(value)["text"] for _, value in bundled_reviews()]
    texts = random.Random(1).sample(bundled, 300)
    found = [(ours.language_of(text), theirs.classify(text)[0]) for text in texts]
    decided = [(mine, other) for mine, other in found if mine != UNKNOWN]
    assert len(decided) > 240
    assert all(mine == other for mine, other in decided)


def test_nothing_is_rounded_that_could_differ_by_machine() -> None:
    """Scaled weights are integers, and no rounded logarithm is near the middle of two."""
    model = language._model()
    weights = np.asarray(model.weights, np.float64) * 2**language._WEIGHT_BITS
    priors = np.asarray(model.priors, np.float64) * 2 ** (
        language._WEIGHT_BITS + language._LOG_BITS
    )
    assert (weights % 1 == 0).all()
    assert (priors % 1 == 0).all()
    scaled = [log1p(count) * 2**language._LOG_BITS for count in range(len(language._LOGS))]
    assert min(abs(value % 1 - 0.5) for value in scaled) > 1e-6
    # the largest sum has room in 64 bits, with every feature at its largest count
    assert len(weights) * int(abs(weights).max()) * max(language._LOGS) < 2**62


@given(st.text(max_size=200))
def test_any_text_has_an_answer(text: str) -> None:
    assert of_all().language_of(text) in {*OTHERS, UNKNOWN}
    letters = "".join(filter(str.isalpha, text)).encode("utf-8", "replace")
    assert len(letters) >= LEAST_BYTES or of_all().language_of(text) == UNKNOWN


def test_lone_surrogates_are_no_error() -> None:
    assert of_all().language_of("\ud800" + SAID["fr"]) == "fr"


def test_other_languages_are_another_identity() -> None:
    identity, same, other = (LanguageDetector(asked).identity for asked in ("ab", "ba", "ac"))
    assert identity == same != other
    assert "py3langid-0.4.0" in identity


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    language._model.cache_clear()
    with pytest.raises(SetupError, match=r"the extra `language`: .*pip install"):
        LanguageDetector(["en"])
    language._model.cache_clear()
