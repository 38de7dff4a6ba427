"""Streams for the core's benchmark, one vector an event: the paper's synthetic ones (appendix) and real reviews.

Synthetic vectors are not normalised, as in the paper; their fixed point is `rint(scale * v)` with the scale that fills int16.
"""

import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import SCALE, quantize
from worker.text import SPLITTER, load_engine, split_sentences

CACHE = Path(".cache/bench")
BUNDLED = Path("worker/demo/data/airbnb_albany.jsonl.gz")


class Stream(NamedTuple):
    name: str
    vectors: NDArray[np.int16]


def uniform(n: int = 10_000, dimension: int = 100) -> Stream:
    """Coordinates uniform in [0, 1)."""
    return Stream(f"uniform, {n:,} x {dimension}", _fixed(np.random.default_rng(1).random((n, dimension))))


def lda(n: int = 10_000, words: int = 100, topics: int = 10, length: int = 150) -> Stream:
    """The paper's LDA process: mean of one-hot words, flat Dirichlet topics and words, Poisson lengths."""
    rng = np.random.default_rng(2)
    phi = rng.dirichlet(np.ones(words), topics)
    lengths = np.maximum(rng.poisson(length, n), 1)
    # drawing a topic and then a word, word by word, is drawing words from the mixture of the topics' words
    counts = rng.multinomial(lengths, rng.dirichlet(np.ones(topics), n) @ phi)
    return Stream(f"LDA, {n:,} x {words}", _fixed(counts / lengths[:, None]))


def drifting(n: int = 10_000, dimension: int = 100) -> Stream:
    """The paper's adversarial stream: x_i ~ N((i/n) 1, I)."""
    means = np.arange(n)[:, None] / n
    return Stream(
        f"drifting, {n:,} x {dimension}", _fixed(means + np.random.default_rng(3).normal(size=(n, dimension)))
    )


def clusters(n: int = 26_864, dimension: int = 384) -> Stream:
    """Stand-in for real sentences without a model: unit vectors in clusters, a tenth of them copies."""
    rng = np.random.default_rng(4)
    centers = rng.normal(size=dimension) + 0.6 * rng.normal(size=(40, dimension))
    v = centers[rng.integers(40, size=n)] + 0.8 * rng.normal(size=(n, dimension))
    copies = rng.random(n) < 0.1
    v[copies] = v[rng.integers(50, size=int(copies.sum()))]
    return Stream(f"clusters, {n:,} x {dimension}", quantize(v))


def reviews(path: Path, most: int | None = None) -> Stream:
    """The sentences of the entity with the most reviews in a JSONL(.gz) file, in order, embedded by the default engine.

    Vectors are kept in .cache/bench under a name made of the texts, the model and the splitter.
    """
    texts: dict[str, list[str]] = {}
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            review = json.loads(line)
            texts.setdefault(review["entity_id"], []).append(review.get("text") or "")
    entity, count = Counter({entity: len(of) for entity, of in texts.items()}).most_common(1)[0]
    sentences = [s for text in texts[entity] for s in split_sentences(text, 2000)][:most]
    vectors = _embedded(sentences)
    name = f"{path.name.split('.')[0]}: {entity}, {count:,} reviews, {len(vectors):,} x {vectors.shape[1]}"
    return Stream(name, vectors)


def _embedded(sentences: list[str]) -> NDArray[np.int16]:
    engine = load_engine("onnx")
    assert engine is not None
    digest = hashlib.sha256(json.dumps([engine.model, SPLITTER, sentences]).encode()).hexdigest()[:16]
    file = CACHE / f"{digest}.npy"
    if not file.exists():
        print(f"embedding {len(sentences):,} sentences (kept in {file}) ...", flush=True)
        parts = [engine.embed(sentences[at : at + 1024]) for at in range(0, len(sentences), 1024)]
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(file, quantize(np.concatenate(parts)))
    return np.asarray(np.load(file), np.int16)


def _fixed(v: NDArray[np.float64]) -> NDArray[np.int16]:
    return np.rint(v * (SCALE / np.abs(v).max())).astype(np.int16)
