"""The end of the process, on purpose: what cannot be put right inside is put right by a restart.

A transaction in doubt, a partition that cannot be restored or an unexpected exception must not be retried with cursors and
caches already ahead. `os._exit` leaves at once: the broker aborts the open transaction, RocksDB replays its own log,
and the next start takes up from the last commit.
"""

import logging
import os
import sys
from typing import NoReturn

from worker.errors import CoversummError, Crash

log = logging.getLogger(__name__)


def die(cause: BaseException) -> NoReturn:
    """End the process with the exit code of `cause` (3 for anything that is not a `CoversummError`)."""
    expected = isinstance(cause, CoversummError) and not isinstance(cause, Crash)
    log.critical("%s", cause, exc_info=None if expected else cause)
    sys.stderr.write(f"coversumm-worker: error: {cause}\n")
    for stream in (sys.stdout, sys.stderr, *(handler for handler in logging.getLogger().handlers)):
        stream.flush()
    os._exit(cause.exit_code if isinstance(cause, CoversummError) else Crash.exit_code)
