"""The exit code and the one line that a process ends with, however it ends."""

from __future__ import annotations

import subprocess
import sys
from typing import NoReturn

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import Crash, Fenced, SetupError
from worker.stream.surroundings import leaving_first

PROGRAM = """
import sys, threading, time
from worker.errors import Crash, Fenced, SetupError
from worker.stream.surroundings import die
# as librdkafka, which may block for minutes
threading.Thread(target=time.sleep, args=(600,)).start()
try:
    raise eval(sys.argv[1])
except BaseException as cause:
    die(cause)
"""


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("SetupError('what to do')", 2),
        ("Crash('what to do')", 3),
        ("Fenced('what to do')", 4),
        ("RuntimeError('what to do')", 3),
        ("KeyboardInterrupt('what to do')", 3),
    ],
)
def test_the_process_ends_at_once_with_the_causes_exit_code(cause: str, code: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, cause],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == code
    assert "coversumm-worker: error: what to do\n" in ended.stderr
    # What an operator puts right needs no traceback; what nobody expected does.
    assert ("Traceback" in ended.stderr) == (code == 3)
    assert ended.stderr.endswith("coversumm-worker: error: what to do\n")
    # Once, and in the last line of a traceback; never as a line of the log too.
    assert ended.stderr.count("what to do\n") == (2 if code == 3 else 1)


def test_a_crash_that_was_never_raised_has_no_traceback() -> None:
    """As the watchdog's: it would say nothing."""
    program = (
        "from worker.errors import Crash; from worker.stream.surroundings import die; "
        "die(Crash('no\\nprogress'))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert (ended.returncode, ended.stderr) == (3, "coversumm-worker: error: no progress\n")


class EndedError(Exception):
    """In place of the end of the process."""


@pytest.mark.parametrize(
    ("cause", "log"),
    [
        (SetupError("refused"), ["left", "refused"]),
        (Crash("crashed"), ["crashed"]),
        (Fenced("fenced"), ["fenced"]),
        (RuntimeError("unexpected"), ["unexpected"]),
    ],
)
@pytest.mark.parametrize("answers", [True, False])
def test_only_who_is_refused_leaves_its_group_and_ends_whatever_comes_of_that(
    cause: Exception, log: list[str], answers: bool
) -> None:
    steps: list[str] = []

    def die(cause: BaseException) -> NoReturn:
        steps.append(str(cause))
        raise EndedError

    def leave() -> None:
        steps.append("left")
        if not answers:
            raise TimeoutError

    end = leaving_first(die, leave)
    with pytest.raises(EndedError):
        end(cause)
    assert steps == log
