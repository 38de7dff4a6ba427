"""The watchdog: a worker that silently stands still is worse than one that restarts.

A thread of its own, so that a blocked event loop cannot keep it from barking. It ends the process when the event loop does not
answer, or when the same hindrance (`WorkerStatus.stall`) holds for longer than the limit without any progress. Slow is not still:
every part of a micro-batch that is embedded and every entity that is ranked counts as progress, as a commit does. An open
transaction upstream is no hindrance: the last stable offset then stands still, and so does the lag.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from worker.errors import Crash
from worker.stream.fatal import die

CHECK_SECONDS = 1.0

BUSY = "a micro-batch is being processed"
"""The hindrance that is none as long as there is progress."""
ADVICE = {
    BUSY: ", and no part of it was finished: the embedder or the disk hangs, or this worker gets next to no processor time: "
    "give it more, lower COVERSUMM_EMBEDDER_THREADS to the cores it has, or raise COVERSUMM_STALL_TIMEOUT_MS"
}
"""What else is said of a hindrance that ends the process."""


class Watchdog(threading.Thread):
    """Ends the process after `limit_seconds` without progress.

    Args:
        stall: names what hinders progress right now, None when nothing does.
        progressed_at: `time.monotonic()` of the last progress.
        limit_seconds: how long is too long.
        bark: what to do then; the default ends the process.
    """

    def __init__(
        self,
        stall: Callable[[], str | None],
        progressed_at: Callable[[], float],
        limit_seconds: float,
        bark: Callable[[BaseException], None] = die,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._stall = stall
        self._progressed_at = progressed_at
        self._limit_seconds = limit_seconds
        self._bark = bark
        self._beat = time.monotonic()
        self._done = threading.Event()

    async def beat(self) -> None:
        """Show that the event loop lives, until cancelled."""
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(CHECK_SECONDS)

    def stop(self) -> None:
        """Stop watching."""
        self._done.set()

    def run(self) -> None:
        """Watch until `stop`."""
        hindered_since: float | None = None
        while not self._done.wait(CHECK_SECONDS):
            now = time.monotonic()
            stall = self._stall()
            if stall is None:
                hindered_since = None
            elif hindered_since is None:
                hindered_since = now
            if now - self._beat > self._limit_seconds:
                self._bark(Crash(f"the event loop has not answered for {self._limit_seconds:g} s"))
            elif (
                hindered_since is not None
                and now - max(hindered_since, self._progressed_at()) > self._limit_seconds
            ):
                advice = ADVICE.get(stall or "", "")
                self._bark(Crash(f"no progress for {self._limit_seconds:g} s: {stall}{advice}"))
