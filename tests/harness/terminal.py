"""A command in a pseudo-terminal of a chosen size: what it writes, and keys for it."""

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time

from tests.harness.patience import PATIENCE_SECONDS

OTHER_SCREEN, FIRST_SCREEN, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
CONTROL_C = b"\x03"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UNWANTED = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")


class Terminal:
    """`python -m worker ARGUMENTS` in a terminal; a context manager that leaves no process behind."""

    def __init__(self, columns, rows, *arguments, **variables):
        self._screen, inside = os.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "worker", *arguments],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={**environment, "TERM": "xterm-256color", **variables},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # its keys are signals
        )
        os.close(inside)
        self._written = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def press(self, key):
        os.write(self._screen, key)

    def read_until(self, *words):
        """Read on until all of these were written since the last time this was asked for."""
        begin, deadline = len(self._written), time.monotonic() + PATIENCE_SECONDS
        while missing := [one for one in words if one not in without_control(self._decoded(begin))]:
            assert time.monotonic() < deadline, f"{missing} did not come: {self._decoded(begin)[-3000:]}"
            assert self._read(), f"it ended without {missing}: {self._decoded(begin)[-3000:]}"

    def finish(self):
        """The exit code, and all that was written."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"it does not end: {self._decoded()[-3000:]}"
        return self._process.wait(PATIENCE_SECONDS), self._decoded()

    def _read(self):
        """Whether there may be more."""
        if select.select([self._screen], [], [], 0.2)[0]:
            try:
                new = os.read(self._screen, 65536)
            except OSError:  # Linux, when nobody has the other side any more
                return False
            self._written += new
            return bool(new)
        return True

    def _decoded(self, begin=0):
        return self._written[begin:].decode(errors="ignore").replace("\r\n", "\n")


def without_control(written):
    """Without colours and movements."""
    return _CONTROL.sub("", written)


def frames(written):
    """What was drawn on the other screen, one after the other."""
    drawn = written.split(OTHER_SCREEN)[1].split(FIRST_SCREEN)[0]
    return [without_control(frame) for frame in drawn.split("\x1b[H") if frame.strip()]
