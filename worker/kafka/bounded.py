"""A bound for calls that do not keep to their own: librdkafka has been seen to block for minutes past its timeouts."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

T = TypeVar("T")


class Hung(Exception):
    """A call has not returned in time; it may yet do what it was asked for."""


class Within(Protocol):
    """Runs work that may hang."""

    def __call__(self, seconds: float, work: Callable[[], T], /) -> T:
        """The result of `work`. Raises Hung past `seconds`: then the work is left to itself."""


def within(seconds: float, work: Callable[[], T], /) -> T:
    """See `Within`: a thread of its own for each call, which does not keep the process alive."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        if done.done():
            raise  # it was the work that raised it
        raise Hung from None
