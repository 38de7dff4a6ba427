"""Reads a sentence-transformers model folder without the library.

modules.json                   the modules in order: Transformer, Pooling, Normalize
config.json                    hidden_size, pad_token_id, max_position_embeddings
tokenizer.json                 the complete tokenizer
sentence_bert_config.json      max_seq_length, do_lower_case
1_Pooling/config.json          mean or cls
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from worker.text.engine import EngineError


class Layout(NamedTuple):
    """The layout of a model: how a text becomes a vector, besides its weights."""

    tokenizer: Path
    lower_case: bool
    max_tokens: int
    pad_id: int
    pooling: Literal["mean", "cls"]
    normalize: bool
    dimension: int


def read_layout(folder: Path) -> Layout:
    """The layout of the model in `folder`; EngineError names a missing or unsupported file."""
    modules = {_module_kind(module): module for module in _read_json(folder / "modules.json", list)}
    if unknown := modules.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise EngineError(
            f"{folder / 'modules.json'}: the ONNX engine runs no {', '.join(sorted(unknown))} "
            "module; "
            f"use sentence-transformers:{folder}"
        )
    if not {"Transformer", "Pooling"} <= modules.keys():
        raise EngineError(
            f"{folder / 'modules.json'}: needs a Transformer and a Pooling module, has "
            f"{sorted(modules)}"
        )
    config = _read_json(folder / "config.json", dict)
    lengths = _read_json(folder / "sentence_bert_config.json", dict)
    _refuse_prompts(folder)
    return Layout(
        tokenizer=_file(folder / "tokenizer.json"),
        lower_case=bool(lengths.get("do_lower_case")),
        max_tokens=lengths.get("max_seq_length")
        or _number(folder / "config.json", config, "max_position_embeddings"),
        pad_id=config.get("pad_token_id") or 0,
        pooling=_pooling(folder / str(modules["Pooling"].get("path")) / "config.json"),
        normalize="Normalize" in modules,
        dimension=_number(folder / "config.json", config, "hidden_size"),
    )


def digest(files: Iterable[Path], settings: str) -> str:
    """SHA-256 over the files' names and contents and the settings, in hexadecimal."""
    total = hashlib.sha256(settings.encode())
    for path in files:
        total.update(path.name.encode() + b"\0" + bytes.fromhex(sha256_of(path)))
    return total.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of one file in hexadecimal, read in pieces. Raises EngineError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineError(f"cannot read {path}: {error.strerror}") from error


def _pooling(path: Path) -> Literal["mean", "cls"]:
    """The pooling mode of `path`, in the old form (a switch per mode) or the new (a name)."""
    config = _read_json(path, dict)
    modes = {
        name.removeprefix("pooling_mode_")
        for name, on in config.items()
        if name.startswith("pooling_mode_") and on
    }
    if isinstance(named := config.get("pooling_mode"), str):
        modes.add(named)
    if modes in ({"mean_tokens"}, {"mean"}):
        return "mean"
    if modes in ({"cls_token"}, {"cls"}):
        return "cls"
    raise EngineError(
        f"{path}: the ONNX engine pools by mean or cls, not by "
        f"{' and '.join(sorted(modes)) or 'nothing'}"
    )


def _refuse_prompts(folder: Path) -> None:
    path = folder / "config_sentence_transformers.json"
    if path.is_file() and (name := _read_json(path, dict).get("default_prompt_name")):
        raise EngineError(
            f"{path}: default prompt {name!r} is not known to the ONNX engine; use "
            f"sentence-transformers:{folder}"
        )


def _module_kind(module: Any) -> str:
    """`Pooling` of `sentence_transformers.models.Pooling`: the library has moved its classes."""
    return str(module.get("type")).rpartition(".")[2]


def _number(path: Path, config: dict[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or value < 1:
        raise EngineError(f"{path}: {name} must be a positive integer, is {value!r}")
    return value


def _read_json(path: Path, kind: type) -> Any:
    try:
        value = json.loads(_file(path).read_bytes())
    except ValueError as error:
        raise EngineError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, kind):
        raise EngineError(f"{path}: expected a JSON {'object' if kind is dict else 'array'}")
    return value


def _file(path: Path) -> Path:
    if not path.is_file():
        raise EngineError(
            f"{path} is missing: a model folder needs it, as sentence-transformers models on the "
            "hub have it"
        )
    return path
