"""Traces of micro-batches. By default there are none, at no cost; `worker.spans` exports them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final

from worker.events import Record
from worker.processing.processor import ProcessedBatch

Contexts = Mapping[tuple[int, int], bytes]
"""By partition and offset: the W3C trace context (`traceparent`) of a record."""
NO_CONTEXTS: Final[Contexts] = MappingProxyType({})


class Span:
    """The processing and committing of records, from beginning to end."""

    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        """The first `batch.taken` of these records were processed. May add headers to messages."""

    def in_doubt(self) -> None:
        """The commit is in doubt."""

    def dropped(self) -> None:
        """Nothing of it was sent: the assignment ended first."""


class Tracing:
    """Makes spans; this one makes empty ones."""

    def contexts(self, fetched: Iterable[Any]) -> Contexts:
        """The trace contexts of these records of the consumer's client."""
        return NO_CONTEXTS

    def micro_batch(self) -> AbstractContextManager[Span]:
        """A span that begins now, and ends with the block."""
        return nullcontext(Span())

    def close(self) -> None:
        """Export the remaining spans, within seconds."""


NO_TRACING: Final = Tracing()
