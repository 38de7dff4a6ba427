"""One scenario: a load, its faults, and the judgement over what they left."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.chaos import Chaos, Fault
from tests.harness.cluster import KafkaCluster
from tests.harness.cluster_record import ClusterRow
from tests.harness.load import (
    EngineVectors,
    HashedVectors,
    NoVectors,
    Review,
    Sent,
    SteadyLoad,
    Vectors,
    read_reviews,
    rounds,
    send,
)
from tests.harness.pauses import APPENDED, read_pauses
from tests.harness.record import Recorder, Row
from tests.harness.ride import CLIENTS, ClusterFault, Ride
from tests.harness.workers import Pipeline, WorkerError, pipeline

EVENTS_PER_S = 40.0
"""Of a steady load: every partition has something to commit several times a second, and two cores
have time for it.
"""
ROUND = 800
"""Reviews of a round of a steady load: an entity gets some hundred sentences before the next ones
come.
"""


def vectors_for(kind: str, reviews: list[Review]) -> Vectors:
    """Drawn by hash, the engine's (made once), or none: then the workers embed."""
    return {"hashed": HashedVectors, "text": NoVectors}.get(kind, lambda: EngineVectors(reviews))()


def settings_for(vectors: Vectors, **more: str) -> dict[str, str]:
    """Small micro-batches and short sessions: more commits to be hit, more rebalances. `more` has
    no prefix.
    """
    return {
        "COVERSUMM_EMBEDDER": "onnx" if isinstance(vectors, NoVectors) else "none",
        "COVERSUMM_DIMENSION": "" if isinstance(vectors, NoVectors) else str(vectors.dimension),
        "COVERSUMM_SESSION_TIMEOUT_MS": "6000",
        "COVERSUMM_TRANSACTION_TIMEOUT_MS": "6000",
        "COVERSUMM_BATCH_SIZE": "200",
        **{f"COVERSUMM_{name.upper()}": value for name, value in more.items()},
    }


def under_faults(
    site: Pipeline,
    row: Row,
    events: Iterable[Sent],
    total: int,
    faults: Sequence[Fault],
    *,
    workers: int = 2,
    rate: float,
    sender: Callable[..., int] = send,
    chunk: int = 50,
    **options: Any,
) -> Chaos:
    """Send at least `total` of `events` under `faults`, `rate` a second, and judge: into `row`, and
    WorkerError if wrong.
    """
    chaos = Chaos(site, total, faults)
    try:
        site.start(workers)
        sender(
            site.broker.bootstrap_servers,
            site.input_topic,
            chaos.load(events),
            chunk=chunk,
            events_per_s=rate,
            tick=chaos.tick,
            **options,
        )
        chaos.finish()
        row.ready_after(chaos.wait_ready())
        site.stop()
    except Exception:
        # Whatever went wrong, what was published until then is judged too.
        row.faults += sum(chaos.struck.values())
        site.discard()
        with contextlib.suppress(Exception):
            row.judge(site.report())
        raise
    row.faults += sum(chaos.struck.values())
    judge(site, row, chaos.history)
    return chaos


def ride_through(
    cluster: KafkaCluster,
    recorder: Recorder[ClusterRow],
    fault: str,
    directory: Path,
    faults: Sequence[ClusterFault],
    *,
    proxied: bool = False,
    **settings: str,
) -> None:
    """Two workers under a steady load, taken through `faults`, and judged: a row named `fault`, and
    an error where it is wrong.

    It is wrong that a worker ends, too. Sessions and transactions have the workers' defaults;
    `settings` have no prefix. With `proxied` each worker is behind its proxies, as it must be for
    faults of the network; else it talks to the nodes directly.
    """
    given = {
        "COVERSUMM_EMBEDDER": "none",
        "COVERSUMM_DIMENSION": str(HashedVectors().dimension),
        **{f"COVERSUMM_{setting.upper()}": value for setting, value in settings.items()},
    }
    name = "-".join(re.findall(r"\w+", fault))
    servers = [
        cluster.servers_of(client) if proxied else cluster.bootstrap_servers for client in CLIENTS
    ]
    with (
        recorder.row(fault) as row,
        pipeline(
            cluster, name, directory, settings=given, input_config=APPENDED, servers=servers
        ) as site,
    ):
        site.restarted_codes.add(2)  # what a worker says that starts while no broker answers
        for worker in [site.worker(client, instance_id=client).start() for client in CLIENTS]:
            worker.wait_ready()
        _ride(cluster, site, row, faults)
    assert row.ends == 0, row.measured()


def _ride(
    cluster: KafkaCluster, site: Pipeline, row: ClusterRow, faults: Sequence[ClusterFault]
) -> None:
    """Under a load, through `faults`, and judged."""
    events = rounds(read_reviews()[:ROUND], HashedVectors())
    load = SteadyLoad(cluster.bootstrap_servers, site.input_topic, events, EVENTS_PER_S)
    ride = Ride(cluster, site)
    try:
        ride.through(faults)
    finally:
        load.end()
        row.rode(ride.ridden, read_pauses(cluster.bootstrap_servers, site.name, site.input_topic))
    ride.settle()
    site.stop()
    judge(site, row, [str(one) for one in ride.ridden])


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
