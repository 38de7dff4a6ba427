"""Fibers: code that can be left in the middle of a call and taken up later; one runs at a time.

The worker's own code is called as it is. Where it calls a client library, the simulation may park
it: other fibers run on, and later this one, from where it stood. So any order of the client calls
of several processes can be had, and had again. A fiber is carried by a thread, but a baton goes
from hand to hand: nothing is ever left to the machine's scheduler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar


class Killed(BaseException):
    """The process is gone: nothing of it runs on."""


class Fiber:
    """Some work of a process, that may be parked."""

    current: ClassVar[Fiber | None] = None

    def __init__(self, name: str, work: Callable[[], Any], siblings: list[Fiber]) -> None:
        """`siblings` are all fibers of its process; it becomes one of them."""
        self.name = name
        self.siblings = siblings
        siblings.append(self)
        self.done = False
        self.error: BaseException | None = None
        self._work = work
        self._killed = False
        self._blocked: Callable[[], bool] | None = None
        self._carrier: _Carrier | None = None

    @property
    def ready(self) -> bool:
        """Whether it would get anywhere if it were resumed."""
        return not self.done and (self._blocked is None or not self._blocked())

    def resume(self) -> None:
        """Run until it parks or ends."""
        if self._carrier is None:
            self._carrier = _Carrier.take(self)
        previous, Fiber.current = Fiber.current, self
        self._carrier.hand_over()
        Fiber.current = previous
        if self.done:
            self._carrier.leave()

    def kill(self) -> None:
        """End it where it stands; its `finally` blocks run."""
        self._killed = True
        if self._carrier is None:
            self.done = True
        while not self.done:
            self.resume()

    def run(self) -> None:
        """Called by the carrier."""
        try:
            self._work()
        except BaseException as error:
            self.error = error
        self.done = True

    def _park(self, blocked: Callable[[], bool] | None) -> None:
        if not self._killed:
            assert self._carrier is not None
            self._blocked = blocked
            self._carrier.hand_back()
            self._blocked = None
        if self._killed:
            raise Killed

    @classmethod
    def park(cls) -> None:
        """Stop here until the scheduler comes back to the current fiber."""
        if cls.current is not None:
            cls.current._park(None)

    @classmethod
    def wait_while(cls, blocked: Callable[[], bool]) -> None:
        """Park the current fiber while `blocked()`."""
        while blocked():
            assert cls.current is not None, "nobody is left to end this wait"
            cls.current._park(blocked)


class _Carrier:
    """A thread for one fiber after another."""

    _idle: ClassVar[list[_Carrier]] = []

    def __init__(self) -> None:
        self._forth, self._back = threading.Lock(), threading.Lock()
        self._forth.acquire()
        self._back.acquire()
        self._fiber: Fiber | None = None
        threading.Thread(target=self._carry, daemon=True, name="fiber").start()

    @classmethod
    def take(cls, fiber: Fiber) -> _Carrier:
        carrier = cls._idle.pop() if cls._idle else cls()
        carrier._fiber = fiber
        return carrier

    def leave(self) -> None:
        self._fiber = None
        self._idle.append(self)

    def hand_over(self) -> None:
        self._forth.release()
        self._back.acquire()

    def hand_back(self) -> None:
        self._back.release()
        self._forth.acquire()

    def _carry(self) -> None:
        while True:
            self._forth.acquire()
            assert self._fiber is not None
            self._fiber.run()
            self._back.release()


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine whose every `await` is answered at once, or by parking the fiber
    around it.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"{coroutine!r} waits for an event loop, and there is none")
