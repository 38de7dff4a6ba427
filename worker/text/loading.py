"""From the setting that names an embedding engine to the engine."""

import os
from pathlib import Path

from worker.text.engine import EmbeddingEngine
from worker.text.errors import EngineError

FORMS = "onnx, onnx:FOLDER, onnx:hub:OWNER/NAME@REVISION, sentence-transformers:NAME_OR_FOLDER or none"


def load_engine(
    spec: str, *, threads: int | None = None, cache_dir: Path | None = None
) -> EmbeddingEngine | None:
    """The engine that `spec` names, ready to embed; None for `none`.

    `threads`: batches that run at a time; by default one per core this process may use. sentence-transformers runs one.
    `cache_dir`: where models of the hub are kept; by default where Hugging Face keeps them.
    EngineError says in one line what is wrong and what to do.
    """
    kind, _, argument = spec.partition(":")
    threads = threads or available_cores()
    if spec == "none":
        return None
    if spec == "onnx":
        from worker.text.minilm import load_minilm

        return load_minilm(threads)
    if kind == "onnx" and argument:
        from worker.text.onnx import load_folder, load_hub

        if argument.startswith("hub:"):
            return load_hub(argument.removeprefix("hub:"), threads, cache_dir)
        return load_folder(Path(argument).expanduser(), threads)
    if kind == "sentence-transformers" and argument:
        from worker.text.sentence_transformers import SentenceTransformersEngine

        return SentenceTransformersEngine(argument, cache_dir)
    raise EngineError(f"unknown embedder {spec!r}: must be {FORMS}")


def available_cores() -> int:
    """Cores this process may run on, which in a container are fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
