"""How a worker refuses its surroundings: the exit code, and the message as its last words."""

from __future__ import annotations

from tests.harness.workers import WorkerProcess


def refused(worker: WorkerProcess, *words: str, code: int = 2) -> str:
    """The one line with which the worker ended, by itself, with `code`."""
    if not worker.alive and worker.exit_code is None:
        worker.start()
    assert worker.wait() == code, worker.log_end()
    log = worker.log_text()
    assert "Traceback" not in log, log
    lines = [line for line in log.splitlines() if line.startswith("coversumm-worker: error:")]
    assert len(lines) == 1, log
    for word in words:
        assert word in lines[0], lines[0]
    return lines[0]


def refused_again(worker: WorkerProcess, *words: str) -> None:
    """As `refused`, for a worker with an earlier life whose log does not count."""
    worker.log_path.unlink()
    worker.start()
    refused(worker, *words)
