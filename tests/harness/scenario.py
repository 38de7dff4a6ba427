"""Scenarios: workers under a load, a plan of faults, and the judgement over what they left."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.cluster import KafkaCluster
from tests.harness.faults import WORKERS, Fault
from tests.harness.load import (
    EngineVectors,
    HashedVectors,
    Mix,
    NoVectors,
    Review,
    Sent,
    SteadyLoad,
    Vectors,
    read_reviews,
    rounds,
)
from tests.harness.pauses import APPENDED, read_pauses
from tests.harness.record import ClusterRow, Recorder, Row
from tests.harness.run import Run
from tests.harness.site import Site
from tests.harness.workers import Pipeline, WorkerError, pipeline

EVENTS_PER_S = 40.0
"""Of a steady load: every partition has something to commit several times a second, and two cores
have time for it.
"""
ROUND = 800
"""Reviews of a round of a steady load: an entity gets some hundred sentences before the next ones
come.
"""
QUIET = Mix(poison=0.0)
"""Of a load whose workers have nothing to say: dead letters would be logged."""


def vectors_for(kind: str, reviews: list[Review]) -> Vectors:
    """Drawn by hash, the engine's (made once), or none: then the workers embed."""
    return {"hashed": HashedVectors, "text": NoVectors}.get(kind, lambda: EngineVectors(reviews))()


def of_hashed(vectors: HashedVectors | None = None, **more: str) -> dict[str, str]:
    """Settings for events that have their vectors; `more` has no prefix."""
    given = {"embedder": "none", "dimension": str((vectors or HashedVectors()).dimension), **more}
    return {f"COVERSUMM_{name.upper()}": value for name, value in given.items()}


def settings_for(vectors: Vectors, **more: str) -> dict[str, str]:
    """Small micro-batches and short sessions: more commits to be hit, more rebalances. `more` has
    no prefix.
    """
    is_text = isinstance(vectors, NoVectors)
    given = {
        "embedder": "onnx" if is_text else "none",
        "dimension": "" if is_text else str(vectors.dimension),
        "session_timeout_ms": "6000",
        "transaction_timeout_ms": "6000",
        "batch_size": "200",
        **more,
    }
    return {f"COVERSUMM_{name.upper()}": value for name, value in given.items()}


def start_workers(live: Pipeline, names: Sequence[str]) -> None:
    """Start workers of these names and instance ids; return when all are ready."""
    for worker in [live.worker(name, instance_id=name).start() for name in names]:
        worker.wait_ready()


def under_faults(
    live: Pipeline,
    row: Row,
    events: Iterable[Sent],
    total: int,
    faults: Sequence[Fault],
    *,
    workers: int = 2,
    rate: float,
    make_site: Callable[[Sequence[Pipeline]], Site] = Site,
    **options: Any,
) -> Run:
    """Send at least `total` of `events`, `rate` a second, under `faults` at shares of that; judge:
    into `row`, and WorkerError if wrong.

    `options` say how events are sent (`SteadyLoad`). The load goes on until all faults are over.
    """
    with make_site([live]) as site:
        run = Run(site)
        try:
            start_workers(live, WORKERS[:workers])
            load = SteadyLoad(
                live.broker.bootstrap_servers, live.input_topic, events, rate, **options
            )
            run.along(faults, lambda: load.sent / total)
            while load.sent < total:
                load.check()
                site.watch(0.5)
            load.end()
            row.ready_after(site.settle(run.over_s, under_load=False))
            live.stop()
        except Exception:
            # After an error too, the messages published so far are judged.
            row.faults += run.struck.total()
            live.discard()
            with contextlib.suppress(Exception):
                row.judge(live.report())
            raise
    row.faults += run.struck.total()
    judge(live, row, site.notes)
    return run


def through_faults(
    cluster: KafkaCluster,
    recorder: Recorder[ClusterRow],
    fault: str,
    directory: Path,
    faults: Sequence[Fault],
    **settings: str,
) -> None:
    """Two workers under a steady load, taken through `faults` one after the other, and judged: a
    row named `fault`, and an error where it is wrong.

    It is wrong that a worker ends, too. Sessions and transactions have the workers' defaults;
    `settings` have no prefix. For faults of the network each worker is behind its proxies; else it
    talks to the nodes directly.
    """
    name, names = "-".join(re.findall(r"\w+", fault)), WORKERS[:2]
    proxied = any(each.worker for fault in faults for each in (fault, *fault.besides))
    servers = [
        cluster.servers_of(server) if proxied else cluster.bootstrap_servers for server in names
    ]
    with (
        recorder.row(fault) as row,
        pipeline(
            cluster,
            name,
            directory,
            settings=of_hashed(**settings),
            input_config=APPENDED,
            servers=servers,
        ) as live,
        Site([live]) as site,
    ):
        live.restarted_codes = {*live.restarted_codes, 2}  # of one that starts without a broker
        start_workers(live, names)
        events = rounds(read_reviews()[:ROUND], HashedVectors())
        load = SteadyLoad(cluster.bootstrap_servers, live.input_topic, events, EVENTS_PER_S)
        run = Run(site)
        try:
            run.through(faults)
        finally:
            load.end()
            found = read_pauses(cluster.bootstrap_servers, live.name, live.input_topic)
            row.take(run.strikes, found)
        site.settle()
        live.stop()
        judge(live, row, site.notes)
    assert row.ends == 0, row.measured()


def judge(
    site: Pipeline, row: Row, history: Sequence[str] = (), *, committed: bool = True
) -> dict[str, Any]:
    """Let the verifier, and `coversumm-worker verify`, judge ended workers; the verifier's report.
    WorkerError if wrong.

    Args:
        committed: also compare every commit, and what the workers have on disk, with the changelog.
    """
    report = site.report(committed=committed)
    row.judge(report)
    if not report["ok"]:
        happened = "\n".join(history)
        raise WorkerError(f"{json.dumps(report, indent=1)}\n{happened}\n{site.logs()}")
    try:
        site.verify_state()
    except WorkerError:
        row.wrong += 1
        row.holds(I8=False)  # it is what the changelog says, and still not what the rows make
        raise
    return report


def differences(found: dict[str, Any]) -> list[str]:
    """What a verdict counted and must not have, in words."""
    return [f"{what}: {found[what]}" for what in ("lost", "repeated", "wrong") if found[what]]
