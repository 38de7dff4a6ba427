"""The demo's worker: a child process with its own settings, a log file, and metrics over HTTP."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from worker.errors import Crash, SetupError
from worker.settings.environment import environment_with

STOP_SECONDS: Final = 30
_LOG_LINES: Final = 15
_ERROR: Final = "coversumm-worker: error: "
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


class WorkerProcess(contextlib.AbstractContextManager["WorkerProcess"]):
    """A `run` with state and log in the demo's directory; a context manager that ends it."""

    def __init__(
        self, directory: Path, variables: Mapping[str, str], port: int | None = None
    ) -> None:
        """`port`: of the web address; by default a free one."""
        port = _free_port() if port is None else port
        self.data_dir = directory / "state"
        self.url = f"http://127.0.0.1:{port}"
        self._log = directory / "worker.log"
        own = {
            "COVERSUMM_DATA_DIR": str(self.data_dir),
            "COVERSUMM_WEB_PORT": str(port),
            "TMPDIR": str(directory),  # libraries leave files there
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "worker.cli.child", str(directory)],
                env=environment_with({**variables, **own}),
                stdin=subprocess.PIPE,  # never written to; it closes when the demo is gone
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo, which stops the worker
            )

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.kill()  # nothing of it is kept
        self._process.wait()
        self._process.stdin.close()

    def stop(self) -> None:
        """Stop the worker by SIGTERM. Raises Crash if it does not end with 0 in time."""
        self.check()
        self._process.terminate()
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Crash(
                f"the demo's worker did not stop within {STOP_SECONDS} s: {self.last_words()}"
            ) from None
        if code:
            raise Crash(f"the demo's worker stopped with exit code {code}: {self.last_words()}")

    def check(self) -> None:
        """Raise SetupError or Crash if the process has ended."""
        code = self._process.poll()
        if code == SetupError.exit_code:
            raise SetupError(self.last_words())
        if code is not None:
            raise Crash(f"the demo's worker ended with exit code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """The error that it ended with, else the last lines of its log."""
        lines = self._log.read_text(errors="replace").splitlines()
        errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
        return (
            errors[-1] if errors else " | ".join(lines[-_LOG_LINES:]) or "it did not say anything"
        )

    def is_ready(self) -> bool:
        """True if its `/readyz` answers 200."""
        self.check()
        return self._get("/readyz") is not None

    def counts(self) -> dict[str, float]:
        """Its metrics, summed over all labels; empty while it does not answer."""
        self.check()
        sums: dict[str, float] = {}
        for name, value in _SAMPLE.findall(self._get("/metrics") or ""):
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums

    def overview(self, entity_id: str) -> dict[str, Any] | None:
        """The overview of an entity; None if there is none."""
        answer = self._get(f"/entities/{quote(entity_id, safe='')}/summary?view=overview")
        return None if answer is None else dict(json.loads(answer))

    def _get(self, path: str) -> str | None:
        with (
            contextlib.suppress(OSError),  # not started yet, or not ready
            urllib.request.urlopen(self.url + path, timeout=5) as answer,  # noqa: S310 - always http
        ):
            text: str = answer.read().decode()
            return text
        return None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
