"""What a worker's metrics say about the limits it hit."""

from __future__ import annotations

from tests.harness.workers import WorkerProcess


def hits(worker: WorkerProcess) -> dict[str, float]:
    """How often each limit was hit, by its name."""
    start, end = 'coversumm_limit_hits_total{limit="', '"}'
    return {
        name.removeprefix(start).removesuffix(end): value
        for name, value in worker.metrics().items()
        if name.startswith(start)
    }
