"""The comparison as a table of the reference."""

from __future__ import annotations

from pathlib import Path

from tests.bench.peers.contenders import CONTENDERS
from tests.bench.tables import Measured, contenders_table

RESULTS = Path(__file__).parents[1] / "results" / "peers.json"
ABOUT = {"sentences an entity": lambda row: f"{row['sentences']:,}"}


def peers_table(path: Path = RESULTS) -> str:
    """Events a second, and of a second of processor time; says so when there is no record."""
    titles = {name: one.title for name, one in CONTENDERS.items()}
    return contenders_table(path, "bench-peers", ABOUT, titles, _cell)


def _cell(measured: Measured) -> str:
    """By the clock, and by processor time."""
    return f"{measured['events_per_s']:,.0f} ({measured['events_per_cpu_s']:,.0f})"
