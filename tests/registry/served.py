"""A server with given answers in place of a registry: refusals and outages that a real one has
seldom.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.harness.http_server import Handler, HttpServer


class Answers:
    """What a path is answered, and which requests came.

    Attributes:
        given: by method and path, status and body; other paths are 404 with a code of no schema.
        requests: method and path, with the header Authorization and the body.
        headers: all headers of each request.
    """

    def __init__(self) -> None:
        self.given: dict[str, tuple[int, Any]] = {}
        self.requests: list[tuple[str, str | None, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.url = ""


@contextmanager
def served(tls: ssl.SSLContext | None = None) -> Iterator[Answers]:
    """A server on this machine until the end of the block."""
    answers = Answers()

    class Registry(Handler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            what = f"{self.command} {self.path}"
            answers.headers.append({name.lower(): value for name, value in self.headers.items()})
            answers.requests.append((what, self.headers.get("Authorization"), body))
            missing = (404, {"error_code": 40403, "message": "Schema not found"})
            given = answers.given.get(what, missing)
            status, content = given(body) if callable(given) else given
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.reply(status, raw, {"Location": raw.decode()} if status == 302 else None)

        do_GET = do_POST = _answer

    with HttpServer(Registry, tls) as server:
        answers.url = server.url if tls is None else server.url.replace("http:", "https:")
        yield answers
