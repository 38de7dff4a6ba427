"""An event loop on a simulated clock: a wait takes no time, and no slow machine makes it longer.

Only for coroutines that wait for timers and for each other: while nothing is ready, the clock jumps
to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jump(selectors.DefaultSelector):
    """A selector that adds each wait to its clock and returns at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; the wait is over."""
        assert timeout is not None, "every task waits, and none for a timer"
        self.now_s += max(0.0, timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` starts at 0 and passes only in waits."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Simulated seconds."""
        return self._jump.now_s


def run_simulated(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work` on a simulated clock."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)
