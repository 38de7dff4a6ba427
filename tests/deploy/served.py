"""Stands in for a worker where the kubelet is under test: it answers what its data directory says.

`python -m tests.deploy.served run`: a path is there where a file of its name is. SIGTERM ends it,
unless there is a file `stubborn`.
"""

from __future__ import annotations

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def has(name: str) -> bool:
    """Whether there is such a file."""
    return (Path(os.environ["COVERSUMM_DATA_DIR"]) / name).exists()


class Answers(BaseHTTPRequestHandler):
    """200 or 503."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200 if has(self.path.lstrip("/")) else 503)
        self.end_headers()


def end(*_: object) -> None:
    """At SIGTERM."""
    if not has("stubborn"):
        sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    HTTPServer(("127.0.0.1", int(os.environ["COVERSUMM_WEB_PORT"])), Answers).serve_forever()
