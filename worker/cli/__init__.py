"""The command line: `coversumm-worker`, one module for each command.

Nothing heavy is imported before a command runs, so that `--help` answers at once.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

__all__ = ["main"]

INTERRUPTED = 128 + signal.SIGINT


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process with its exit code."""
    with _ending_quietly():
        from worker.settings import limit_native_threads

        limit_native_threads()
        from worker.cli import output as stdout
        from worker.cli.group import execute

    stdout.prepare()
    _leave(execute())


def _leave(code: int) -> NoReturn:
    """End the process here, with everything done and written.

    Taking the interpreter apart has nothing left to do, and may crash: threads of Kafka's client
    and of RocksDB can be in calls on objects that it would take from them (seen: a worker that had
    stopped in order ended with a segmentation fault).
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(Exception):  # nobody reads it, and that has been told
                stream.flush()
    os._exit(code)


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """Ctrl-C ends the process on the spot: nothing is open yet, and an exception amid imports would
    be a page of them.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # whoever started us may ignore it
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
