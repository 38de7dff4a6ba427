"""A server with given answers in place of a registry: refusals and outages that a real one has
seldom.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Answers:
    """What a path is answered, and which requests came.

    Attributes:
        given: by method and path, status and body; other paths are 404 with a code of no schema.
        requests: method and path, with the header Authorization and the body.
    """

    def __init__(self) -> None:
        self.given: dict[str, tuple[int, Any]] = {}
        self.requests: list[tuple[str, str | None, Any]] = []
        self.url = ""


@contextmanager
def served() -> Iterator[Answers]:
    """A server on this machine until the end of the block."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            what = f"{self.command} {self.path}"
            answers.requests.append((what, self.headers.get("Authorization"), body))
            missing = (404, {"error_code": 40403, "message": "Schema not found"})
            status, content = answers.given.get(what, missing)
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", raw.decode())
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    answers.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
