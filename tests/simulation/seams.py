"""Where the worker's modules are cut from the world: clients, disks, event loop, threads, clock and the end of the process.

Outside of these names nothing of the worker is replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.simulation import clients
from tests.simulation.broker import Clock
from tests.simulation.fibers import Fiber, Killed, drive
from worker.stream import consumer, delivery, table


class Ended(Exception):
    """The process ended itself; its cause is the argument."""

    @property
    def cause(self) -> BaseException:
        """What it would have said, and the exit code's error."""
        cause: BaseException = self.args[0]
        return cause


def die(cause: BaseException) -> None:
    """Stands for `worker.stream.fatal.die`; a second call keeps the first cause."""
    raise cause if isinstance(cause, (Ended, Killed)) else Ended(cause)


# -- one event loop for all of a process: what is awaited runs at once, or its fiber is parked -------------------------


class _Task:
    """Begins when it is waited for."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine
        self.begun = False
        self.done = False

    def run(self) -> None:
        self.begun = True
        try:
            drive(self._coroutine)
        finally:
            self.done = True


async def _wait(tasks: set[_Task]) -> None:
    for task in tasks:
        if not task.begun:
            task.run()
        Fiber.wait_while(lambda task=task: not task.done)  # type: ignore[misc]


async def _wait_for(work: Any, timeout: float | None) -> Any:
    return await work


async def _to_thread(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)


class _Loop:
    """Its executors have one thread each: work waits until the work before it is done."""

    async def run_in_executor(self, executor: Any, work: Callable[[], Any]) -> Any:
        lock = getattr(executor, "simulated", None)
        if lock is None:
            lock = executor.simulated = Lock()
        with lock:
            return work()


class Lock:
    """A lock that parks who waits for it."""

    def __init__(self) -> None:
        self._held = False

    def __enter__(self) -> None:
        Fiber.wait_while(lambda: self._held)
        self._held = True

    def __exit__(self, *_: Any) -> None:
        self._held = False


def _asyncio() -> SimpleNamespace:
    loop = _Loop()
    return SimpleNamespace(
        CancelledError=asyncio.CancelledError,
        Task=_Task,
        ensure_future=_Task,
        get_running_loop=lambda: loop,
        to_thread=_to_thread,
        wait=_wait,
        wait_for=_wait_for,
    )


class Thread:
    """A thread that is one more fiber of the process that starts it."""

    def __init__(self, *, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._target, self._name = target, name

    def start(self) -> None:
        """Begin, whenever the scheduler comes to it."""
        assert Fiber.current is not None
        self._fiber = Fiber(self._name, self._target, Fiber.current.siblings)

    def join(self) -> None:
        """Wait for its end."""
        Fiber.wait_while(lambda: not self._fiber.done)


@contextmanager
def seams(clock: Clock) -> Iterator[None]:
    """The worker's modules over simulated surroundings."""
    simulated_asyncio = _asyncio()
    names: dict[Any, dict[str, Any]] = {
        consumer: {"asyncio": simulated_asyncio, "die": die},
        delivery: {"asyncio": simulated_asyncio, "die": die, "time": clock},
        table: {
            "Rdict": clients.Rdict,
            "WriteBatch": clients.WriteBatch,
            "asyncio": simulated_asyncio,
            "die": die,
            "gc": SimpleNamespace(collect=lambda: 0),  # it closes databases here, and takes long
            "threading": SimpleNamespace(Lock=Lock, Thread=Thread),
            "time": clock,
        },
    }
    with ExitStack() as stack:
        for module, replaced in names.items():
            for name, value in replaced.items():
                stack.enter_context(patch.object(module, name, value))
        yield


@contextmanager
def silence() -> Iterator[None]:
    """No log meanwhile: simulated workers crash by the thousand, and nobody wants to read each one's."""
    loggers = [logging.getLogger(name) for name in ("worker", "faust", "aiokafka", "mode")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
