"""The demo's worker: a child process with its own settings, a log file, and metrics over HTTP."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from worker.errors import Crash, SetupError
from worker.settings.environment import environment_with

STOP_SECONDS: Final = 30
_LOG_LINES: Final = 15
_ERROR: Final = "coversumm-worker: error: "
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


class WorkerProcess(contextlib.AbstractContextManager["WorkerProcess"]):
    """A `run` with state and log in the demo's directory; a context manager that ends it."""

    def __init__(self, directory: Path, variables: Mapping[str, str]) -> None:
        port = variables.get("COVERSUMM_WEB_PORT") or _free_port()
        self.data_dir = directory / "state"
        self.url = f"http://127.0.0.1:{port}/"
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
            problem = f"did not stop within {STOP_SECONDS} s"
        else:
            problem = f"stopped with exit code {code}" if code else ""
        if problem:
            raise Crash(f"the demo's worker {problem}: {self.last_words()}")

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
        last = errors[-1:] or lines[-_LOG_LINES:]
        return " | ".join(last) or "it did not say anything"

    def get(self, path: str) -> bytes | None:
        """The body of its answer; None if that is no success, or if it does not answer."""
        self.check()
        with (
            contextlib.suppress(OSError),  # not started yet, or not ready
            urllib.request.urlopen(self.url + path, timeout=5) as answer,  # noqa: S310 - always http
        ):
            return bytes(answer.read())
        return None

    def counts(self) -> dict[str, float]:
        """Its metrics, summed over all labels; empty while it does not answer."""
        sums: dict[str, float] = {}
        for name, value in _SAMPLE.findall((self.get("metrics") or b"").decode()):
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
