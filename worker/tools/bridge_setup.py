"""What a bridge has beside its loop: settings, the mapping of its source, topics, a web server."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import patiently
from worker.kafka.topics import Topics, TopicSpec, topic_specs
from worker.mapping import TopicMapping, load_mapping
from worker.metrics import CONTENT_TYPE, Metrics
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.tools.bridge import Bridge

REQUEST_SECONDS = 10.0
"""Time for a client to send its request."""


def bridge_settings(settings: Settings, source: str, file: Path) -> Settings:
    """The bridge's settings: its group and dead letters are those of the source topic."""
    if source == settings.input_topic:
        raise SetupError(
            f"--from {source}: it is COVERSUMM_INPUT_TOPIC, to which the bridge writes: set that "
            "to the topic that the workers read"
        )
    return replace(
        settings,
        app_id=f"{settings.app_id}-bridge-{source}"[:200],
        input_topic=source,
        output_topic=settings.input_topic,
        dlq_topic=f"{source}.dlq",
        mapping=file,
    )


def source_mapping(settings: Settings) -> TopicMapping:
    """The mapping of the source topic. Raises SetupError and FileErrors."""
    assert settings.mapping is not None
    topics = load_mapping(settings.mapping)
    if settings.input_topic not in topics:
        raise SetupError(
            f'{settings.mapping} has no [topic."{settings.input_topic}"], only '
            f"{', '.join(topics)}: add it, or name one of these with --from"
        )
    return topics[settings.input_topic]


def prepare_bridge(settings: Settings, clients: Clients) -> tuple[int, int]:
    """Create the dead letter topic; the partition counts of the source and the target.

    Raises SetupError if a topic or the broker is not as required.
    """
    specs = topic_specs(settings)
    target = TopicSpec("target", settings.output_topic, specs["input"].config)
    kept = {role: specs[role] for role in ("input", "dead letters")} | {"target": target}
    topics = Topics(settings, clients, specs=kept, patient=True)
    if settings.input_topic not in topics.partitions:
        raise SetupError(f"--from {settings.input_topic}: there is no such topic")
    if settings.output_topic not in topics.partitions:
        raise SetupError(
            f"the topic {settings.output_topic} does not exist (COVERSUMM_INPUT_TOPIC): create it "
            "with `coversumm-worker topics --partitions N`"
        )
    count = topics.partitions[settings.input_topic]
    missing = [spec for spec in topics.missing() if spec.role == "dead letters"]
    patiently(lambda: topics.create(missing, count))
    letters = topics.partitions[settings.dlq_topic]
    if letters < count:
        raise SetupError(
            f"the dead letter topic {settings.dlq_topic} has {letters} partitions and "
            f"{settings.input_topic} has {count}: add partitions to it"
        )
    return count, topics.partitions[settings.output_topic]


def serve(settings: Settings, bridge: "Bridge", metrics: Metrics) -> ThreadingHTTPServer:
    """Serve health, readiness and metrics at the paths of a worker, in threads of its own, until
    `shutdown`. Raises SetupError if the port is in use."""

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE, metrics.page(bridge))
            elif self.path == "/readyz":
                is_ready, why = bridge.ready()
                self._json(200 if is_ready else 503, {"ready": is_ready, "reason": why})
            elif self.path == "/healthz":
                self._json(200 if bridge.is_alive else 503, {"alive": bridge.is_alive})
            else:
                self._json(404, {"error": "there are /healthz, /readyz and /metrics"})

        def _json(self, status: int, body: dict[str, object]) -> None:
            self._answer(status, "application/json", json.dumps(body).encode())

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """No line for each request."""

    try:
        server = ThreadingHTTPServer((settings.web_bind, settings.web_port), Handler)
    except OSError as error:
        raise SetupError(
            f"port {settings.web_port} of {settings.web_bind} cannot be used ({error.strerror}); "
            "set COVERSUMM_WEB_PORT"
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
    return server
