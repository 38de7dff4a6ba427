"""How the process of a worker ends when Faust ends it: a crash with one line, for whatever looks at
exit codes.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import time

from mode import Worker

from tests.harness.patience import PATIENCE_SECONDS
from worker.stream.faust.process import _SignalledWorker

PROGRAM = """
import logging
import faust
from worker.errors import Crash
from worker.stream.faust.process import run, use_event_loop

class App(faust.App):
    async def on_first_start(self):
        raise OSError("no broker")

logging.basicConfig(level="WARNING")
use_event_loop()
try:
    run(App("tests", broker="kafka://127.0.0.1:1", web_enabled=False, autodiscover=False), 5.0)
except Crash as crash:
    print(crash)
"""


def test_an_app_that_cannot_start_is_a_crash_that_says_where_the_cause_is() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ended.stdout == "Faust ended without a signal; the lines before say why\n", ended.stderr
    assert "OSError: no broker" in ended.stderr


def test_a_second_is_not_slept_away_once_all_has_ended() -> None:
    """Each orderly restart would stop partitions for as much longer."""
    assert inspect.iscoroutinefunction(Worker._sentinel_task), "mode has another name for it now"
    since = time.monotonic()
    asyncio.run(_SignalledWorker._sentinel_task(object.__new__(_SignalledWorker)))
    assert time.monotonic() - since < 1.0
