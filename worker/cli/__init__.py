"""The command line, `coversumm-worker`, with a module for each command.

Heavy imports wait until a command runs, so that `--help` is fast.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from worker.errors import INTERRUPTED

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command of this process, and end the process with its exit code."""
    with _quiet_interrupts():
        from worker.settings.environment import limit_native_threads

        limit_native_threads()
        from worker.cli.group import execute
        from worker.view import output as stdout

    stdout.prepare()
    code = execute()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(Exception):  # a closed pipe, already handled
                stream.flush()
    # The finalization of the interpreter may crash: threads of Kafka's client and of RocksDB may
    # use objects that it frees (seen: a segmentation fault after an orderly stop).
    os._exit(code)


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Ctrl-C ends the process at once, without a traceback of imports; nothing is open yet."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # the parent process may ignore it
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
