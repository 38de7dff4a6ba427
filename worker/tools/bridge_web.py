"""Health, readiness and metrics of a bridge over HTTP, at the paths of a worker."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from worker.errors import SetupError
from worker.metrics import CONTENT_TYPE, Metrics
from worker.settings import Settings
from worker.tools.bridge import Bridge

REQUEST_SECONDS = 10.0
"""Time for a client to send its request."""


def serve(settings: Settings, bridge: Bridge, metrics: Metrics) -> ThreadingHTTPServer:
    """Serve in threads of its own until `shutdown`. Raises SetupError if the port is in use."""

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
