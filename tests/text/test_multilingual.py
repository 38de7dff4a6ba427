"""Facets of languages with a multilingual model, on real reviews. In `make test-multilingual`."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.harness.oracle import brute_force
from tests.text.multilingual import USE_LANGUAGES, use
from worker.coversumm import quantize
from worker.demo.reviews import bundled_reviews
from worker.facets.definitions import preset, read_definitions
from worker.summarizer import Summarizer
from worker.text.declared import facts_of
from worker.text.engine import EmbeddingEngine
from worker.text.language import LanguageDetector
from worker.text.splitting import split_sentences

pytestmark = pytest.mark.multilingual
LISTED = ("en", "fr", "de")
THRESHOLD = 0.25


@pytest.fixture(scope="module")
def engine() -> EmbeddingEngine:
    return use()


@pytest.fixture(scope="module")
def reviews() -> dict[str, str]:
    """By id all reviews that are not in English, and as many as 150 that are."""
    detector = LanguageDetector(LISTED)
    found: dict[str, str] = {}
    english: dict[str, str] = {}
    for _, value in bundled_reviews():
        review = json.loads(value)
        kind = english if detector.language_of(review["text"]) == "en" else found
        kind[review["review_id"]] = review["text"]
    return found | dict(random.Random(1).sample(sorted(english.items()), 150))


def test_a_sentence_has_the_same_bits_in_any_company(
    engine: EmbeddingEngine, reviews: Mapping[str, str]
) -> None:
    texts = [
        sentence for text in list(reviews.values())[:60] for sentence in split_sentences(text, 2000)
    ]
    together = engine.embed(texts)
    np.testing.assert_array_equal(engine.embed(texts[::-1])[::-1], together)
    assert facts_of(engine).languages == USE_LANGUAGES


def members(
    engine: EmbeddingEngine, reviews: Mapping[str, str], language: str
) -> dict[str, NDArray[np.int16]]:
    """By id the sentences of the reviews in a language."""
    detector = LanguageDetector(LISTED)
    found = {}
    for name, text in reviews.items():
        if detector.language_of(text) == language:
            for number, sentence in enumerate(split_sentences(text, 2000, language)):
                found[f"{name}#{number}"] = quantize(engine.embed([sentence]))[0]
    return found


def nearest(sentences: Mapping[str, NDArray[np.int16]], k: int) -> list[str]:
    live = {name.encode(): vector for name, vector in sentences.items()}
    return [identifier.decode() for identifier in brute_force(live, k).ids]


def phrase_facets(engine: EmbeddingEngine) -> dict[str, NDArray[np.float64]]:
    return {
        facet.name: quantize(engine.embed(facet.phrases or ())).astype(float)
        for facet in read_definitions("preset:stays").facets
    }


@pytest.mark.parametrize("left", [1.0, 0.5])
def test_each_language_has_its_own_exact_facets(
    engine: EmbeddingEngine, reviews: dict[str, str], tmp_path: Path, left: float
) -> None:
    file = tmp_path / "facets.toml"
    by_phrases = preset("stays").replace('quotes = "words"', 'quotes = "phrases"')
    file.write_text(f"languages = {json.dumps(LISTED)}\n{by_phrases}")
    stays = Summarizer(20, embedder=engine, facets=file)
    stays.add({"entity_id": "e", "review_id": name, "text": text} for name, text in reviews.items())
    gone = random.Random(2).sample(sorted(reviews), int(len(reviews) * (1 - left)))
    for name in gone:
        stays.remove("e", name)
    live = {name: text for name, text in reviews.items() if name not in gone}
    shown = {(facet.name, facet.language): facet for facet in stays.facets("e").facets}
    phrases = phrase_facets(engine)
    for language in LISTED:
        everything = members(engine, live, language)
        assert len(everything) > 5
        facet = shown["everything", language]
        assert facet.sentence_count == len(everything)
        assert [sentence.sentence_id for sentence in facet.sentences] == nearest(everything, 20)
        by_facet: dict[str, dict[str, NDArray[np.int16]]] = {name: {} for name in phrases}
        for sentence, vector in everything.items():
            cosines = {
                name: max(
                    float(
                        member
                        @ vector
                        / np.linalg.norm(member)
                        / np.linalg.norm(vector.astype(float))
                    )
                    for member in of
                )
                for name, of in phrases.items()
            }
            best = max(cosines, key=cosines.__getitem__)
            if cosines[best] >= THRESHOLD:
                by_facet[best][sentence] = vector
        for name, of in by_facet.items():
            if (name, language) in shown:
                facet = shown[name, language]
                assert facet.sentence_count == len(of)
                assert [sentence.sentence_id for sentence in facet.sentences] == nearest(of, 3)
    counts = dict.fromkeys(LISTED, 0)
    for (name, code), facet in shown.items():
        if name != "everything" and code is not None:
            counts[code] += facet.sentence_count
    assert min(counts.values()) > 0, "English phrases find sentences of each language"
