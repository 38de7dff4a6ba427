"""A receiver of OpenTelemetry's protocol over HTTP, on 127.0.0.1: it keeps the spans it gets."""

from __future__ import annotations

import gzip
import threading
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.harness.http_server import Handler, HttpServer


class Received(NamedTuple):
    """A span as it came over the wire; ids in hex, as in a `traceparent`."""

    service: str
    name: str
    trace_id: str
    span_id: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    """Trace and span ids."""


class OtlpReceiver(HttpServer):
    """Listens while it is entered. `raw` is all that came, decompressed."""

    def __init__(self) -> None:
        self.raw = b""
        self._spans: list[Received] = []
        self._lock = threading.Lock()
        receiver = self

        class Traces(Handler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                is_known = (self.path, self.headers["content-type"]) == (
                    "/v1/traces",
                    "application/x-protobuf",
                )
                if is_known:
                    receiver._take(body)
                answer = ExportTraceServiceResponse().SerializeToString()
                status = 200 if is_known else 404
                self.reply(status, answer, {"content-type": "application/x-protobuf"})

        super().__init__(Traces)

    def spans(self) -> list[Received]:
        """Those that came so far."""
        with self._lock:
            return list(self._spans)

    def _take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.raw += body
            for resource_spans in request.resource_spans:
                service = _attributes(resource_spans.resource.attributes)["service.name"]
                for scope in resource_spans.scope_spans:
                    self._spans += [_received(service, span) for span in scope.spans]


def _received(service: str, span: Any) -> Received:
    links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
    attributes = _attributes(span.attributes)
    return Received(service, span.name, span.trace_id.hex(), span.span_id.hex(), attributes, links)


def _attributes(given: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in given
    }
