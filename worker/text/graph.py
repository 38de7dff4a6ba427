"""An ONNX graph under construction."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = Sequence[str | int]
FUSED = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


class Graph:
    """Values are named, weights are kept beside it and declared as external."""

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
        self, kind: str, inputs: Sequence[str], output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add a node of one output, and return that output's name."""
        output = output or f"value{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def serialize(
        self, numbers: Mapping[str, Shape], rows: Mapping[str, Shape], outputs: Mapping[str, Shape]
    ) -> bytes:
        """The graph as a model, of inputs of int64 (`numbers`) and of float32 (`rows`)."""
        helper, types = self._helper, self._types
        inputs = [helper.make_tensor_value_info(name, types.INT64, shape) for name, shape in numbers.items()]
        inputs += [helper.make_tensor_value_info(name, types.FLOAT, shape) for name, shape in rows.items()]
        given = [helper.make_tensor_value_info(name, types.FLOAT, shape) for name, shape in outputs.items()]
        declared = [self._declare(name, value) for name, value in self.weights.items()]
        graph = helper.make_graph(self._nodes, self._name, inputs, given, declared)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
        model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        return model

    def _declare(self, name: str, value: NDArray[np.float32]) -> Any:
        """An initializer without its bytes; the location is a formality, the session gets the values themselves."""
        tensor = self._types(
            name=name, data_type=self._types.FLOAT, dims=value.shape, data_location=self._types.EXTERNAL
        )
        for key, entry in (("location", "weights"), ("offset", "0"), ("length", str(value.nbytes))):
            tensor.external_data.add(key=key, value=entry)
        return tensor
