"""Clients that a test makes itself, in place of librdkafka's (`worker.kafka.clients.Clients`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """What a consumer was asked for with."""

    group: str
    isolation: str
    options: Mapping[str, Any]


def _none(*_: Any) -> Any:
    raise AssertionError("nobody was to ask for such a client")


def fake_message(**fields: Any) -> Any:
    """A message as librdkafka hands it out: a method of each of these names returns its value."""
    return SimpleNamespace(**{name: lambda value=value: value for name, value in fields.items()})


class FakeClients:
    """Hands out what the functions it is given make; keeps what consumers were asked for."""

    def __init__(
        self,
        *,
        consumer: Callable[[], Any] = _none,
        producer: Callable[[Mapping[str, Any]], Any] = _none,
        admin: Callable[[], Any] = _none,
    ) -> None:
        self._consumer, self._producer, self._admin = consumer, producer, admin
        self.asked: list[Asked] = []

    def standalone_consumer(
        self, group: str, isolation: str, options: Mapping[str, Any] = {}
    ) -> Any:
        self.asked.append(Asked(group, isolation, options))
        return self._consumer()

    def producer(self, options: Mapping[str, Any]) -> Any:
        return self._producer(options)

    def admin(self, on_error: Any = None) -> Any:
        return self._admin()


class FakeClock:
    """A clock that a test moves; it advances at every look by `tick_s`, and in every sleep."""

    def __init__(self) -> None:
        self.now_s, self.tick_s = 1_700_000_000.0, 0.0

    def time(self) -> float:
        self.now_s += self.tick_s
        return self.now_s

    monotonic = time

    def sleep(self, seconds: float) -> None:
        """Pass the time."""
        self.now_s += seconds
