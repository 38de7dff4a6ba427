"""Traces of micro-batches. By default there are none, at no cost; `worker.spans` exports them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final, Protocol

from worker.events import Record
from worker.processing.processor import ProcessedBatch

Contexts = Mapping[tuple[int, int], bytes]
"""By partition and offset: the W3C trace context (`traceparent`) of a record."""
NO_CONTEXTS: Final[Contexts] = MappingProxyType({})


class Span(Protocol):
    """The processing and committing of records, from beginning to end."""

    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        """The first `batch.taken` of these records were processed; headers may be added to its
        messages.
        """

    def in_doubt(self) -> None:
        """The commit is in doubt."""

    def dropped(self) -> None:
        """Nothing of it was sent: the assignment ended first."""


class Tracing(Protocol):
    """Makes spans."""

    def contexts(self, fetched: Iterable[Any]) -> Contexts:
        """The trace contexts of these records of the consumer's client."""

    def micro_batch(self) -> AbstractContextManager[Span]:
        """A span that begins now, and ends with the block."""

    def close(self) -> None:
        """Export the remaining spans, within seconds."""


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
