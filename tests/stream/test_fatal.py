"""The exit code and the one line that a process ends with, however it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness.patience import PATIENCE_SECONDS

PROGRAM = """
import sys, threading, time
from worker.errors import Crash, Fenced, SurroundingsError
from worker.stream.fatal import die
threading.Thread(target=time.sleep, args=(600,)).start()  # as librdkafka, which may block for minutes
try:
    raise eval(sys.argv[1])
except BaseException as cause:
    die(cause)
"""


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("SurroundingsError('what to do')", 2),
        ("Crash('what to do')", 3),
        ("Fenced('what to do')", 4),
        ("RuntimeError('what to do')", 3),
        ("KeyboardInterrupt('what to do')", 3),
    ],
)
def test_the_process_ends_at_once_with_the_causes_exit_code(cause: str, code: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, cause], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == code
    assert "coversumm-worker: error: what to do\n" in ended.stderr
    # What an operator puts right needs no traceback; what nobody expected does.
    assert ("Traceback" in ended.stderr) == (code == 3)
