"""One OpenTelemetry span for each micro-batch that is processed and committed.

The span links to the contexts in the `traceparent` headers of its records, and each
`summary.changed` carries the span's own context (W3C Trace Context). The SDK reads its settings
from its own variables (OTEL_...).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from worker import __version__
from worker.events import Record
from worker.processing.processor import ProcessedBatch
from worker.settings import Settings
from worker.stream.surroundings import Contexts, Span, Tracing

TRACEPARENT: Final = "traceparent"
CLOSE_SECONDS: Final = 2.0  # to send the last spans: an unreachable collector delays no restart
_propagator = TraceContextTextMapPropagator()


def exported(settings: Settings) -> SpanTracing:
    """Spans sent in the background to the collector that the environment names."""
    return SpanTracing(settings, BatchSpanProcessor(OTLPSpanExporter()))


class SpanTracing(Tracing):
    """Spans for a processor of the SDK."""

    def __init__(self, settings: Settings, processor: SpanProcessor) -> None:
        own = {
            "service.name": "coversumm-worker",
            "service.version": __version__,
            "service.instance.id": settings.instance_id,
        }
        limits = SpanLimits()
        # The environment's names win over ours.
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(
            resource=resource, shutdown_on_exit=False, span_limits=limits
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("coversumm-worker", __version__)
        self._max_links = limits.max_links or 0
        self._output_topic = settings.output_topic
        self._name = f"process {settings.input_topic}"
        self._attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": settings.input_topic,
            "messaging.consumer.group.name": settings.app_id,
        }

    def contexts(self, fetched: Iterable[Any]) -> Contexts:
        """The `traceparent` headers of these records."""
        return {
            (record.partition, record.offset): value
            for record in fetched
            for name, value in record.headers
            if name == TRACEPARENT and value
        }

    @contextmanager
    def micro_batch(self) -> Iterator[Span]:
        """A new trace, linked to the traces of its records."""
        span = self._tracer.start_span(
            self._name, Context(), SpanKind.CONSUMER, attributes=self._attributes
        )
        try:
            yield _MicroBatchSpan(span, self._output_topic, self._max_links)
        except BaseException as cause:
            # the message of the error may contain an event's text
            span.set_status(Status(StatusCode.ERROR, type(cause).__name__))
            raise
        finally:
            span.end()

    def close(self) -> None:
        """Send the last spans, for at most `CLOSE_SECONDS`."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


class _MicroBatchSpan(Span):
    def __init__(self, span: trace.Span, output_topic: str, max_links: int) -> None:
        self._span = span
        self._output_topic = output_topic
        self._max_links = max_links

    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        self._send_on(batch)
        span, stats = self._span, batch.stats
        if not span.is_recording():
            return
        span.add_event("processed")
        span.set_attributes(
            {
                "messaging.batch.message_count": batch.taken,
                "coversumm.summary_changes": stats.changes,
                "coversumm.tombstones": stats.tombstones,
                "coversumm.dead_letters": stats.dead_letters().total(),
                "coversumm.refills": stats.core.refilled,
                "coversumm.sentences_embedded": stats.sentences_embedded,
                "coversumm.partitions": sorted(batch.next_offsets),
            }
        )
        if contexts:
            self._link(records[: batch.taken], contexts)

    def in_doubt(self) -> None:
        self._span.set_status(Status(StatusCode.ERROR, "the commit is in doubt"))

    def dropped(self) -> None:
        self._span.set_status(Status(StatusCode.ERROR, "the assignment ended before the commit"))

    def _send_on(self, batch: ProcessedBatch) -> None:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, trace.set_span_in_context(self._span, Context()))
        header = (TRACEPARENT, carrier[TRACEPARENT].encode())
        for message in batch.messages:
            if message.topic == self._output_topic and message.value is not None:
                message.headers.append(header)

    def _link(self, records: Sequence[Record], contexts: Contexts) -> None:
        """Link each context once, up to the limit; without attributes, which would cost most."""
        linked: set[bytes] = set()
        for record in records:
            sent = contexts.get((record.partition, record.offset))
            if sent is None or sent in linked:
                continue
            if len(linked) == self._max_links:
                break
            linked.add(sent)
            context = _read(sent)
            if context.is_valid:
                self._span.add_link(context)


def _read(traceparent: bytes) -> SpanContext:
    """The context in a header; an invalid one if the header has none."""
    carrier = {TRACEPARENT: traceparent.decode("latin-1")}
    return trace.get_current_span(_propagator.extract(carrier, Context())).get_span_context()
