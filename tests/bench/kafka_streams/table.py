"""The comparison as `docs/reference/results.md` shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bench.tables import machine_of

RESULTS = Path(__file__).parents[1] / "results" / "kafka_streams.json"
TITLES = {
    "worker": "worker",
    "streams": "Kafka Streams, static members",
    "streams-defaults": "Kafka Streams, its defaults",
}


def streams_table(path: Path = RESULTS) -> str:
    """Seconds of the longest pause of any partition, the median of the rounds; says so when there is no record."""
    if not path.exists():
        return "Not recorded yet: `make bench-streams` does it."
    record = json.loads(path.read_text(encoding="utf-8"))
    names = [name for name in TITLES if any(name in row for row in record["rows"])]
    lines = [
        f"| fault | standbys | {' | '.join(TITLES[name] for name in names)} |",
        "|---" * (2 + len(names)) + "|",
        *(
            f"| {row['fault']} | {row['standbys']} | {' | '.join(_cell(row.get(name)) for name in names)} |"
            for row in record["rows"]
        ),
    ]
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(record)}, by `{record['command']}`."


def _cell(measured: dict[str, Any] | None) -> str:
    """The median, and how often instances ended in all rounds together."""
    if measured is None:
        return "-"
    ends = measured["ends"]
    ended = f" ({ends} {'end' if ends == 1 else 'ends'})" if ends else ""
    return f"{measured['median_s']:.1f} s{ended}"
