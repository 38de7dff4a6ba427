"""Backlogs, worked off by the contenders in turns: events/s, seconds of processing and committing,
processor time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.worker.contenders import FACETS, OURS, Contender
from tests.bench.worker.measure import (
    Progress,
    cpu_seconds,
    published,
    rate,
    remove_topics,
    settings,
)
from tests.bench.worker.workloads import Workload
from tests.harness.broker import KafkaBroker
from tests.harness.damage import all_rows
from tests.harness.load import send
from tests.harness.workers import Pipeline, pipeline

PATIENCE_SECONDS = 1800
FIGURES = (
    "events_per_s",
    "process_us_per_event",
    "commit_us_per_event",
    "cpu_us_per_event",
    "cache_bytes_per_entity",
    "stored_bytes",
)


def throughput(
    broker: KafkaBroker,
    folder: Path,
    workload: Workload,
    who: Sequence[Contender],
    rounds: int,
    events: int,
    file: Path,
) -> dict[str, Any]:
    """Rounds over one topic, every other round the other way round.

    Returns:
        Medians of ours at the top, each contender's turns, ours over those of another commit; the
        same of ours with facets over ours without.
    """
    found: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in who}
    count = round(events * workload.share)
    with pipeline(broker, f"bench-{workload.name}", folder, settings=settings()) as site:
        send(broker.bootstrap_servers, site.input_topic, workload.make(count, file), chunk=5000)
        for number in range(rounds):
            for contender in in_turns(who, number):
                found[contender.name].append(turn(site, contender, workload, number))
                print(workload.name, contender.name, found[contender.name][-1], flush=True)
        remove_topics(broker, site.input_topic)
    report = {"about": workload.about, "events": count, **_summed_up(found, OURS), "turns": found}
    return report | {own: _summed_up(found, own) for own in [FACETS] if own in found}


def _summed_up(found: Mapping[str, Sequence[dict[str, Any]]], contender: str) -> dict[str, Any]:
    medians = {name: statistics.median(row[name] for row in found[contender]) for name in FIGURES}
    others = [name for name in found if name not in (OURS, FACETS)]
    if contender == FACETS:
        others = [OURS]
    return medians | {f"over_{name}": ratios(found[contender], found[name]) for name in others}


def in_turns(who: Sequence[Contender], number: int) -> Sequence[Contender]:
    """The order of a round: neither contender always comes after the other."""
    return who[::-1] if number % 2 else who


def turn(site: Pipeline, contender: Contender, workload: Workload, number: int) -> dict[str, Any]:
    """One contender, over the whole backlog."""
    name = f"{site.name}-{contender.name}-{number}"
    worker = contender.worker(site, name, **workload.settings).start()
    worker.wait_ready()
    progress = Progress(site, name)
    before_s, before = cpu_seconds(worker) or 0.0, progress.committed()
    samples = progress.wait(PATIENCE_SECONDS)
    after_s, metrics = cpu_seconds(worker) or 0.0, worker.metrics()
    worker.terminate()
    rows = all_rows(worker)
    total, servers = samples[-1][1], site.broker
    made = published(servers, f"{name}.summaries")
    report = {
        "events_per_s": rate(site, name).events_per_s,
        "process_us_per_event": round(1e6 * metrics["coversumm_process_seconds_sum"] / total, 1),
        "commit_us_per_event": round(1e6 * metrics["coversumm_commit_seconds_sum"] / total, 1),
        "cpu_us_per_event": round(1e6 * (after_s - before_s) / (total - before), 1),
        "micro_batches": int(metrics["coversumm_batch_events_count"]),
        "cache_bytes_per_entity": round(
            metrics["coversumm_cache_bytes"] / max(1, metrics["coversumm_cache_entities"])
        ),
        "stored_bytes": sum(len(key) + len(value) for (_, key), value in rows.items()),
        **made._asdict(),
    }
    topics = [f"{name}.summaries", f"{name}.dlq", f"{name}-entities-changelog"]
    remove_topics(servers, *topics, *([f"{name}.facets"] if contender.facets else []))
    worker.wipe()
    site.workers.remove(worker)
    return report


def ratios(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Ours over theirs, the median of the rounds' ratios; and whether both published the same."""
    pairs = list(zip(ours, theirs, strict=True))
    found: dict[str, Any] = {
        name: round(statistics.median(mine[name] / other[name] for mine, other in pairs), 3)
        for name in FIGURES
    }
    return found | {
        f"same_{name}": all(mine[name] == other[name] for mine, other in pairs)
        for name in ("changes", "digest", "last")
    }
