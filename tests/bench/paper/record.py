"""The JSON of a run: its shape, and how it is written so that no run that was stopped leaves half a
file.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.bench.judge import History, percent, right_steps
from tests.bench.machine import machine
from tests.bench.paper.measure import Runs
from tests.bench.paper.methods import Method, Setting

RESULTS = Path(__file__).parent.parent / "results"


def row(
    stream: str, method: Method, setting: Setting, runs: Runs, oracles: Sequence[History]
) -> dict[str, Any]:
    """One method on one stream of `n` events in all: `seconds` an entity, the mean of the runs as
    in the paper; `us_per_event`, their median; `accuracy` in percent of the events (see
    tests.bench.judge).
    """
    said = [outcome.said for outcome in runs.first]
    n, entities = sum(map(len, said)), len(said)
    right = sum(
        right_steps(of, oracle[: len(of)]) for of, oracle in zip(said, oracles, strict=True)
    )
    return {
        "stream": stream,
        "method": method.name,
        "exact": method.exact,
        "n": n,
        "entities": entities,
        "dimension": setting.dimension,
        "k": setting.k,
        "runs": len(runs.seconds),
        "seconds": round(mean(runs.seconds) / entities, 4),
        "us_per_event": round(median(runs.us_per_event), 2),
        "accuracy": percent(right, n),
        "reservoir_searches": sum(outcome.searches for outcome in runs.first),
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
