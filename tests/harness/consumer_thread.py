"""Faust's consumer thread as the guarded consumer uses it; what a fetch returns is for those who build on it."""

from __future__ import annotations

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


class ConsumerThread:
    """An assignment, the position of each partition, and the group's coordinator; no thread, and nothing to fetch yet."""

    beacon = None

    def __init__(self) -> None:
        self.assigned: set[TP] = set()
        self.positions: dict[TP, int] = {}
        self.generation, self.member_id = -1, ""

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
