"""The default engine against the library whose models it runs. In `make
test-sentence-transformers`: needs torch.
"""

import random
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.text.models import PACKAGED
from tests.text.sentences import real_sentences
from worker.text.embedders import load_engine
from worker.text.engine import EmbeddingEngine, EngineError, reads_all

pytestmark = [
    pytest.mark.sentence_transformers,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),  # the libraries', not ours
]
SENTENCES = real_sentences(600)


@pytest.fixture(scope="module")
def reference() -> EmbeddingEngine:
    engine = load_engine(f"sentence-transformers:{PACKAGED}")
    assert engine is not None
    return engine


@pytest.fixture(scope="module")
def expected(reference: EmbeddingEngine) -> NDArray[np.float32]:
    return reference.embed(SENTENCES)


@pytest.fixture(scope="module")
def found() -> NDArray[np.float32]:
    engine = load_engine("onnx")
    assert engine is not None
    return engine.embed(SENTENCES)


def test_vectors_are_the_same(expected: NDArray[np.float32], found: NDArray[np.float32]) -> None:
    assert np.abs(expected - found).max() <= 1e-5
    assert np.abs(1 - (expected * found).sum(axis=1)).max() <= 1e-5


def test_summaries_are_the_same(expected: NDArray[np.float32], found: NDArray[np.float32]) -> None:
    """The 20 sentences nearest to the centroid of 200, in order, for many a choice of 200."""

    def summary(vectors: NDArray[np.float32], chosen: list[int]) -> list[int]:
        live = vectors[chosen].astype(np.float64)
        distances = ((live - live.mean(axis=0)) ** 2).sum(axis=1)
        return [chosen[i] for i in np.argsort(distances, kind="stable")[:20]]

    for seed in range(20):
        chosen = random.Random(seed).sample(range(len(SENTENCES)), 200)
        assert summary(found, chosen) == summary(expected, chosen)


def test_library_encodes_the_same(expected: NDArray[np.float32]) -> None:
    """The engine's own batches change nothing but the last bits of what the library gives in one
    call.
    """
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(PACKAGED), device="cpu").encode(
        [s.encode("utf-8", "replace").decode() for s in SENTENCES]
    )
    assert np.abs(plain - expected).max() <= 1e-5


def test_same_bits_in_any_company(
    reference: EmbeddingEngine, expected: NDArray[np.float32]
) -> None:
    order = random.Random(3).sample(range(len(SENTENCES)), 150)
    np.testing.assert_array_equal(reference.embed([SENTENCES[i] for i in order]), expected[order])
    for i in order[:20]:
        np.testing.assert_array_equal(reference.embed([SENTENCES[i]])[0], expected[i])
    assert reference.embed([]).shape == (0, 384)


def test_model_names_the_weights(reference: EmbeddingEngine) -> None:
    name, _, weights = reference.model.partition("@")
    assert name == "model"
    assert len(weights) == 12
    again = load_engine(f"sentence-transformers:{PACKAGED}")
    assert again is not None
    assert again.model == reference.model


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot load") as raised:
        load_engine(f"sentence-transformers:{tmp_path}")
    assert "\n" not in str(raised.value)


def test_both_read_a_text_to_the_same_token(reference: EmbeddingEngine) -> None:
    for engine in (reference, load_engine("onnx")):
        assert [reads_all(engine)("a " * count) for count in (1, 254, 255, 2000)] == [
            True,
            True,
            False,
            False,
        ]
        assert reads_all(engine)("x" * 2000), "one unknown word"
