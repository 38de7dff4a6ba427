"""Traces from end to end: a producer's context into the worker, its span to a collector, its own
context out with the summary.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.otlp import OtlpReceiver
from tests.harness.patience import TEST_SECONDS
from tests.harness.topics import Message, read_topic
from tests.harness.workers import Pipeline, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

SETTINGS = {"COVERSUMM_DIMENSION": "2", "COVERSUMM_K": "3"}
TEXT = "So quiet a room."
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def trace_of(number: int) -> tuple[str, str]:
    """Trace and span id of a producer."""
    return f"{number + 1:032x}", f"{number + 1:016x}"


def send(site: Pipeline, count: int) -> None:
    """Reviews, each of a trace of its own, and a deletion."""
    producer = Producer({"bootstrap.servers": site.broker.bootstrap_servers})
    for number in range(count):
        body = {
            "type": "review.upserted",
            "entity_id": f"e{number}",
            "review_id": "r",
            "sentences": [{"text": TEXT, "embedding": [1.0, number]}],
        }
        trace_id, span_id = trace_of(number)
        headers = [("traceparent", f"00-{trace_id}-{span_id}-01".encode())]
        producer.produce(site.input_topic, json.dumps(body).encode(), f"e{number}", headers=headers)
    producer.produce(site.input_topic, None, "e0")
    producer.flush()
    site.wait_caught_up()


def published(site: Pipeline) -> list[Message]:
    return read_topic(site.broker.bootstrap_servers, site.output_topic)


def test_contexts_go_through_the_worker(kafka: KafkaBroker, tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        settings = SETTINGS | {ENDPOINT: receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with pipeline(kafka, "traced", tmp_path, settings=settings) as site:
            site.start(1)
            send(site, 30)
            wanted = {trace_of(number) for number in range(30)}

            def seen() -> set[tuple[str, str]]:
                return {link for span in receiver.spans() for link in span.links}

            eventually(lambda: seen() == wanted, lambda: f"{seen()}\n{site.logs()}")
            site.stop()
        spans = receiver.spans()
        assert {(span.service, span.name) for span in spans} == {
            ("coversumm-worker", f"process {site.input_topic}")
        }
        assert sum(span.attributes["messaging.batch.message_count"] for span in spans) == 31
        assert TEXT.encode() not in receiver.raw
        by_context = {(span.trace_id, span.span_id): span for span in spans}
        changes = [message for message in published(site) if message.value is not None]
        assert len(changes) == 31
        for message in changes:
            version, trace_id, span_id, flags = (
                dict(message.headers)["traceparent"].decode().split("-")
            )
            span = by_context[trace_id, span_id]
            assert (version, int(flags, 16) & 1) == ("00", 1), "it is sampled"
            body = json.loads(message.value or b"")
            if body["sentences"]:
                assert trace_of(int(body["entity_id"][1:])) in span.links
        tombstones = [message for message in published(site) if message.value is None]
        assert ["traceparent" in dict(message.headers) for message in tombstones] == [False]


@pytest.mark.long
def test_without_a_collector_bytes_and_headers_are_those_of_a_traced_worker_but_for_the_context(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """And a collector that does not answer holds nothing up: neither events nor the stop."""
    nobody = f"http://127.0.0.1:{free_port()}"
    outputs = []
    for name, settings in (
        ("untraced", {}),
        ("unheard", {ENDPOINT: nobody, "OTEL_BSP_SCHEDULE_DELAY": "100"}),
    ):
        with pipeline(kafka, name, tmp_path / name, settings=SETTINGS | settings) as site:
            (worker,) = site.start(1)
            send(site, 10)
            started_s = time.monotonic()
            assert worker.terminate() == 0
            assert time.monotonic() - started_s < 15
            messages = sorted(
                published(site), key=lambda message: (message.partition, message.offset)
            )
            outputs.append(messages)
    untraced, unheard = outputs
    assert len(untraced) == len(unheard) == 12
    for plain, other in zip(untraced, unheard, strict=True):
        assert "traceparent" not in dict(plain.headers)
        times = {"ce_time"}  # of the records, where events have none
        headers = {name: value for name, value in other.headers if name != "traceparent"}
        assert {name: v for name, v in plain.headers if name not in times} == {
            name: v for name, v in headers.items() if name not in times
        }
        assert [name for name, _ in plain.headers] == list(headers)
        assert (plain.key, (plain.value or b"").replace(b"untraced", b"")) == (
            other.key,
            (other.value or b"").replace(b"unheard", b""),
        )
