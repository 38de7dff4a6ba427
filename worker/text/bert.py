"""The layers of the default model, a BERT encoder, in the operators of any library.

It is cut at its attention, see `packed.py`. `rows` are `(tokens, HIDDEN)` of a batch.
"""

from typing import Any, Final, Protocol

LAYERS: Final = 6
HEADS: Final = 12
HIDDEN: Final = 384
EPSILON: Final = 1e-12
TABLES: Final = [
    f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
]
"""The tables of embeddings."""


class Operators(Protocol):
    """Steps of the encoder. `name` is that of the weights."""

    def add(self, x: Any, y: Any) -> Any:
        """A sum."""

    def gelu(self, x: Any) -> Any:
        """The activation."""

    def dense(self, name: str, x: Any) -> Any:
        """A product with weights, plus a bias."""

    def norm(self, name: str, x: Any) -> Any:
        """Each row normalized and scaled, plus a bias."""


def first(of: Operators, looked_up: Any) -> list[Any]:
    """The rows of the embeddings of words and positions, and what the first layer attends with."""
    rows = of.norm("embeddings.LayerNorm", looked_up)
    return [rows, *_attending(of, 0, rows)]


def layer(number: int, of: Operators, attended: Any, rows: Any) -> list[Any]:
    """One layer after its attention: feed-forward, residuals and normalizations."""
    name = f"encoder.layer.{number}."
    x = of.add(of.dense(name + "attention.output.dense", attended), rows)
    middle = of.norm(name + "attention.output.LayerNorm", x)
    x = of.gelu(of.dense(name + "intermediate.dense", middle))
    x = of.add(of.dense(name + "output.dense", x), middle)
    rows = of.norm(name + "output.LayerNorm", x)
    return [rows, *(_attending(of, number + 1, rows) if number + 1 < LAYERS else [])]


def _attending(of: Operators, number: int, rows: Any) -> list[Any]:
    """Queries, keys and values of a layer."""
    name = f"encoder.layer.{number}.attention.self."
    return [of.dense(name + part, rows) for part in ("query", "key", "value")]
