"""Recovery: rows/s of a restore from an empty disk, contenders in turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.worker.contenders import OURS, Contender
from tests.bench.worker.measure import cpu_seconds, remove_topics, settings
from tests.bench.worker.throughput import in_turns
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.workers import Pipeline, pipeline, restores

ROW_BYTES = 1024


def restore(
    broker: KafkaBroker, folder: Path, who: Sequence[Contender], rounds: int, rows: int
) -> dict[str, Any]:
    """Rows/s as the workers log it, over random rows that no entity owns; as in `throughput`, with
    ours over the other's.
    """
    found: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in who}
    with pipeline(broker, "bench-restore", folder, settings=settings()) as site:
        for number in range(rounds):
            for turn in in_turns(who, number):
                found[turn.name].append(_turn(site, turn, number, rows))
                print("restore", turn.name, found[turn.name][-1], flush=True)
    ours = {name: statistics.median(row[name] for row in found[OURS]) for name in found[OURS][0]}
    report = {"rows": rows, "row_bytes": ROW_BYTES, **ours, "turns": found}
    for name in found:
        if name != OURS:
            pairs = zip(found[OURS], found[name], strict=True)
            each = [
                mine["restore_rows_per_s"] / other["restore_rows_per_s"] for mine, other in pairs
            ]
            report[f"over_{name}"] = {"restore_rows_per_s": round(statistics.median(each), 3)}
    return report


def _turn(site: Pipeline, contender: Contender, number: int, rows: int) -> dict[str, Any]:
    name = f"{site.name}-{contender.name}-{number}"
    changelog = f"{name}-entities-changelog"
    site.broker.create_topic(changelog, site.partitions, {"cleanup.policy": "compact"})
    chance = np.random.default_rng(number)
    load = (Sent(b"\xff" + chance.bytes(39), chance.bytes(ROW_BYTES)) for _ in range(rows))
    send(site.broker.bootstrap_servers, changelog, load, chunk=5000)
    worker = contender.worker(site, name).start()
    ready_s = worker.wait_ready(600)
    cpu_s = cpu_seconds(worker)
    found = restores(worker.log_text())
    restored, seconds = (sum(numbers) for numbers in zip(*found, strict=True))
    assert restored == rows, f"{restored} rows were restored, not {rows}"
    worker.terminate()
    remove_topics(site.broker, changelog, f"{name}.summaries", f"{name}.dlq")
    worker.wipe()
    site.workers.remove(worker)
    return {
        "seconds": seconds,
        "restore_rows_per_s": round(rows / seconds),
        "start_to_ready_s": round(ready_s, 2),
        "start_to_ready_cpu_s": cpu_s,
    }
