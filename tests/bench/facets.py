"""The processor time that words, languages and sides of facets take: `make bench-facets`.

    python -m tests.bench.facets [--rounds N] [--reviews N] [--out FILE]

The bundled reviews as those of few entities, with embeddings of the default engine in the events,
through the pure processor over rows in memory, in native code and in Python. The variants run in
turns; a figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.machine import began, tell, write
from tests.harness.load import read_reviews
from worker.events import Record
from worker.facets.definitions import preset
from worker.facets.words import Words
from worker.processing.config import configured_engine, processor_config
from worker.processing.in_memory import ProcessorInMemory
from worker.settings import Settings
from worker.text.splitting import split_sentences

RESULTS = Path(__file__).with_name("results") / "facets.json"
STAYS = preset("stays")
_, SIDES_OF, _REST = re.split(r"(?=\[polarity\])|(?=\n\[\[facet\]\])", STAYS, maxsplit=2)
WORDS = re.sub(r"\n(quotes|sides) = .*", "", _REST)
PHRASES = re.sub(r"\nwords.*?(?=\n\w+(\.\w+)? = |\n\n|\Z)", "", WORDS, flags=re.DOTALL)
ENTITIES = 60  # of sizes that native code takes
VISIBLE = re.compile(r"^(name = .*)$(?!\nhidden)", re.MULTILINE)
VARIANTS = {
    "no facets": "",
    "facets": PHRASES,
    "facets with words": WORDS,
    "facets with sides": SIDES_OF + VISIBLE.sub(r"\1\nsides = 1", PHRASES),
    "the preset": STAYS,  # it quotes words, and has sides
    "one language": 'languages = ["en"]\n' + STAYS,
    "two languages": 'languages = ["en", "fr"]\n' + STAYS,
}
FRENCH = b'"language": "fr"'
TARGETS = {"words_us_a_sentence": 30, "two_languages": 1.25, "sides": 1.5}


def records(reviews: int, engine: Any) -> tuple[list[Record], list[str]]:
    """Events of the first reviews, half of them tagged as French, and their sentences. All have a
    facet of a language where the file has both.
    """
    chosen = read_reviews(limit=reviews)
    split = [split_sentences(review.text, 2000) for review in chosen]
    texts = [text for texts in split for text in texts]
    vectors = iter(engine.embed(texts).astype("<f4"))
    made = []
    for offset, (review, sentences) in enumerate(zip(chosen, split, strict=True)):
        body = {
            "type": "review.upserted",
            "entity_id": f"stay {offset % ENTITIES}",
            "review_id": review.review_id,
            "rating": review.rating,
            "occurred_at": review.occurred_at,
            "language": ("en", "fr")[offset % 2],
            "sentences": [
                {"text": text, "embedding": base64.b64encode(next(vectors).tobytes()).decode()}
                for text in sentences
            ],
        }
        key, value = body["entity_id"].encode(), json.dumps(body).encode()
        made.append(Record("reviews", 0, offset, 0, key, value))
    return made, texts


def seconds(facets: str, load: list[Record], engine: Any, native: Any) -> float:
    """Processor time of all events, in this thread: those of the engine still wait for work."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facets.toml"
        path.write_text(facets)
        settings = Settings(
            input_topic=load[0].topic,
            facets=str(path) if facets else "",
            max_message_bytes=2**25,
            k=20,
            batch_sentences=1000,
            native=native,
        )
        processor = ProcessorInMemory(processor_config(settings, 1, engine), engine)
    start = time.thread_time()
    for at in range(0, len(load), 250):
        for _ in processor.process(load[at : at + 250]):
            pass
    return time.thread_time() - start


def words_seconds(texts: list[str]) -> float:
    """Processor time of the words of nine facets alone, in four languages."""
    import tomllib

    words = Words([facet.get("words") for facet in tomllib.loads(STAYS)["facet"]])
    start = time.process_time()
    for text in texts:
        words.bits([text], "en")
    return time.process_time() - start


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reviews", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    engine = configured_engine(Settings())
    load, texts = records(options.reviews, engine)
    english = [
        event._replace(value=event.value.replace(FRENCH, b'"language": "en"')) for event in load
    ]
    found: dict[str, list[float]] = {
        form + name: [] for form in ("", "native ") for name in VARIANTS
    }
    of_words = []
    for number in range(options.rounds):
        names = list(VARIANTS) if number % 2 == 0 else list(reversed(VARIANTS))
        for name in names:
            of_name = english if name == "one language" else load
            for native in ("off", "require"):
                key = name if native == "off" else f"native {name}"
                found[key].append(seconds(VARIANTS[name], of_name, engine, native))
                print(f"{key:25} {found[key][-1]:.3f} s", flush=True)
        of_words.append(words_seconds(texts))
    median = {name: statistics.median(times) for name, times in found.items()}
    measured = {
        "words_us_a_sentence": round(1e6 * statistics.median(of_words) / len(texts), 1),
        "two_languages": round(median["two languages"] / median["one language"], 2),
        "sides": round(median["facets with sides"] / median["facets"], 2),
        "words": round(median["facets with words"] / median["facets"], 2),
        "facets": round(median["facets"] / median["no facets"], 2),
        "preset": round(median["the preset"] / median["no facets"], 2),
        **{
            f"native_{name}": round(median[f"native {of}"] / median[f"native {over}"], 2)
            for name, of, over in (
                ("facets", "facets", "no facets"),
                ("words", "facets with words", "facets"),
                ("sides", "facets with sides", "facets"),
                ("preset", "the preset", "no facets"),
            )
        },
        "native": round(median["the preset"] / median["native the preset"], 2),
    }
    record = began("tests.bench.facets") | {
        "reviews": len(load),
        "sentences": len(texts),
        "seconds": {name: round(figure, 3) for name, figure in median.items()},
        **measured,
    }
    write(options.out, record)
    tell(TARGETS, measured, options.out)


if __name__ == "__main__":
    main()
