"""Streams for the core's benchmark, one vector an event: the paper's synthetic ones (appendix) and
real reviews.

Synthetic vectors are not normalised, as in the paper; their fixed point is `rint(scale * v)` with
the scale that fills int16.
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
from worker.text.embedders import load_engine
from worker.text.splitting import SPLITTER, split_sentences

CACHE = Path(".cache/bench")
BUNDLED = Path("worker/demo/data/airbnb_albany.jsonl.gz")


class Stream(NamedTuple):
    name: str
    vectors: NDArray[np.int16]


def uniform(n: int = 10_000, dimension: int = 100, seed: int = 1) -> Stream:
    """Coordinates uniform in [0, 1)."""
    return Stream(
        f"uniform, {n:,} x {dimension}", _fixed(np.random.default_rng(seed).random((n, dimension)))
    )


def uniform_blocks(n: int, dimension: int = 100, seed: int = 1) -> NDArray[np.int16]:
    """A uniform stream of any length: none longer than a quantized embedding is, so that keys stay
    exact for millions.

    Made in pieces; as floating point a long one would not fit in memory.
    """
    rng = np.random.default_rng(seed)
    vectors = np.empty((n, dimension), np.int16)
    for at in range(0, n, 10_000):
        piece = rng.random((min(10_000, n - at), dimension))
        vectors[at : at + 10_000] = np.rint(SCALE / np.sqrt(dimension) * piece)
    return vectors


def lda(
    n: int = 10_000,
    words: int = 100,
    topics: int = 10,
    length: float = 150,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    seed: int = 2,
) -> Stream:
    """The paper's LDA process: each review the mean of one-hot words.

    `topics` have Dirichlet(`beta`) distributions of `words`, reviews Dirichlet(`alpha`)
    distributions of topics and Poisson(`length`) words, but at least one.
    """
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, beta), topics)
    lengths = np.maximum(rng.poisson(length, n), 1)
    # drawing a topic and then a word, word by word, is drawing words from the mixture of the
    # topics' words
    counts = rng.multinomial(lengths, rng.dirichlet(np.full(topics, alpha), n) @ phi)
    return Stream(f"LDA, {n:,} x {words}", _fixed(counts / lengths[:, None]))


def drifting(n: int = 10_000, dimension: int = 100, seed: int = 3) -> Stream:
    """The paper's adversarial stream: x_i ~ N((i/n) 1, I)."""
    means = np.arange(n)[:, None] / n
    noise = np.random.default_rng(seed).normal(size=(n, dimension))
    return Stream(f"drifting, {n:,} x {dimension}", _fixed(means + noise))


def drift(
    n: int = 10_000, dimension: int = 100, beta: float = 1.0, spread: float = 1e-4, seed: int = 6
) -> Stream:
    """The paper's distribution drift (Proposition 6): x_t ~ N(mu_t + beta v, spread I) with mu_t
    the mean of all before and v a unit vector, here that of equal coordinates. mu_1 is the origin.
    """
    ahead = beta / np.sqrt(dimension)
    noise = np.sqrt(spread) * np.random.default_rng(seed).normal(size=(n, dimension))
    x, total = np.empty((n, dimension)), np.zeros(dimension)
    for t in range(n):
        x[t] = total / max(t, 1) + ahead + noise[t]
        total += x[t]
    return Stream(f"drift by {beta:g}, {n:,} x {dimension}", _fixed(x))


def mixture(modes: int, n: int = 10_000, dimension: int = 100, seed: int = 5) -> Stream:
    """The paper's multi-modal stream: each x from one of N(i 1, I), i = 1 ... modes, all
    as likely.
    """
    rng = np.random.default_rng(seed)
    means = rng.integers(1, modes + 1, size=(n, 1))
    return Stream(
        f"mixture of {modes}, {n:,} x {dimension}", _fixed(means + rng.normal(size=(n, dimension)))
    )


def clusters(n: int = 26_864, dimension: int = 384, seed: int = 4) -> Stream:
    """Stand-in for real sentences without a model: unit vectors in clusters, a tenth of them
    copies.
    """
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=dimension) + 0.6 * rng.normal(size=(40, dimension))
    v = centers[rng.integers(40, size=n)] + 0.8 * rng.normal(size=(n, dimension))
    copies = rng.random(n) < 0.1
    v[copies] = v[rng.integers(50, size=int(copies.sum()))]
    return Stream(f"clusters, {n:,} x {dimension}", quantize(v))


def reviews(path: Path, most: int | None = None, rank: int = 0) -> Stream:
    """The `review_sentences` of an entity, embedded by the default engine.

    Vectors are kept in .cache/bench under a name made of the texts, the model and the splitter.
    """
    title, sentences = review_sentences(path, most, rank)
    vectors = embedded(sentences)
    return Stream(f"{title}, {len(vectors):,} x {vectors.shape[1]}", vectors)


def review_sentences(path: Path, most: int | None = None, rank: int = 0) -> tuple[str, list[str]]:
    """A title and the sentences, in order, of the entity with the most reviews in a JSONL(.gz)
    file.

    `rank` 1 takes the entity with the second most, and so on (IndexError where there are not as
    many).
    """
    texts: dict[str, list[str]] = {}
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            review = json.loads(line)
            texts.setdefault(review["entity_id"], []).append(review.get("text") or "")
    entity, count = Counter({entity: len(of) for entity, of in texts.items()}).most_common()[rank]
    sentences: list[str] = []
    for text in texts[entity]:
        if most is not None and len(sentences) >= most:
            break
        sentences += split_sentences(text, 2000)
    return f"{path.name.split('.')[0]}: {entity}, {count:,} reviews", sentences[:most]


def embedded(sentences: list[str], precision: str = "fp32") -> NDArray[np.int16]:
    """Their vectors by the default engine, kept in .cache/bench under a name made of the texts, the
    model and the splitter.
    """
    engine = load_engine("onnx", precision=precision)
    digest = hashlib.sha256(json.dumps([engine.model, SPLITTER, sentences]).encode()).hexdigest()[
        :16
    ]
    file = CACHE / f"{digest}.npy"
    if not file.exists():
        print(f"embedding {len(sentences):,} sentences (kept in {file}) ...", flush=True)
        parts = [engine.embed(sentences[at : at + 1024]) for at in range(0, len(sentences), 1024)]
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(file, quantize(np.concatenate(parts)))
    return np.asarray(np.load(file), np.int16)


def _fixed(v: NDArray[np.float64]) -> NDArray[np.int16]:
    return np.rint(v * (SCALE / np.abs(v).max())).astype(np.int16)
