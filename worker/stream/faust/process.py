"""The process that runs a worker's Faust app: its event loop, its signals, and its exit code."""

import asyncio
import gc
import os
import signal
import sys
import threading
import time

import uvloop
from faust.worker import Worker

from worker.errors import Crash
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.application import CoverSummApp
from worker.stream.surroundings import die

SWITCH_SECONDS = 0.0005
"""Python's switch interval: at its default of 5 ms the event loops of app and consumer wait so long
for the thread that computes that the worker runs out of records.
"""


class _SignalledWorker(Worker):
    """Faust's worker with a shutdown deadline, and an exit code of its own for Ctrl-C."""

    logger = FAUST_LOG
    shutdown_seconds: float
    interrupted = False
    stopped_by: tuple[str, float] | None = None

    def _on_sigint(self) -> None:
        if self.interrupted:
            os._exit(130)  # a second Ctrl-C ends at once
        self.interrupted = True
        self._shut_down(signal.SIGINT)

    def _on_sigterm(self) -> None:
        self._shut_down(signal.SIGTERM)

    def end(self) -> None:
        """End in order, with everything done."""
        self.stopped_by = self.stopped_by or ("its end", time.monotonic())
        self._shut_down(signal.SIGTERM)

    def _shut_down(self, received: signal.Signals) -> None:
        self.stopped_by = self.stopped_by or (received.name, time.monotonic())
        deadline = threading.Timer(
            self.shutdown_seconds,
            die,
            [Crash(f"the shutdown took longer than {self.shutdown_seconds:g} s")],
        )
        deadline.daemon = True
        deadline.start()
        self.app.leave_off()  # else Faust processes all fetched events, which may take long
        self._flag_as_shutdown_by_signal()
        self._schedule_shutdown(received)

    async def _sentinel_task(self) -> None:
        """Do nothing: mode would sleep for a second after the end, and delay a restart."""


def use_event_loop() -> None:
    """Make the event loop that the app is built on."""
    asyncio.set_event_loop(uvloop.new_event_loop())


def run(app: CoverSummApp, shutdown_seconds: float) -> int:
    """Run the app until a signal or the end of a bounded run; return the exit code.

    Raises Crash if Faust ended without either.
    """
    app.finalize()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # loaded modules live as long as the process
    gc.set_threshold(50_000, 20, 20)  # events make many objects and hardly any cycles
    worker = _SignalledWorker(
        app,
        loop=asyncio.get_event_loop(),
        override_logging=False,
        redirect_stdouts=False,
        quiet=True,
    )
    worker.spinner = None
    worker.shutdown_seconds = shutdown_seconds
    app.end = worker.end
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        if end.code and not worker.interrupted:
            raise Crash("Faust ended without a signal; the lines before say why") from end
    if worker.stopped_by is not None:
        received, since = worker.stopped_by
        app.stream_worker.assignment.journal.stopped(received, time.monotonic() - since)
    return 130 if worker.interrupted else 0
