"""Spans of micro-batches: what they are linked to, what they say, and what goes out with the
messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.harness.stream import WatchedThreads
from worker.errors import InDoubt
from worker.events import Message, Record
from worker.kafka.group import Membership
from worker.processing.processor import ProcessedBatch
from worker.processing.stats import Stats
from worker.settings import Settings
from worker.stream.assignment import Assignment
from worker.stream.commit import CommitQueue, InFlight
from worker.stream.delivery import Delivery, MicroBatch
from worker.stream.journal import Journal
from worker.stream.surroundings import (
    NO_CONTEXTS,
    NO_TRACING,
    ProcessorThread,
    Surroundings,
    Tracing,
)
from worker.telemetry.spans import SpanTracing

TRACE = "0af7651916cd43dd8448eb211c80319c"


def sent(number: int) -> bytes:
    """What a producer's span puts into the header of its record."""
    return f"00-{TRACE}-{number:016x}-01".encode()


class Fetched(SimpleNamespace):
    """A record as aiokafka gives it."""

    partition = 0


class Site:
    """A delivery whose processor takes some records at once, and publishes a change, a tombstone
    and a dead letter for each.
    """

    def __init__(self, takes: int = 1000, tracing: Tracing | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.settings = Settings(
            input_topic="in", output_topic="out", dlq_topic="dead", instance_id="w-0"
        )
        self.tracing = tracing or SpanTracing(self.settings, SimpleSpanProcessor(self.exporter))
        self.threads = WatchedThreads()
        surroundings = Surroundings(
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            threads=self.threads,
            die=self._die,
            tracing=self.tracing,
        )
        self.assignment = Assignment(surroundings.clock, Journal(surroundings.clock, 2))
        self.published: list[Message] = []
        self.failure: Exception | None = None
        self._takes = takes
        thread = ProcessorThread(self, surroundings.threads.in_order("processing"))  # type: ignore[arg-type]
        settlement: Any = SimpleNamespace(
            settle=self._settle, commit_answered=lambda: None, commit_begins=lambda: None
        )
        self._delivery = Delivery(
            self.settings,
            self.assignment,
            thread,
            CommitQueue(self, settlement, self.assignment, surroundings),  # type: ignore[arg-type]
            surroundings,
        )

    @staticmethod
    def _die(cause: BaseException) -> Any:
        raise cause

    async def _settle(self, doubt: InDoubt, next_offsets: Any) -> bool:
        return True

    def process(self, records: Sequence[Record]) -> ProcessedBatch:
        taken = records[: self._takes]
        messages = [
            message
            for record in taken
            for message in (
                Message("out", 0, b"e", b"{}", [("ce_id", b"1")]),
                Message("out", 0, b"e", None, [("ce_id", b"2")]),
                Message("dead", 0, record.key, record.value, [("dlq.reason", b"bad_json")]),
            )
        ]
        stats = Stats(changes=len(taken), tombstones=len(taken))
        return ProcessedBatch(messages, {}, {0: taken[-1].offset + 1}, stats, [], len(taken))

    def __call__(self, flight: InFlight) -> None:
        if self.failure is not None:
            raise self.failure
        self.published += flight.batch.messages

    def settled(self, flight: InFlight, happened: bool) -> None:
        """As the commit has it."""

    def deliver(self, fetched: Sequence[Fetched]) -> None:
        """What the consumer does with a fetch, and what follows from it."""
        self.assignment.membership, self.assignment.is_flowing = Membership(1, "m"), True
        self.assignment.positions[0] = 0
        tenure = self.assignment.tenure
        assert tenure is not None
        records = tuple(
            Record("in", record.partition, record.offset, 0, b"e", b"text") for record in fetched
        )
        contexts = self.tracing.contexts(fetched)
        batch = MicroBatch(records, {0: 0}, {0: len(records)}, tenure, contexts=contexts)
        asyncio.run(self._deliver(batch))

    async def _deliver(self, batch: MicroBatch) -> None:
        async def done() -> None:
            """Nobody waits for it."""

        await self._delivery.deliver(batch, done)
        await self.threads.all_ended()

    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()


def fetched(*headers: Sequence[tuple[str, bytes | None]]) -> list[Fetched]:
    return [Fetched(offset=offset, headers=tuple(given)) for offset, given in enumerate(headers)]


def links(span: ReadableSpan) -> list[int]:
    """Span ids."""
    return [link.context.span_id for link in span.links]


def test_a_span_is_linked_to_each_context_once() -> None:
    site = Site()
    context, other = ("traceparent", sent(1)), ("traceparent", sent(2))
    site.deliver(fetched([("other", b"x"), context], [], [context], [other]))
    (span,) = site.spans()
    assert (span.name, span.kind, span.parent) == ("process in", SpanKind.CONSUMER, None)
    assert links(span) == [1, 2]
    assert {f"{link.context.trace_id:032x}" for link in span.links} == {TRACE}
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 4
    assert span.attributes["messaging.destination.name"] == "in"
    assert span.attributes["messaging.consumer.group.name"] == site.settings.app_id
    assert span.attributes["coversumm.summary_changes"] == 4
    assert [event.name for event in span.events] == ["processed"]
    assert span.status.status_code is StatusCode.UNSET
    assert span.resource.attributes["service.instance.id"] == "w-0"


def test_its_context_goes_out_with_summary_changes_alone() -> None:
    site = Site()
    site.deliver(fetched([]))
    (span,) = site.spans()
    assert span.context is not None
    flags = span.context.trace_flags
    assert flags.sampled
    context = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{flags:02x}".encode()
    change, tombstone, letter = site.published
    assert change.headers == [("ce_id", b"1"), ("traceparent", context)]
    assert tombstone.headers == [("ce_id", b"2")]
    assert letter.headers == [("dlq.reason", b"bad_json")]


def test_each_part_that_is_committed_has_a_span_with_its_own_links() -> None:
    site = Site(takes=2)
    site.deliver(fetched(*([("traceparent", sent(number))] for number in range(1, 6))))
    assert [links(span) for span in site.spans()] == [[1, 2], [3, 4], [5]]
    assert len({message.headers[1] for message in site.published if len(message.headers) == 2}) == 3


@pytest.mark.parametrize(
    "value", [b"", None, b"x", b"\xff\xfe", sent(0), b"00-" + b"0" * 32 + b"-0000000000000001-01"]
)
def test_what_is_no_context_is_left_out(value: bytes | None) -> None:
    site = Site()
    site.deliver(fetched([("traceparent", value)], [("traceparent", sent(1))]))
    (span,) = site.spans()
    assert links(span) == [1]


def test_a_span_has_as_many_links_as_the_environment_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "3")
    site = Site()
    site.deliver(fetched(*([("traceparent", sent(number))] for number in range(1, 10))))
    (span,) = site.spans()
    assert links(span) == [1, 2, 3]
    assert span.dropped_links == 0


def test_what_is_not_sampled_goes_on_unsampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    site = Site()
    site.deliver(fetched([("traceparent", sent(1))]))
    assert site.spans() == ()
    (_, context) = site.published[0].headers[1]
    assert not int(context.rsplit(b"-")[-1], 16) & 1


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "reviews")
    site = Site()
    site.deliver(fetched([]))
    assert site.spans()[0].resource.attributes["service.name"] == "reviews"


def test_a_failure_is_an_error_without_its_words() -> None:
    site = Site()
    site.failure = ValueError("the text of a review")
    with pytest.raises(ValueError, match="review"):
        site.deliver(fetched([]))
    (span,) = site.spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert "review" not in span.to_json()


def test_a_doubt_is_an_error() -> None:
    site = Site()
    site.failure = InDoubt("no answer")
    site.deliver(fetched([]))
    (span,) = site.spans()
    assert (span.status.status_code, span.status.description) == (
        StatusCode.ERROR,
        "the commit is in doubt",
    )


def test_nothing_is_read_or_added_where_nobody_traces() -> None:
    site = Site(tracing=NO_TRACING)
    assert NO_TRACING.contexts(iter("anything")) is NO_CONTEXTS
    site.deliver(fetched([("traceparent", sent(1))]))
    assert [len(message.headers) for message in site.published] == [1, 1, 1]
    assert site.spans() == ()
