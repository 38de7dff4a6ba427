"""The comparison as tables of the reference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.peers.contenders import CONTENDERS, TITLES
from tests.bench.tables import Measured, contenders_table, machine_of

RESULTS = Path(__file__).parents[1] / "results" / "peers.json"
COLD_RESULTS = RESULTS.with_name("peers_cold.json")
PAUSES = RESULTS.with_name("kafka_streams.json")
PAUSED = {
    "worker": "worker",
    "streams": "Kafka Streams, static members",
    "streams-defaults": "Kafka Streams, its defaults",
}


def peers_table(path: Path = RESULTS) -> str:
    """A line for each contender: its speed by the entities' size, then its guarantee, what one
    `kill -9` showed, and its memory; says so when there is no record.
    """
    if not path.exists():
        return "Not recorded yet: `make bench-peers` does it."
    record = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["sentences"]: row for row in record["rows"]}
    stalled = Counter((row["sentences"], row["contender"]) for row in record["stalled"])
    who = [name for name in TITLES if any(name in row for row in rows.values())]
    speed = ["| sentences an entity | " + " | ".join(f"{size:,}" for size in rows) + " |"]
    speed.append("|---" * (1 + len(rows)) + "|")
    facts = ["| | guarantee | commits every | one `kill -9` | peak memory, MiB |", "|---" * 5 + "|"]
    for name in who:
        cells = (_cell(row.get(name), stalled[size, name]) for size, row in rows.items())
        speed.append(f"| {TITLES[name]} | {' | '.join(cells)} |")
        peer = CONTENDERS[name]
        memory = " / ".join(_memory(row.get(name)) for row in rows.values())
        killed = _killed(record["kills"].get(name))
        facts.append(
            f"| {TITLES[name]} | {peer.guarantee} | {peer.interval} | {killed} | {memory} |"
        )
    rounds = ", ".join(f"{row['rounds']} of {size:,} sentences" for size, row in rows.items())
    measured = (
        f"Measured on {machine_of(record)}, medians by `{record['command']}`; turns: {rounds}."
    )
    return "\n\n".join(["\n".join(speed), "\n".join(facts), measured])


def cold_peers_table(path: Path = COLD_RESULTS) -> str:
    """A line for each contender: its speed and memory by the number of cold entities, and what
    bounds its memory; says so when there is no record.
    """
    if not path.exists():
        return "Not recorded yet: `make bench-peers ONLY=cold` does it."
    record = json.loads(path.read_text(encoding="utf-8"))
    rows = record["rows"]
    heads = [f"{row['entities']:,} entities | peak memory, MiB" for row in rows]
    lines = [f"| | {' | '.join(heads)} | bounds of memory |", "|---" * (2 + 2 * len(rows)) + "|"]
    for name in [name for name in TITLES if any(name in row for row in rows)]:
        peer = CONTENDERS[name]
        cells = (f"{_cell(row.get(name))} | {_memory(row.get(name))}" for row in rows)
        lines.append(f"| {TITLES[name]} | {' | '.join(cells)} | {peer.memory} |")
    loads = [turn["load"] for turn in record["turns"]]
    rounds = ", ".join(f"{row['entities']:,} entities: {row['rounds']}" for row in rows)
    measured = (
        f"Measured on {machine_of(record)}, by `{record['command']}`; rounds with {rounds}. "
        f"Load before the turns: {min(loads):.1f} to {max(loads):.1f}."
    )
    if again := record.get("again"):
        measured += f" Those of {again['entities']:,} entities come from `{again['command']}`."
    return "\n\n".join(["\n".join(lines), measured])


def streams_table(path: Path = PAUSES) -> str:
    """Seconds of the longest pause of any partition, the median of the rounds; says so when there
    is no record.
    """
    about = {"fault": lambda row: str(row["fault"]), "standbys": lambda row: str(row["standbys"])}
    return contenders_table(path, "bench-peers ONLY=pauses", about, PAUSED, _paused)


def _paused(measured: Measured) -> str:
    """The median, and how often instances ended in all rounds together."""
    ends = measured["ends"]
    ended = f" ({ends} {'end' if ends == 1 else 'ends'})" if ends else ""
    return f"{measured['median_s']:.1f} s{ended}"


def _cell(measured: Mapping[str, Any] | None, stalled: int = 0) -> str:
    """By the clock, and by processor time; and how many turns stalled."""
    if measured is None:
        return "stalled" if stalled else "-"
    told = f"{measured['events_per_s']:,.0f} ({measured['events_per_cpu_s']:,.0f})"
    return f"{told}; {stalled} stalled" if stalled else told


def _memory(measured: Mapping[str, Any] | None) -> str:
    return "-" if measured is None else f"{measured['peak_mib']:,.0f}"


def _killed(measured: Mapping[str, Any] | None) -> str:
    """What was lost and repeated, and how long nothing was published."""
    if measured is None:
        return "-"
    resumed = measured["resumed_s"]
    return (
        f"{measured['lost']:,} lost, {measured['repeated']:,} repeated of {measured['events']:,}; "
        + ("never resumed" if resumed is None else f"resumed after {resumed:.0f} s")
    )
