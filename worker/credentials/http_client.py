"""HTTP requests whose answers have to arrive in time, on urllib."""

import http.client
import ssl
import time
from socket import SocketIO
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, build_opener


class _TimedReader(SocketIO):
    """Reads until `ends`: the timeout of a socket begins again with each byte."""

    _sock: Any
    ends: float

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(max(self.ends - time.monotonic(), 0.001))
        return super().readinto(buffer)


class _Answer(http.client.HTTPResponse):
    """An answer that has to arrive completely within the request's timeout."""

    def __init__(self, sock: Any, **arguments: Any) -> None:
        super().__init__(sock, **arguments)
        raw: Any = self.fp.raw
        raw.__class__, raw.ends = _TimedReader, time.monotonic() + sock.gettimeout()


class _Handler(HTTPHandler, HTTPSHandler):
    def do_open(self, http_class: Any, req: Any, **arguments: Any) -> Any:
        def connection(host: str, **given: Any) -> Any:
            made = http_class(host, **given)
            made.response_class = _Answer
            return made

        return super().do_open(connection, req, **arguments)


def opener(context: ssl.SSLContext | None = None) -> OpenerDirector:
    """Opens requests, each with a `timeout` in seconds. `context`: TLS; None: the system's."""
    return build_opener(_Handler(context=context))
