"""The forms of the embedder setting: what each accepts and means, and how its engine is loaded.

Settings, help and errors use this module before NumPy's threads are limited, so it imports no
engine at module level. To add an embedder, write a module with an engine and an entry in
`EMBEDDERS`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, overload

from worker.text.engine import EngineError, Precision

if TYPE_CHECKING:
    from worker.text.engine import EmbeddingEngine

log = logging.getLogger(__name__)


class EmbedderForm(NamedTuple):
    """One form. `load` takes the groups of `pattern`, `threads` and `cache_dir`."""

    form: str
    pattern: str
    meaning: str
    load: Callable[..., EmbeddingEngine | None]


DEFAULT: Final = "onnx"  # the form of the default model, the only one that computes in bf16


def _load_default(
    *, threads: int, cache_dir: Path | None, precision: Precision = "fp32"
) -> EmbeddingEngine:
    from worker.text.minilm import load_minilm

    return load_minilm(threads, cache_dir=cache_dir, precision=precision)


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


EMBEDDERS: Final = (
    EmbedderForm(DEFAULT, DEFAULT, "all-MiniLM-L6-v2", _load_default),
    EmbedderForm("onnx:FOLDER", "onnx:(?!hub:)(.+)", "a model exported to ONNX", _load_folder),
    EmbedderForm(
        "onnx:hub:OWNER/NAME@REVISION", "onnx:hub:(.+)", "one of the Hugging Face hub", _load_hub
    ),
    EmbedderForm(
        "sentence-transformers:NAME_OR_FOLDER",
        "sentence-transformers:(.+)",
        "that library, an extra",
        _load_reference,
    ),
    EmbedderForm("none", "none", "every event carries its embeddings", _load_none),
)

PRECISION_VARIABLE: Final = "COVERSUMM_EMBEDDER_PRECISION"
PRECISIONS: Final = ("fp32", "bf16", "auto")

PATTERN: Final = "|".join(embedder.pattern for embedder in EMBEDDERS)
"""Matches any embedder setting completely."""


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


FORMS: Final = _listed([embedder.form for embedder in EMBEDDERS])  # accepted values, for messages

HELP: Final = _listed([f"`{embedder.form}` ({embedder.meaning})" for embedder in EMBEDDERS])
"""Accepted values and their meaning, in Markdown."""


@overload
def load_engine(
    spec: Literal["onnx"],
    *,
    threads: int | None = None,
    cache_dir: Path | None = None,
    precision: str = "fp32",
    model_file: Path | None = None,
) -> EmbeddingEngine: ...


@overload
def load_engine(
    spec: str,
    *,
    threads: int | None = None,
    cache_dir: Path | None = None,
    precision: str = "fp32",
    model_file: Path | None = None,
) -> EmbeddingEngine | None: ...


def load_engine(
    spec: str,
    *,
    threads: int | None = None,
    cache_dir: Path | None = None,
    precision: str = "fp32",
    model_file: Path | None = None,
) -> EmbeddingEngine | None:
    """The engine that `spec` names, ready to embed; None for `none`.

    `threads`: batches that run in parallel; by default one per core this process may use.
    sentence-transformers runs one. `cache_dir`: where models of the hub are kept; by default where
    Hugging Face keeps them. `precision`: `fp32`, `bf16` or `auto`, see `resolve_precision`.
    `model_file`: declares languages, prefix and threshold of the model; by default `coversumm.json`
    in its folder. Raises EngineError, whose one line says what is wrong and what to do.
    """
    for embedder in EMBEDDERS:
        if given := re.fullmatch(embedder.pattern, spec):
            options: dict[str, Any] = {"threads": threads or available_cores()}
            try:
                if resolve_precision(spec, precision) == "bf16":
                    options["precision"] = "bf16"
                engine = embedder.load(*given.groups(), cache_dir=cache_dir, **options)
                return _declared(engine, model_file or _beside(*given.groups()))
            except EngineError as error:
                # the line is enough in a notebook, which would show the frames of every library
                raise error.with_traceback(None) from None
    raise EngineError(f"unknown embedder {spec!r}: must be {FORMS}")


def _beside(folder: str = "") -> Path | None:
    """The file in a model's folder; None if there is none, or the model is no folder."""
    from worker.text.declared import FILE

    path = Path(folder).expanduser() / FILE
    return path if folder and path.is_file() else None


def _declared(engine: EmbeddingEngine | None, file: Path | None) -> EmbeddingEngine | None:
    if engine is None or file is None:
        return engine
    from worker.text.declared import DeclaredEngine, read_facts

    return DeclaredEngine(engine, read_facts(file))


def resolve_precision(spec: str, precision: str) -> Precision:
    """The precision of the engine `spec`: `auto` is bf16 if this process can, and is not known to
    be slower so, and logs its choice. It follows from the processor, not from a measurement, which
    might choose otherwise at the next start: the state is that of one precision.

    Raises EngineError for `bf16` where it cannot.
    """
    if precision == "fp32" or (precision == "auto" and spec != DEFAULT):
        return "fp32"
    if spec != DEFAULT:
        raise EngineError(
            f"{PRECISION_VARIABLE}=bf16 is for the embedder {DEFAULT} alone, not {spec}"
        )
    from worker.text.openvino import bf16_loss, bf16_problem

    problem = bf16_problem()
    if precision == "auto":
        why_not = problem or bf16_loss()
        log.info(
            "%s=auto: %s", PRECISION_VARIABLE, "bf16" if why_not is None else f"fp32 ({why_not})"
        )
        return "bf16" if why_not is None else "fp32"
    if problem is not None:
        raise EngineError(f"{PRECISION_VARIABLE}=bf16: {problem}")
    if loss := bf16_loss():
        log.warning("%s=bf16: %s", PRECISION_VARIABLE, loss)
    return "bf16"


def available_cores() -> int:
    """Cores this process may use; in a container fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
