"""The default model with its products in bf16, on processors that multiply such numbers; an extra.

The encoder is that of `packed.py`, cut at the same places. What works row by row (products, sums,
norms, GELU) runs in OpenVINO, which multiplies in bf16 and adds in fp32. Attention stays in ONNX
Runtime, in fp32: it is a fiftieth of the operations.

Each thread has compiled graphs of its own: OpenVINO's streams take turns if they are called from
other threads; measured, two were no faster than one. Outputs stay where OpenVINO keeps them: new
arrays for each call took a tenth of the time. OpenVINO prepares kernels for each number of rows, so
batches are padded to a multiple of `ROW_STEP`.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from worker.extras import install_command
from worker.text import bert
from worker.text.bert import EPSILON, HIDDEN, LAYERS, TABLES
from worker.text.engine import EngineError, first_line, of_any_length
from worker.text.identity import machine_type, processor_fact
from worker.text.packed import EncoderSessions, PackedEncoder

ROW_STEP: Final = 8  # rows of a batch are a multiple of this: few kernels, and little padding
AMX: Final = "amx_bf16"
INSTRUCTION_SETS: Final = {"avx512_bf16", AMX}  # any of them multiplies bf16
CONFIG: Final = {
    "INFERENCE_PRECISION_HINT": "bf16",
    "NUM_STREAMS": 1,
    "INFERENCE_NUM_THREADS": 1,
    "ENABLE_CPU_PINNING": False,
}
Array = NDArray[Any]


def bf16_problem() -> str | None:
    """Why this process cannot compute in bf16, and what to do about it; None if it can."""
    if INSTRUCTION_SETS.isdisjoint(machine_type().split()):
        return (
            "this processor has neither avx512_bf16 nor amx_bf16: set "
            "COVERSUMM_EMBEDDER_PRECISION=fp32, or run the worker on one that has"
        )
    if importlib.util.find_spec("openvino") is None:
        return f"OpenVINO is not installed: {install_command('openvino')}"
    return None


def bf16_loss() -> str | None:
    """Why bf16 is slower than fp32 on this processor; None if it is not known to be."""
    if AMX in machine_type().split() or processor_fact("vendor_id") != "GenuineIntel":
        return None
    return "on Intel processors without AMX bf16 embeds 0.6 to 0.9 times as fast as fp32"


def _import_openvino() -> Any:
    """The library without its telemetry, which reports every import to Google Analytics."""
    hidden = "openvino_telemetry"
    before = sys.modules.get(hidden)
    sys.modules[hidden] = None  # type: ignore[assignment]  # its import fails
    try:
        import openvino
    finally:
        del sys.modules[hidden]
        if before is not None:
            sys.modules[hidden] = before
    return openvino


class _Operators:
    """See `bert.Operators`."""

    def __init__(self, operators: Any, tensors: Mapping[str, Array]) -> None:
        self._of = operators
        self._tensors = tensors

    def add(self, x: Any, y: Any) -> Any:
        return self._of.add(x, y)

    def gelu(self, x: Any) -> Any:
        return self._of.gelu(x, "erf")

    def dense(self, name: str, x: Any) -> Any:
        weight, bias = self._weights(name)
        product = self._of.matmul(x, weight, transpose_a=False, transpose_b=True)
        return self._of.add(product, bias)

    def norm(self, name: str, x: Any) -> Any:
        scale, bias = self._weights(name)
        columns = self._of.constant(np.array([1]))
        x = self._of.mvn(x, columns, normalize_variance=True, eps=EPSILON, eps_mode="inside_sqrt")
        return self._of.add(self._of.multiply(x, scale), bias)

    def _weights(self, name: str) -> tuple[Any, Any]:
        """The weights, a matrix or a row, and the bias as a row."""
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return self._of.constant(np.atleast_2d(weight)), self._of.constant(bias[None])


class _Session:
    """A compiled graph, called like a session of ONNX Runtime. Not thread-safe."""

    def __init__(
        self, tensors: Mapping[str, Array], build: Callable[..., list[Any]], *inputs: str
    ) -> None:
        """`build` makes the outputs from `bert.Operators` and the inputs; all are rows."""
        library = _import_openvino()
        operators = importlib.import_module("openvino.opset13")
        given = [operators.parameter([-1, HIDDEN], np.float32, name) for name in inputs]
        outputs = build(_Operators(operators, tensors), *given)
        model = library.Model(outputs, given, "rows")
        self._tensor = library.Tensor
        self._inputs = inputs
        self._outputs = range(len(outputs))
        self._request = library.Core().compile_model(model, "CPU", CONFIG).create_infer_request()

    def run(self, _: None, given: Mapping[str, Array]) -> list[Array]:
        """The outputs, which are overwritten by the next call."""
        for index, name in enumerate(self._inputs):
            self._request.set_input_tensor(index, self._tensor(given[name], shared_memory=True))
        self._request.infer()
        return [self._request.get_output_tensor(index).data for index in self._outputs]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The embeddings of words and positions, then a session."""

    words: Array
    positions: Array
    session: _Session

    def run(self, _: None, given: Mapping[str, Array]) -> list[Array]:
        rows = self.words[given["ids"]]
        rows += self.positions[given["positions"]]
        return self.session.run(None, {"looked_up": rows})


class Bf16Encoder:
    """See `onnx.Encoder`. Threads share the tables of embeddings and have the rest of their own."""

    def __init__(self, tensors: Mapping[str, Array], threads: int, attention: Any) -> None:
        """`attention`: see `EncoderSessions`. Raises EngineError."""
        words, positions, kinds = (tensors[name] for name in TABLES)
        tables = words.copy(), positions + kinds[0]
        self._idle: SimpleQueue[PackedEncoder] = SimpleQueue()
        try:
            for _ in range(threads):
                first = _Lookup(*tables, _Session(tensors, bert.first, "looked_up"))
                layers = [
                    _Session(tensors, partial(bert.layer, number), "attended", "rows")
                    for number in range(LAYERS)
                ]
                self._idle.put(PackedEncoder(EncoderSessions(first, attention, layers), ROW_STEP))
        except Exception as error:  # the library's errors have no base but Exception
            raise EngineError(f"OpenVINO cannot compile the model: {first_line(error)}") from error

    def batches(self, tokens: Sequence[int], threads: int) -> Sequence[Sequence[int]]:
        return of_any_length(tokens, threads)

    def run(self, tokens: Sequence[Sequence[int]]) -> Sequence[Array]:
        """See `onnx.Encoder`. Waits while all threads' encoders are in use."""
        encoder = self._idle.get()
        try:
            return [hidden.copy() for hidden in encoder.run(tokens)]
        finally:
            self._idle.put(encoder)
