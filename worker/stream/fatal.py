"""The end of the process, on purpose: what cannot be put right inside is put right by a restart.

A state that does not fit, an error that does not pass or an unexpected exception must not be gone on from: cursors and caches are
already ahead. Only a commit in doubt is, once it is decided (`worker.stream.settlement`). `os._exit` leaves at once: the broker
aborts the open transaction, RocksDB replays its own log, and the next start takes up from the last commit.
"""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from worker.errors import CoversummError, Crash, SurroundingsError

log = logging.getLogger(__name__)


def die(cause: BaseException, told: Callable[[str], str] = str) -> NoReturn:
    """End the process with the exit code of `cause` (3 for anything that is not a `CoversummError`).

    The cause is told once, in the last line, as `told` puts it. Before it comes the traceback of a crash: it says where, and only
    that is news.
    """
    expected = isinstance(cause, CoversummError) and not isinstance(cause, Crash)
    if cause.__traceback__ is not None and not expected:
        log.critical("crashed at", exc_info=cause)
    sys.stderr.write(f"coversumm-worker: error: {' '.join(told(str(cause) or repr(cause)).split())}\n")
    for stream in (sys.stdout, sys.stderr, *(handler for handler in logging.getLogger().handlers)):
        stream.flush()
    os._exit(cause.exit_code if isinstance(cause, CoversummError) else Crash.exit_code)


class LeavingFirst:
    """The end of a process that leaves its group first where it is refused: it would be refused again, and nobody else could
    have its partitions until its session is over. A crash ends at once, for its successor takes its place.

    Attributes:
        leave: leaves the group, and returns within a bound; by default the process is no member yet.

    Args:
        die: ends the process.
    """

    def __init__(self, die: Callable[[BaseException], NoReturn]) -> None:
        self._die = die
        self.leave: Callable[[], None] = lambda: None

    def __call__(self, cause: BaseException) -> NoReturn:
        """End with this cause."""
        if isinstance(cause, SurroundingsError):
            with suppress(Exception):
                self.leave()
        self._die(cause)
