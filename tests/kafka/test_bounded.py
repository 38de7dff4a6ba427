"""Calls that may hang, in real threads."""

from __future__ import annotations

import threading

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from worker.kafka.transactions import Hung, within


@pytest.mark.parametrize(
    "error", [ValueError("refused"), TimeoutError("of the work itself"), SystemExit(2)]
)
def test_what_is_raised_in_time_is_raised(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        within(PATIENCE_SECONDS, work)
    assert raised.value is error


def test_what_does_not_return_is_left_to_itself() -> None:
    """It continues in a thread that does not keep the process alive, and its end is ignored."""
    released, ended, threads = threading.Event(), threading.Event(), []

    def work() -> None:
        threads.append(threading.current_thread())
        released.wait(PATIENCE_SECONDS)
        ended.set()

    with pytest.raises(Hung):
        within(0.05, work)
    assert not ended.is_set()
    released.set()
    assert ended.wait(PATIENCE_SECONDS)
    assert threads[0].daemon


def test_a_call_that_hangs_holds_up_no_other() -> None:
    released = threading.Event()
    try:
        with pytest.raises(Hung):
            within(0.05, lambda: released.wait(PATIENCE_SECONDS))
        assert within(PATIENCE_SECONDS, lambda: "next") == "next"
    finally:
        released.set()
