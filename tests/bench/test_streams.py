"""The streams are what they say they are."""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.bench import streams
from worker.coversumm import SCALE

pytestmark = pytest.mark.long

MAKERS = {
    "uniform": lambda seed: streams.uniform(200, 8, seed=seed).vectors,
    "uniform blocks": lambda seed: streams.uniform_blocks(200, 8, seed=seed),
    "lda": lambda seed: streams.lda(200, 8, 3, 20, seed=seed).vectors,
    "drifting": lambda seed: streams.drifting(200, 8, seed=seed).vectors,
    "mixture": lambda seed: streams.mixture(3, 200, 8, seed=seed).vectors,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_is_a_stream(name):
    vectors = MAKERS[name](1)
    assert vectors.dtype == np.int16
    assert vectors.shape == (200, 8)
    assert (vectors == MAKERS[name](1)).all()
    assert (vectors != MAKERS[name](2)).any()


def distributions(stream):
    """The rows of an LDA stream as distributions of words again."""
    x = stream.vectors.astype(float)
    return x / x.sum(axis=1, keepdims=True)


def test_lda_rows_are_means_of_one_hot_words():
    x = streams.lda(300, words=30, topics=4, length=50).vectors.astype(float)
    sums = x.sum(axis=1)
    assert (x >= 0).all()
    assert np.ptp(sums) <= 30  # all the same but for the rounding of 30 coordinates
    # Poisson(0), but one word at least
    one_word = streams.lda(100, words=30, topics=4, length=0).vectors
    assert ((one_word == SCALE).sum(axis=1) == 1).all()
    assert ((one_word == 0).sum(axis=1) == 29).all()


def test_lda_length():
    """The mean of L words has parts of 1/L: the smallest that are there tell how long
    reviews are.
    """
    for length in (10, 40):
        x = distributions(streams.lda(2_000, words=1_000, topics=1, length=length, beta=10.0))
        smallest = np.where(x > 0, x, 1).min(axis=1)
        assert np.mean(1 / smallest) == pytest.approx(length, rel=0.05)


def test_lda_topics_and_their_priors():
    """With long reviews of one topic each there are as many distinct reviews as topics; mixed
    topics make one kind.
    """

    def kinds(topics, alpha):
        x = distributions(streams.lda(300, 40, topics, 100_000, alpha=alpha, beta=0.1))
        found = []
        for row in x:
            if not any(np.abs(row - other).sum() < 0.1 for other in found):
                found.append(row)
        return len(found)

    assert kinds(1, 0.001) == 1
    assert kinds(3, 0.001) >= 3  # a rare review lies between
    assert kinds(3, 0.001) < 15
    assert kinds(3, 100_000.0) == 1


def test_lda_word_prior():
    flat, peaked = (
        distributions(streams.lda(50, 40, 1, 10_000, beta=beta)).max() for beta in (1000.0, 0.05)
    )
    assert flat < 0.04
    assert peaked > 0.2


@pytest.mark.parametrize("modes", [1, 2, 5])
def test_mixture_modes(modes):
    """Row means tell the mode: i, give or take 1/sqrt(D)."""
    n, dimension = 4_000, 400
    x = streams.mixture(modes, n, dimension).vectors.astype(float)
    x *= (modes + 1) / 2 / x.mean()
    mode = np.rint(x.mean(axis=1))
    counts = Counter(mode.tolist())
    assert set(counts) == set(range(1, modes + 1))
    assert all(abs(count - n / modes) < 5 * np.sqrt(n / modes) for count in counts.values())
    assert (x - mode[:, None]).std() == pytest.approx(1.0, abs=0.05)


def test_drifting():
    x = streams.drifting(2_000, 200).vectors.astype(float)
    unit = x[:20].std()  # the noise
    assert x[:20].mean() / unit == pytest.approx(0.005, abs=0.05)
    assert x[-20:].mean() / unit == pytest.approx(0.995, abs=0.05)


def test_uniform_blocks():
    long = streams.uniform_blocks(20_500, 4)
    assert (long[:10_000] == streams.uniform_blocks(10_000, 4)).all()
    assert (long[:500] != long[10_000:10_500]).any()
    assert np.linalg.norm(long.astype(float), axis=1).max() <= SCALE + 1
    assert 0.49 < long.mean() / long.max() < 0.51


def test_reviews_by_rank(tmp_path: Path, monkeypatch):
    file = tmp_path / "some.jsonl.gz"
    reviews = [("few", "One of few."), *[("many", f"First {i}. Second {i}.") for i in range(3)]]
    with gzip.open(file, "wt") as out:
        out.writelines(json.dumps({"entity_id": e, "text": t}) + "\n" for e, t in reviews)
    asked = []

    def embedded(sentences):
        asked.append(sentences)
        return np.ones((len(sentences), 2), np.int16)

    monkeypatch.setattr(streams, "embedded", embedded)
    assert streams.reviews(file).name == "some: many, 3 reviews, 6 x 2"
    streams.reviews(file, most=3)
    streams.reviews(file, rank=1)
    assert asked == [
        ["First 0.", "Second 0.", "First 1.", "Second 1.", "First 2.", "Second 2."],
        ["First 0.", "Second 0.", "First 1."],
        ["One of few."],
    ]
    with pytest.raises(IndexError):
        streams.reviews(file, rank=2)
