"""`bridge`: write a topic of other keys as events keyed by entity."""

from __future__ import annotations

import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli.command import Command
from worker.cli.logs import set_up_logging
from worker.cli.run import ending_at_sigterm
from worker.errors import SetupError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.bridge import Bridge
    from worker.metrics import Metrics

REQUEST_SECONDS = 10.0
"""Seconds for a client of the web server to send its request."""


@click.command(
    "bridge",
    cls=Command,
    examples=[
        (
            "coversumm-worker bridge --mapping mapping.toml --from shop.public.reviews",
            "a table captured by Debezium, for a worker on COVERSUMM_INPUT_TOPIC",
        ),
    ],
)
@click.option(
    "--mapping",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The mapping; by default COVERSUMM_MAPPING.",
)
@click.option("--from", "source", required=True, metavar="TOPIC", help="The topic to read.")
def command(file: Path | None, source: str) -> int:
    """Map the records of a topic, and write them to COVERSUMM_INPUT_TOPIC as events keyed by
    entity, exactly once, until SIGTERM or Ctrl-C. Records of one source partition stay in order.

    It keeps no state. Any number of processes share the source's partitions; each needs its own
    COVERSUMM_INSTANCE_ID. What does not fit the mapping becomes a dead letter in TOPIC.dlq, which
    is created. The worker behind it reads the contract's events: unset COVERSUMM_MAPPING there.

    Exit codes and probes are those of `run`.
    """
    from worker.bridge import Bridge, bridge_settings
    from worker.kafka.clients import WORKER_LOG, KafkaClients
    from worker.metrics import Metrics

    settings = Settings.from_environment(mapping=None if file is None else str(file))
    if settings.mapping is None:
        raise SetupError("--mapping FILE is missing, and COVERSUMM_MAPPING is not set")
    set_up_logging(settings)
    own = bridge_settings(settings, source, settings.mapping)
    metrics = Metrics("bridge")
    stopping = threading.Event()
    with ending_at_sigterm():
        bridge = Bridge(own, KafkaClients(own, WORKER_LOG), metrics)
        server = serve(own, bridge, metrics)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        try:
            bridge.run(stopping.is_set)
        finally:
            server.shutdown()
    return 0


def serve(settings: Settings, bridge: Bridge, metrics: Metrics) -> ThreadingHTTPServer:
    """Serve health, readiness and metrics at the paths of a worker, in threads of its own, until
    `shutdown`. Raises SetupError if the port is in use."""
    from worker.metrics import CONTENT_TYPE

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
