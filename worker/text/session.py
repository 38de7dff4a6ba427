"""ONNX Runtime's sessions, as engines here use them."""

import os
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.text.errors import EngineError, first_line


def open_session(graph: str | bytes, weights: dict[str, NDArray[np.float32]] | None = None) -> Any:
    """An ONNX Runtime session that runs in the calling thread; `weights` are the graph's external initializers, which it copies.

    Raises EngineError.
    """
    # ONNX Runtime reports its use to Microsoft, unless this is set before its import.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors; they are raised as well
        _share_memory()
        options.add_session_config_entry("session.use_env_allocators", "1")
        # Kept memory plans per input shape: there are hundreds of shapes, and they save nothing.
        options.enable_mem_pattern = False
        if weights:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
            options.add_external_initializers(list(weights), values)
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors have no base but Exception
        where = graph if isinstance(graph, str) else "the graph"
        raise EngineError(f"ONNX Runtime cannot load {where}: {first_line(error)}") from error


@cache
def _share_memory() -> None:
    """Make one arena for all sessions of this process: one each, they would take what only one of them needs at a time."""
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(memory, onnxruntime.OrtArenaCfg(0, -1, -1, -1))
