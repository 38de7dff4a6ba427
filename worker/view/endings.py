"""Signals that end what is shown, in order: the terminal is given back, what was started is stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals() -> Iterator[None]:
    """The first of them raises KeyboardInterrupt, which cleans up; that takes seconds, and further ones do not disturb it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
