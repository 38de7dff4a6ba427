"""Waiting for a condition: the one loop that asks until it holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from tests.harness.patience import PATIENCE_SECONDS

T = TypeVar("T")
Complaint = Callable[[], object]


class NotInTime(AssertionError):
    """The condition did not hold in time; the message says what was missing."""


def eventually(
    condition: Callable[[], T],
    complaint: Complaint = str,
    *,
    timeout_s: float = PATIENCE_SECONDS,
    every_s: float = 0.1,
) -> T:
    """The first true value of `condition`. Raises NotInTime with the complaint if none comes."""
    give_up_s = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > give_up_s:
            raise NotInTime(f"after {timeout_s:g} s: {complaint()}")
        time.sleep(every_s)
    return value


async def eventually_here(condition: Callable[[], object], complaint: Complaint = str) -> None:
    """As `eventually`, while the other tasks of the event loop run."""
    give_up_s = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > give_up_s:
            raise NotInTime(f"after {PATIENCE_SECONDS:g} s: {complaint()}")
        await asyncio.sleep(0.001)
