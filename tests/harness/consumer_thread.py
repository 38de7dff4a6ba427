"""Faust's consumer thread as the guarded consumer uses it; what a fetch returns is for those who
build on it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from faust.types import TP


class Fetched(NamedTuple):
    """A record as aiokafka has it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    checksum: None = None


class ConsumerThread:
    """An assignment, the position of each partition, and the group's coordinator; no thread, and
    nothing to fetch yet.

    Attributes:
        ends: where a partition ended by the last fetch: its stable part, and all of it.
    """

    beacon = None

    def __init__(self) -> None:
        self.assigned: set[TP] = set()
        self.positions: dict[TP, int] = {}
        self.ends: dict[TP, tuple[int, int]] = {}
        self.generation, self.member_id = -1, ""
        # what aiokafka knows of each partition
        assignment = SimpleNamespace(state_value=self._state)
        self._subscription: Any = SimpleNamespace(
            subscription=SimpleNamespace(assignment=assignment)
        )

    def _ensure_consumer(self) -> Any:
        return self

    @property
    def _coordinator(self) -> Any:
        return self

    def assignment(self) -> set[TP]:
        """Of the group."""
        return self.assigned

    def seek(self, tp: TP, offset: int) -> None:
        """Fetch from there."""
        self.positions[tp] = offset

    def _state(self, tp: TP) -> Any:
        if tp not in self.assigned:
            return None
        stable, end = self.ends.get(tp, (None, None))
        position = self.positions.get(tp)
        return SimpleNamespace(
            position=position, has_valid_position=position is not None, lso=stable, highwater=end
        )

    async def call_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """At once: the client belongs to no other thread."""
        return await work(*arguments)
