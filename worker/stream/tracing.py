"""What a micro-batch tells of itself to whoever traces it. By default nobody does, and it costs
nothing.

`worker.tracing` has the real thing.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final, Protocol

from worker.events import Record
from worker.processing.processor import ProcessedBatch

Contexts = Mapping[tuple[int, int], bytes]
"""By partition and offset: the trace context that a producer sent with its record, as W3C has it
(`traceparent`).
"""
NO_CONTEXTS: Final[Contexts] = MappingProxyType({})


class Span(Protocol):
    """The processing and committing of records, from beginning to end."""

    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        """The first of these records were processed. Its messages are going to be sent: they may be
        given headers.
        """

    def in_doubt(self) -> None:
        """Nobody confirmed the commit."""

    def dropped(self) -> None:
        """Nothing of it was sent: the assignment ended first."""


class Tracing(Protocol):
    """Makes spans."""

    def contexts(self, fetched: Iterable[Any]) -> Contexts:
        """What producers sent with these records of the consumer's client."""

    def micro_batch(self) -> AbstractContextManager[Span]:
        """A span that begins now, and ends with the block."""

    def close(self) -> None:
        """Send what is not sent yet, within seconds."""


class _NoSpan:
    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        pass

    def in_doubt(self) -> None:
        pass

    def dropped(self) -> None:
        pass


class _NoTracing:
    def __init__(self) -> None:
        self._span = nullcontext(_NoSpan())

    def contexts(self, fetched: Iterable[Any]) -> Contexts:
        return NO_CONTEXTS

    def micro_batch(self) -> AbstractContextManager[Span]:
        return self._span

    def close(self) -> None:
        pass


NO_TRACING: Final[Tracing] = _NoTracing()
