"""A program in a terminal of its own: what is typed into it, and what it shows."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.harness.patience import PATIENCE_SECONDS

CONTROL = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?>=]*[a-zA-Z]|\x1b[()][A-Z0-9]|\x1b[=>78]|\x07"
)
"""What moves the cursor or colours, and is no text."""
OTHER_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR = "\x1b[?25h"
CONTROL_C = "\x03"


class Terminal:
    """A program on a pseudo-terminal; killed at the end of the `with`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path | None = None,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)
        self.shown = ""
        self._raw = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)
        os.close(self._ours)

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> None:
        """Return when it is shown; AssertionError with all that was, if it never is."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while text not in self.shown:
            assert self._read(give_up), f"{text!r} is not shown:\n{self.shown}"

    def press_until_it_ends(self, keys: str) -> int:
        """Press these keys, and again where nothing happens, as people do; the exit code.

        A Ctrl-C that comes in the instant before a program waits for input is noticed at the next
        key only.
        """
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up:
            with suppress(OSError):  # it has closed its side
                self.type(keys)
            pause = min(give_up, time.monotonic() + 2)
            while self._read(pause):
                pass
            if self._process.poll() is not None or time.monotonic() < pause:
                return self.wait()
        return self.wait()

    def wait(self) -> int:
        """The exit code, once the program has ended; all it has shown is in `shown`."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while self._read(give_up):
            pass
        return self._process.wait(PATIENCE_SECONDS)

    @property
    def written(self) -> str:
        """All that was written, with what moves and colours."""
        return self._raw.decode(errors="replace").replace("\r\n", "\n")

    def frames(self) -> list[str]:
        """The pictures that were drawn on the other screen, one after the other, as text."""
        drawn = self.written.split(OTHER_SCREEN)[1].split(FIRST_SCREEN)[0]
        return [CONTROL.sub("", frame) for frame in drawn.split("\x1b[H") if frame.strip()]

    def _read(self, give_up: float) -> bool:
        """Whether more was shown before the time was over and the program at its end."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, give_up - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the program has closed its side
            return False
        self._raw += data
        self.shown += CONTROL.sub("", data.decode(errors="replace")).replace("\r", "")
        return bool(data)


def worker_command(*arguments: str) -> list[str]:
    """The command line, in this interpreter."""
    return [sys.executable, "-m", "worker", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """This process's, but for what says how a terminal is; with these variables."""
    unwanted = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    mine = {key: value for key, value in os.environ.items() if key not in unwanted}
    return {**mine, "TERM": "xterm-256color", **variables}


def _take_terminal() -> None:
    """Make standard input the terminal of the session: a shell wants to give it to its jobs."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
