"""The default model's encoder, which is put together here from operators: held against the formulas
of BERT in NumPy.
"""

from functools import cache
from math import erf, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tests.text.models import PACKAGED
from tests.text.precisions import PRECISIONS
from worker.text.engine import TOKEN_BUDGET
from worker.text.minilm import MODEL, attention_session, encoder_sessions, load_minilm
from worker.text.onnx import OnnxEngine
from worker.text.openvino import Bf16Encoder
from worker.text.packed import PackedEncoder

Array = NDArray[np.float64]
HEADS = 12
SENTENCES = (
    "Good.",
    "The room was clean, quiet and close to the station.",
    "Très bien 👍",
    "word " * 300,
)


@pytest.fixture(scope="module", params=PRECISIONS)
def engine(request: pytest.FixtureRequest) -> OnnxEngine:
    return load_minilm(1, precision=request.param)


class Bert:
    """An encoder as Devlin et al. 2018 and Vaswani et al. 2017 write it down: one sentence, 64-bit
    numbers.
    """

    def __init__(self) -> None:
        weights = load_file(PACKAGED / "model.safetensors")
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}

    def __call__(self, tokens: list[int]) -> Array:
        words, positions, types = (
            self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        x = self.norm("embeddings.LayerNorm", words[tokens] + positions[: len(tokens)] + types[0])
        for layer in range(6):
            at = f"encoder.layer.{layer}."
            query, key, value = (
                np.stack(np.split(self.dense(f"{at}attention.self.{name}", x), HEADS, axis=1))
                for name in ("query", "key", "value")
            )
            scores = np.exp(query @ key.transpose(0, 2, 1) / sqrt(query.shape[2]))
            attended = np.concatenate(scores / scores.sum(axis=2, keepdims=True) @ value, axis=1)
            x = self.norm(
                at + "attention.output.LayerNorm",
                x + self.dense(at + "attention.output.dense", attended),
            )
            inner = self.dense(at + "intermediate.dense", x)
            inner *= (1 + np.vectorize(erf)(inner / sqrt(2))) / 2
            x = self.norm(at + "output.LayerNorm", x + self.dense(at + "output.dense", inner))
        return x

    def dense(self, name: str, x: Array) -> Array:
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, name: str, x: Array) -> Array:
        x = x - x.mean(axis=1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-12)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]


@cache
def by_the_formulas(tokens: tuple[int, ...]) -> Array:
    """Computed once, for every precision."""
    mean: Array = Bert()(list(tokens)).mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_vectors_are_those_of_the_formulas(engine: OnnxEngine) -> None:
    atol = 2e-6 if engine.model == MODEL else 2e-3
    tokens = engine.tokens(SENTENCES)
    for ids, vector in zip(tokens, engine.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(vector, by_the_formulas(tuple(ids)), atol=atol)


def test_sessions_have_weights_of_their_own(engine: OnnxEngine) -> None:
    """Nobody keeps the arrays that they were made from."""
    tensors = {
        name: value.copy() for name, value in load_file(PACKAGED / "model.safetensors").items()
    }
    encoder = (
        PackedEncoder(encoder_sessions(tensors))
        if engine.model == MODEL
        else Bf16Encoder(tensors, 1, attention_session())
    )
    for value in tensors.values():
        value.fill(7)
    tokens = engine.tokens(SENTENCES)
    found, expected = encoder.run(tokens), engine._encoder.run(tokens)
    for vector, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(vector, other)


@pytest.mark.parametrize("step", [67, pytest.param(13, marks=pytest.mark.long)])
def test_same_bits_wherever_a_sentence_lies(engine: OnnxEngine, step: int) -> None:
    """A row of a product has the same bits wherever in a batch it is, and however large that is."""
    sentence = "It was fine, thank you."
    expected = engine.embed([sentence])[0]
    for others in range(0, TOKEN_BUDGET // 3, step):
        for filler in (
            "",
            "A much longer sentence comes first here, so that rows begin elsewhere.",
        ):
            texts = [filler] * others + [sentence] * (1 + others % 3)
            found = engine.embed(texts)[others:]
            np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))
