"""A process of a test's own: started, ended, frozen, and its log."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS

_LIBC = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec
_PR_SET_PDEATHSIG = 1


class ProcessError(AssertionError):
    """A process did what it must not; the message ends with its log."""


def die_with_parent() -> None:
    """In a child, before exec: be killed when the thread that started it ends, however it ends
    (Linux; other systems ignore it).
    """
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A process that may be started again and again; all its lives write to one log."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self.paused = False
        self._process: subprocess.Popen[Any] | None = None

    def launch(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        """Start it, in this environment or that of the tests, in a session of its own: Ctrl-C
        reaches the tests first. `options` are those of `Popen`.
        """
        assert not self.alive, "already running"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            given = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **options}
            self._process = subprocess.Popen(
                command,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
                **given,
            )
        self.paused = False

    @property
    def pid(self) -> int:
        """The process id of its present life."""
        assert self._process is not None
        return self._process.pid

    @property
    def started(self) -> bool:
        """Whether it ever was."""
        return self._process is not None

    @property
    def alive(self) -> bool:
        """Whether the process is there, running or frozen."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What it ended with; negative signal number when it was killed; None while alive or before
        the first start.
        """
        return None if self._process is None else self._process.poll()

    def signal(self, number: int) -> None:
        """Send it a signal; ProcessError where it ended by itself."""
        if not self.alive:
            raise ProcessError(f"it ended with {self.exit_code} by itself\n{self.log_end()}")
        os.kill(self.pid, number)

    def kill(self) -> None:
        """`kill -9`."""
        self.signal(signal.SIGKILL)
        self.wait()

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C sends it."""
        self.signal(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP: it is there and does nothing; connections stay, and nothing answers on them."""
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)
        self.paused = False

    def wait(self, timeout_s: float = PATIENCE_SECONDS) -> int:
        """The exit code, once it ended; one that does not end in time is killed: ProcessError."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.discard()
            raise ProcessError(f"it did not end within {timeout_s:g} s\n{self.log_end()}") from None

    def discard(self) -> None:
        """End it, also if it is stopped or over; for clean-up."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def wait_until(self, answers: Callable[[], object]) -> None:
        """Return when it answers; ProcessError where it ends before."""

        def does() -> object:
            if not self.alive:
                raise ProcessError(f"ended with {self.exit_code} too early\n{self.log_end()}")
            return answers()

        eventually(does, lambda: f"it does not answer\n{self.log_end()}")

    def log_text(self) -> str:
        """Everything it wrote, over all its lives."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_end(self) -> str:
        """The end of the log, for messages."""
        return f"--- {self.log_path}\n{self.log_text()[-6000:]}"
