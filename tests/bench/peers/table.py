"""The comparison as a table of the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bench.peers.contenders import CONTENDERS
from tests.bench.tables import machine_of

RESULTS = Path(__file__).parents[1] / "results" / "peers.json"


def peers_table(path: Path = RESULTS) -> str:
    """Events a second, and of a second of processor time; says so when there is no record."""
    if not path.exists():
        return "Not recorded yet: `make bench-peers` does it."
    record = json.loads(path.read_text(encoding="utf-8"))
    names = [name for name in CONTENDERS if any(name in row for row in record["rows"])]
    lines = [
        f"| sentences an entity | {' | '.join(CONTENDERS[name].title for name in names)} |",
        "|---" * (1 + len(names)) + "|",
        *(
            f"| {row['sentences']:,} | {' | '.join(_cell(row.get(name)) for name in names)} |"
            for row in record["rows"]
        ),
    ]
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(record)}, by `{record['command']}`."


def _cell(measured: dict[str, Any] | None) -> str:
    """By the clock, and by processor time."""
    if measured is None:
        return "-"
    return f"{measured['events_per_s']:,.0f} ({measured['events_per_cpu_s']:,.0f})"
