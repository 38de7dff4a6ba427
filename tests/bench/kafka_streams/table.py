"""The comparison as `docs/reference/results.md` shows it."""

from __future__ import annotations

from pathlib import Path

from tests.bench.tables import Measured, contenders_table

RESULTS = Path(__file__).parents[1] / "results" / "kafka_streams.json"
TITLES = {
    "worker": "worker",
    "streams": "Kafka Streams, static members",
    "streams-defaults": "Kafka Streams, its defaults",
}
ABOUT = {"fault": lambda row: str(row["fault"]), "standbys": lambda row: str(row["standbys"])}


def streams_table(path: Path = RESULTS) -> str:
    """Seconds of the longest pause of any partition, the median of the rounds; says so when there
    is no record.
    """
    return contenders_table(path, "bench-streams", ABOUT, TITLES, _cell)


def _cell(measured: Measured) -> str:
    """The median, and how often instances ended in all rounds together."""
    ends = measured["ends"]
    ended = f" ({ends} {'end' if ends == 1 else 'ends'})" if ends else ""
    return f"{measured['median_s']:.1f} s{ended}"
