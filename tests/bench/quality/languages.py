"""What becomes of other languages than English: detection, splitting, neighbours, facets, sets.

`python -m tests.bench.quality.languages --data FOLDER`, or `make quality-languages DATA=FOLDER`,
needs `airbnb_albany.jsonl.gz` there: the reviews of one city, with `review_id` and `text`. Those in
`languages.json` were read by one judge, by language; that of an empty name has no one language. All
others are taken for English, of which a sample stands for all.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from tests.bench.machine import began, command_line, write
from tests.bench.quality import data
from tests.text.multilingual import e5, use
from worker.coversumm import quantize_rows
from worker.facets.definitions import DEFAULT_THRESHOLD, preset, read_definitions
from worker.facets.membership import facet_criteria
from worker.summarizer import Summarizer
from worker.text import language
from worker.text.declared import facts_of
from worker.text.embedders import load_engine
from worker.text.engine import EmbeddingEngine
from worker.text.language import UNKNOWN, LanguageDetector
from worker.text.splitting import split_sentences

RESULTS = Path(__file__).parents[1] / "results" / "quality_languages.json"
REVIEWS = "airbnb_albany.jsonl.gz"
LABELS = Path(__file__).with_name("languages.json")
LISTED = ("en", "fr", "de", "es")
SAMPLED = 1500  # English reviews
STRATUM = 150  # most sentences of a language
FEWEST = 38  # sentences of a language that is looked at
LEAST = (0, 12, 20, 30)
SETS = ((200, 200), (200, 60))  # English and French sentences of an entity


class Line(data.TextReview):
    review_id: str = ""


class Judged(NamedTuple):
    """A review, its language, and how many reviews it stands for."""

    text: str
    language: str
    weight: float


def judged(folder: Path) -> list[Judged]:
    """All that were read, and the sample."""
    labels = {one: name for name, of in json.loads(LABELS.read_bytes()).items() for one in of}
    read: list[Judged] = []
    others: list[str] = []
    for line in data.lines(folder / REVIEWS, Line):
        text = line.text or ""
        found = labels.get(line.review_id, "en")
        if line.review_id in labels and found:
            read.append(Judged(text, found, 1))
        elif found and len(text.split()) > 1:
            others.append(text)
    sample = random.Random(1).sample(others, SAMPLED)
    return [*read, *(Judged(text, "en", len(others) / SAMPLED) for text in sample)]


def detection(reviews: Sequence[Judged]) -> list[dict[str, Any]]:
    """By the least bytes of letters: shares of reviews that are right, without one, and wrong."""
    detector, rows = LanguageDetector(LISTED), []
    for least in LEAST:
        counts: Counter[str] = Counter()
        foreign: Counter[str] = Counter()
        with patch.object(language, "LEAST_BYTES", least):
            for one in reviews:
                wanted = one.language if one.language in LISTED else UNKNOWN
                found = detector.language_of(one.text)
                what = "right" if found == wanted else "none" if found == UNKNOWN else "wrong"
                counts[what] += one.weight  # type: ignore[assignment]
                foreign[what] += one.language != "en"
        rows.append({"least": least, "all": _shares(counts), "not_english": _shares(foreign)})
    return rows


def _shares(counts: Counter[str]) -> dict[str, float]:
    return {name: counts[name] / sum(counts.values()) for name in ("right", "none", "wrong")}


def splitting(reviews: Sequence[Judged]) -> dict[str, Any]:
    """How many sentences change if texts not in English are split by their language."""
    foreign = [one for one in reviews if one.language != "en"]
    before = [split_sentences(one.text, 2000) for one in foreign]
    after = [split_sentences(one.text, 2000, one.language) for one in foreign]
    changed = [
        {"language": one.language, "ends_more": len(new) - len(old)}
        for one, old, new in zip(foreign, before, after, strict=True)
        if old != new
    ]
    return {"reviews": len(foreign), "sentences": sum(map(len, before)), "changed": changed}


def strata(reviews: Sequence[Judged]) -> dict[str, list[str]]:
    """By language distinct sentences in an order of chance."""
    found: dict[str, dict[str, None]] = {}
    for one in reviews:
        sentences = split_sentences(one.text, 2000, one.language)
        found.setdefault(one.language, {}).update(dict.fromkeys(sentences))
    chance = random.Random(2)
    return {
        name: chance.sample(list(of), len(of))
        for name, of in sorted(found.items(), key=lambda item: -len(item[1]))
        if len(of) >= FEWEST
    }


def neighbours(engine: EmbeddingEngine, of: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The share of sentences whose nearest one has their language, and that by chance."""
    names = [name for name, sentences in of.items() for _ in sentences[:STRATUM]]
    vectors = engine.embed([one for sentences in of.values() for one in sentences[:STRATUM]])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    nearest = cosines.argmax(axis=1).tolist()
    same = [names[i] == names[other] for i, other in enumerate(nearest)]
    chance = [(names.count(name) - 1) / (len(names) - 1) for name in names]
    return {"same": float(np.mean(same)), "chance": float(np.mean(chance))}


def in_facets(engine: EmbeddingEngine, of: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """By language the share of sentences that a facet of English phrases takes."""
    definitions = read_definitions("preset:stays").with_threshold(facts_of(engine).threshold)
    facets = facet_criteria(definitions, engine.dimension, engine.embed)
    shares = {}
    for name, sentences in of.items():
        vectors, _ = quantize_rows(engine.embed(sentences[:STRATUM]))
        shares[name] = float((facets.nearest_facets(vectors) != 0).mean())
    return shares


def sets(engine: EmbeddingEngine, of: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The languages of the 20 sentences of an entity in two, and those of the facets `everything`
    of each.
    """
    rows = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "facets.toml"
        file.write_text(f'languages = ["en", "fr"]\n{preset("stays")}')
        for english, french in SETS:
            stays = Summarizer(20, embedder=engine, facets=file)
            given = [("en", one) for one in of["en"][:english]]
            given += [("fr", one) for one in of["fr"][:french]]
            stays.add(
                {"entity_id": "e", "review_id": f"{name}{number}", "sentences": [text]}
                | {"language": name}
                for number, (name, text) in enumerate(given)
            )
            summary = Counter(one.review_id[:2] for one in stays.summary("e").sentences)
            everything = {
                one.language: len(one.sentences)
                for one in stays.facets("e").facets
                if one.name == "everything"
            }
            rows.append({"of": [english, french], "summary": summary, "everything": everything})
    return rows


def main() -> int:
    """Measure, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("QUALITY_DATA") or "data"))
    given = parser.parse_args()
    reviews = judged(given.data)
    of = strata(reviews)
    record = began("tests.bench.quality.languages") | {
        "detection": detection(reviews),
        "splitting": splitting(reviews),
        "sentences": {name: len(sentences[:STRATUM]) for name, sentences in of.items()},
        "models": {},
    }
    for name, engine in (("default", load_engine("onnx")), ("use", use()), ("e5", e5())):
        print(name, flush=True)
        record["models"][name] = {
            "model": engine.model,
            "threshold": facts_of(engine).threshold or DEFAULT_THRESHOLD,
            "neighbours": neighbours(engine, of),
            "facets": in_facets(engine, of),
            "sets": sets(engine, of),
        }
    write(given.out, record)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
