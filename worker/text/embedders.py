"""The forms of the embedder setting: what each accepts and means, and how its engine is loaded.

Settings, help and errors use this module before NumPy's threads are limited, so it imports no
engine at module level. To add an embedder, write a module with an engine and an entry in
`EMBEDDERS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, overload

from worker.text.engine import EngineError

if TYPE_CHECKING:
    from worker.text.engine import EmbeddingEngine


class EmbedderForm(NamedTuple):
    """One form. `load` takes the groups of `pattern`, `threads` and `cache_dir`; `packages` compute
    its vectors.
    """

    form: str
    pattern: str
    meaning: str
    load: Callable[..., EmbeddingEngine | None]
    packages: tuple[str, ...] = ()


def _load_default(*, threads: int, cache_dir: Path | None) -> EmbeddingEngine:
    from worker.text.minilm import load_minilm

    return load_minilm(threads, cache_dir=cache_dir)


def _load_folder(folder: str, *, threads: int, cache_dir: Path | None) -> EmbeddingEngine:
    from worker.text.onnx import load_folder

    return load_folder(Path(folder).expanduser(), threads)


def _load_hub(model: str, *, threads: int, cache_dir: Path | None) -> EmbeddingEngine:
    from worker.text.onnx import load_hub

    return load_hub(model, threads, cache_dir)


def _load_reference(
    name_or_folder: str, *, threads: int, cache_dir: Path | None
) -> EmbeddingEngine:
    from worker.text.sentence_transformers import SentenceTransformersEngine

    return SentenceTransformersEngine(name_or_folder, cache_dir)


def _load_none(*, threads: int, cache_dir: Path | None) -> None:
    return None


_ONNX: Final = ("numpy", "onnxruntime", "tokenizers")
_REFERENCE: Final = ("numpy", "sentence-transformers", "tokenizers", "torch", "transformers")

EMBEDDERS: Final = (
    EmbedderForm("onnx", "onnx", "all-MiniLM-L6-v2", _load_default, _ONNX),
    EmbedderForm(
        "onnx:FOLDER", "onnx:(?!hub:)(.+)", "a model exported to ONNX", _load_folder, _ONNX
    ),
    EmbedderForm(
        "onnx:hub:OWNER/NAME@REVISION",
        "onnx:hub:(.+)",
        "one of the Hugging Face hub",
        _load_hub,
        _ONNX,
    ),
    EmbedderForm(
        "sentence-transformers:NAME_OR_FOLDER",
        "sentence-transformers:(.+)",
        "that library, an extra",
        _load_reference,
        _REFERENCE,
    ),
    EmbedderForm("none", "none", "every event carries its embeddings", _load_none),
)

PATTERN: Final = "|".join(
    one.pattern for one in EMBEDDERS
)  # matches any embedder setting completely
"""Matches any embedder setting completely."""


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


FORMS: Final = _listed([one.form for one in EMBEDDERS])  # accepted values, for messages

HELP: Final = _listed(
    [f"`{one.form}` ({one.meaning})" for one in EMBEDDERS]
)  # accepted values and their meaning, in Markdown
"""Accepted values and their meaning, in Markdown."""


@overload
def load_engine(
    spec: Literal["onnx"], *, threads: int | None = None, cache_dir: Path | None = None
) -> EmbeddingEngine: ...


@overload
def load_engine(
    spec: str, *, threads: int | None = None, cache_dir: Path | None = None
) -> EmbeddingEngine | None: ...


def load_engine(
    spec: str, *, threads: int | None = None, cache_dir: Path | None = None
) -> EmbeddingEngine | None:
    """The engine that `spec` names, ready to embed; None for `none`.

    `threads`: batches that run in parallel; by default one per core this process may use.
    sentence-transformers runs one. `cache_dir`: where models of the hub are kept; by default where
    Hugging Face keeps them. Raises EngineError, whose one line says what is wrong and what to do.
    """
    for one in EMBEDDERS:
        if given := re.fullmatch(one.pattern, spec):
            cores = threads or available_cores()
            try:
                return one.load(*given.groups(), threads=cores, cache_dir=cache_dir)
            except EngineError as error:
                # the line is enough in a notebook, which would show the frames of every library
                raise error.with_traceback(None) from None
    raise EngineError(f"unknown embedder {spec!r}: must be {FORMS}")


def packages_of(spec: str) -> tuple[str, ...]:
    """The packages that compute the vectors of the engine `spec`."""
    return next((one.packages for one in EMBEDDERS if re.fullmatch(one.pattern, spec)), ())


def available_cores() -> int:
    """Cores this process may use; in a container fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
