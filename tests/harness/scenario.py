"""One scenario: a load, its faults, and the judgement over what they left."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.harness.chaos import Chaos, Fault
from tests.harness.load import EngineVectors, HashedVectors, NoVectors, Review, Sent, Vectors, send
from tests.harness.record import Row
from tests.harness.workers import Pipeline, WorkerError


def vectors_for(kind: str, reviews: list[Review]) -> Vectors:
    """Drawn by hash, the engine's (made once), or none: then the workers embed."""
    return {"hashed": HashedVectors, "text": NoVectors}.get(kind, lambda: EngineVectors(reviews))()


def settings_for(vectors: Vectors, **more: str) -> dict[str, str]:
    """Small micro-batches and short sessions: more commits to be hit, more rebalances. `more` has no prefix."""
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
    """Send at least `total` of `events` under `faults`, `rate` a second, and judge: into `row`, and WorkerError if wrong."""
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


def judge(site: Pipeline, row: Row, history: Sequence[str] = ()) -> dict[str, Any]:
    """Let the verifier, and `coversumm-worker verify`, judge ended workers; the verifier's report. WorkerError if wrong."""
    report = site.report()
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
