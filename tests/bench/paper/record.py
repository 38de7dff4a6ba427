"""The JSON of a run: its shape, and how it is written so that no run that was stopped leaves half a
file.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench.machine import machine

RESULTS = Path(__file__).parent.parent / "results"


def row(
    stream: str,
    method: str,
    *,
    exact: bool,
    n: int,
    dimension: int,
    k: int,
    seconds: float,
    accuracy: float,
    searches: int,
) -> dict[str, object]:
    """One method on one stream: `seconds` for its `n` events, `accuracy` in percent of them (see
    tests.bench.judge).
    """
    return {
        "stream": stream,
        "method": method,
        "exact": exact,
        "n": n,
        "dimension": dimension,
        "k": k,
        "seconds": round(seconds, 4),
        "us_per_event": round(seconds / n * 1e6, 2),
        "accuracy": accuracy,
        "reservoir_searches": searches,
    }


def head(command: str) -> dict[str, object]:
    libraries = {}
    for package in ("faiss-cpu", "hnswlib"):
        with suppress(PackageNotFoundError):
            libraries[package] = version(package)
    return {
        "machine": machine() | libraries,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
    }


def write(file: Path, record: Mapping[str, object]) -> None:
    """Under another name first: the file is the old one or the new one, whole, whenever the run is
    stopped.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_text(dumps(record) + "\n")
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def dumps(record: Mapping[str, object]) -> str:
    """JSON with what is in a list of things on one line each: figures of a run can be compared line
    by line.
    """
    parts = []
    for key, value in record.items():
        if isinstance(value, list):
            items = ",\n  ".join(json.dumps(item) for item in value)
            parts.append(
                f" {json.dumps(key)}: [\n  {items}\n ]" if value else f" {json.dumps(key)}: []"
            )
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"
