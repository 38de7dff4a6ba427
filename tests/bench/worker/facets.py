"""What facets cost: a worker with eight facets by phrases beside one without, in turns."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.bench.worker.contenders import FACETS, OURS, Contender
from tests.bench.worker.events import DIMENSION
from tests.bench.worker.starts import cold_touch
from tests.bench.worker.throughput import in_turns, throughput
from tests.bench.worker.workloads import TEXTS, WORKLOADS
from tests.harness.broker import KafkaBroker

COUNT, PHRASES = 8, 2
THRESHOLD: Final = 0.085
"""Half of the sentences have a facet, as those of real reviews by the presets."""
TEXT_FACETS: Final = "preset:stays"
TARGETS: Final = {
    "facets events/s": 0.7,
    "facets memory": 2.0,
    "facets stored bytes": 1.15,
    "facets cold touch": 2.0,
    "facets events/s of texts": 1.0,
}
"""With facets, over the same without."""


def definitions(folder: Path) -> str:
    """A file with facets of made-up vectors."""
    chance = np.random.default_rng(1)
    facets = []
    for number in range(COUNT):
        vectors = chance.standard_normal((PHRASES, DIMENSION)).astype("<f4")
        phrases = [base64.b64encode(vector.tobytes()).decode() for vector in vectors]
        facets.append(
            f'[[facet]]\nname = "facet {number}"\nvectors = {phrases}\nthreshold = {THRESHOLD}\n'
        )
    path = folder / "facets.toml"
    path.write_text("\n".join(facets))
    return str(path)


def measured(
    broker: KafkaBroker,
    folder: Path,
    who: Sequence[Contender],
    rounds: int,
    events: int,
    sentences: int,
    data: Path,
) -> dict[str, Any]:
    """The synthetic backlog and one of texts by `who` and by ours with facets; and the first touch
    of an entity of so many sentences.
    """
    folder.mkdir()
    given = definitions(folder)
    backlog = throughput(
        broker,
        folder / "backlog",
        WORKLOADS["synthetic"],
        [*who, Contender(FACETS, facets=given)],
        rounds,
        events,
        data,
    )
    texts = throughput(
        broker,
        folder / "texts",
        TEXTS,
        [Contender(OURS), Contender(FACETS, facets=TEXT_FACETS)],
        rounds,
        events,
        data,
    )
    return {
        "facets": COUNT,
        "phrases": PHRASES,
        "backlog": backlog,
        "texts": texts,
        "cold": _cold(broker, folder / "cold", given, rounds, sentences),
    }


def _cold(
    broker: KafkaBroker, folder: Path, given: str, rounds: int, sentences: int
) -> dict[str, Any]:
    """The median of the rounds, by contender."""
    who = [Contender(OURS), Contender(FACETS, facets=given)]
    found: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in who}
    for number in range(rounds):
        for turn in in_turns(who, number):
            place = folder / f"cold-{turn.name}-{number}"
            found[turn.name].append(cold_touch(broker, place, sentences, turn.facets))
            print("cold", turn.name, found[turn.name][-1], flush=True)
    medians = {
        name: {
            figure: statistics.median(row[figure] for row in rows)
            for figure in ("cold_touch_s", "hot_touch_s")
        }
        for name, rows in found.items()
    }
    return {"sentences": sentences, **medians, "turns": found}


def against_targets(report: dict[str, Any]) -> dict[str, float]:
    """With facets over without, as in TARGETS."""
    over = f"over_{OURS}"
    backlog, cold = report["backlog"][FACETS][over], report["cold"]
    return {
        "facets events/s": backlog["events_per_s"],
        "facets memory": backlog["cache_bytes_per_entity"],
        "facets stored bytes": backlog["stored_bytes"],
        "facets cold touch": round(cold[FACETS]["cold_touch_s"] / cold[OURS]["cold_touch_s"], 2),
        "facets events/s of texts": report["texts"][FACETS][over]["events_per_s"],
    }
