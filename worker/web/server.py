"""Checks and limits of the worker's web server, before any page handles a request.

Host         only known names: a foreign web page could otherwise read a worker on an internal
             address by resolving its own name to that address (DNS rebinding)
query        UTF-8
connections  limited in number, and in time to send a request; probes have some of their own
errors       one log line a minute
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import time
from collections.abc import Collection, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

from worker.clock import Clock
from worker.errors import SetupError
from worker.settings import Settings
from worker.settings.kinds import host_port
from worker.stream.journal import OnceAMinute

HEAD_SECONDS: Final = 30.0
"""Time a connection may be idle or take to send a request head. A stream of events is a request."""
MOST_CONNECTIONS: Final = 512  # open at once, to leave file handles for databases and Kafka clients
PROBE_CONNECTIONS: Final = 32  # connections beyond these, for `PROBES`
PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
LARGEST_LINE: Final = 40 * 2**10
"""Bytes of a request line: an id has up to 12 KiB percent-encoded, and a query may have three."""
LARGEST_HEADER: Final = 8 * 2**10
MOST_HEADERS: Final = 64
METHODS: Final = ("GET", "HEAD")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+?)\.?(?::[0-9]{1,5})?", re.ASCII)
_MOST_SHOWN: Final = 100

REQUEST_LOG: Final = logging.getLogger(f"{__name__}.requests")
log = logging.getLogger(__name__)


def check_port(host: str, port: int) -> None:
    """Raise SetupError if the web server could not listen there."""
    bind(host, port).close()


def free_port(host: str) -> int:
    """A free port. Raises SetupError if the address does not belong to this machine."""
    with bind(host, 0) as listener:
        return int(listener.getsockname()[1])


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises SetupError if the address is not available.

    `::` listens for IPv4 too, and for it alone on a machine without IPv6.
    """
    try:
        try:
            return _listener(host, port)
        except OSError as cause:
            if host != "::" or cause.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
            return _listener("0.0.0.0", port)  # noqa: S104 - the setting says so
    except OSError as cause:
        raise SetupError(
            f"the web server cannot listen on {host_port(host, port)} ({cause.strerror or cause}): "
            "set COVERSUMM_WEB_PORT or "
            "COVERSUMM_WEB_BIND to an address that is free on this machine"
        ) from cause


def _listener(host: str, port: int) -> socket.socket:
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listener = socket.socket(family, kind, protocol)
    # A restart need not wait for old connections.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Accepted names of this worker's host, besides IP addresses and localhost."""
    advertised = urlsplit(settings.web_advertised_url).hostname or ""
    return frozenset({advertised, *(settings.web_allowed_hosts or "").split(",")} - {""})


def error(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as JSON. 503 says when to ask again."""
    again = {"Retry-After": "1"} if status == 503 else {}
    return web.json_response(
        {"error": message}, status=status, headers={**again, **(headers or {})}
    )


def known_host(hosts: Collection[str]) -> Middleware:
    """Refuse requests for hosts that are neither IP addresses, localhost, nor among `hosts`.

    A request without a host (HTTP/1.0) does not come from a browser and is answered.
    """
    known = {"localhost", *(host.lower().rstrip(".") for host in hosts)}
    refusals = OnceAMinute()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.get("Host")
        if header is None or _is_known(header, known):
            return await handler(request)
        shown = ascii(header[:_MOST_SHOWN])
        if count := refusals.count():
            log.warning(
                "refused %d HTTP requests for other hosts, the last for %s: "
                "COVERSUMM_WEB_ALLOWED_HOSTS names those "
                "under which this worker may be asked",
                count,
                shown,
            )
        return error(
            421,
            f"the host {shown} is none of this worker's: add it to COVERSUMM_WEB_ALLOWED_HOSTS "
            "if it is",
        )

    return check


def _is_known(header: str, known: Collection[str]) -> bool:
    match = _HOST.fullmatch(header)
    if match is None:
        return False
    host = match[1].lower()
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return host in known
    return True


@web.middleware
async def unknown_path(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 404 in JSON where no page is."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return error(404, "nothing is at this path; of an entity ask /entities/ID/summary")


@web.middleware
async def utf8_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a query that is not UTF-8; aiohttp would replace bytes or pass on lone surrogates."""
    try:
        unquote_to_bytes(request.rel_url.raw_query_string).decode()
    except UnicodeError:
        return error(400, "the query is not UTF-8")
    return await handler(request)


@web.middleware
async def read_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse other methods, and bodies without reading them."""
    if request.method not in METHODS:
        refusal = error(405, "only GET and HEAD are answered here")
        refusal.headers["Allow"] = ", ".join(METHODS)
    elif request.can_read_body:
        refusal = error(413, "a request has no body here")
    else:
        return await handler(request)
    refusal.force_close()
    return refusal


class RequestErrors(logging.Filter):
    """Merges aiohttp's errors into one line a minute, with a traceback if the error is ours."""

    def __init__(self, clock: Clock = time) -> None:
        super().__init__()
        self._bad, self._failed = OnceAMinute(clock), OnceAMinute(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """True if to log the record, which is rewritten as the line."""
        if record.levelno < logging.ERROR:
            return True
        cause = record.exc_info[1] if record.exc_info else None
        is_bad = isinstance(cause, HttpProcessingError)
        count = (self._bad if is_bad else self._failed).count()
        what = cause.message if isinstance(cause, HttpProcessingError) else repr(cause)
        what = ascii((what.strip().splitlines() or [""])[0][:_MOST_SHOWN])[1:-1]
        if is_bad:
            record.exc_info = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = (
                "answered %d bad HTTP requests with 400, the last: %s",
                (count, what),
            )
        else:
            record.msg, record.args = "%d HTTP requests failed, the last: %s", (count, what)
        return count > 0


class _Refusing(asyncio.Protocol):
    """A connection that no request is read from."""

    def connection_made(self, transport: Any) -> None:
        transport.abort()


class _Server(web.Server):
    """aiohttp's server with a limit of connections: a new one replaces the oldest idle one."""

    def __init__(self, handler: Any, **arguments: Any) -> None:
        super().__init__(handler, **arguments)
        self._refusals = OnceAMinute()

    def __call__(self) -> Any:
        if (found := self.excess()) >= 0:
            if count := self._refusals.count():
                log.warning(
                    "closed %d HTTP connections: more than %d were open at once",
                    count,
                    MOST_CONNECTIONS,
                )
            idle = (
                connection
                for connection in self.connections
                if not (
                    connection._force_close
                    or connection._request_in_progress
                    or connection._messages
                )
            )
            if oldest := next(idle, None):
                oldest.force_close()
            elif found >= PROBE_CONNECTIONS:
                return _Refusing()
        return super().__call__()

    def excess(self) -> int:
        """Open connections beyond `MOST_CONNECTIONS`; negative below it."""
        if len(self._connections) < MOST_CONNECTIONS:
            return -1
        return (
            sum(not connection._force_close for connection in self._connections) - MOST_CONNECTIONS
        )


@web.middleware
async def probes_first(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer probes alone if `MOST_CONNECTIONS` others are busy."""
    manager = request.protocol._manager
    is_full = isinstance(manager, _Server) and manager.excess() > 0
    if is_full and request.path not in PROBES:
        refusal = error(503, f"more than {MOST_CONNECTIONS} connections are open")
        refusal.force_close()
        return refusal
    return await handler(request)


def _below(prefix: str, make: Any, message: RawRequestMessage, *arguments: Any) -> web.Request:
    """The request without the prefix of its path. Probes have none: no Ingress leads to them."""
    url = message.url
    if prefix and url.raw_path.startswith(f"{prefix}/"):
        path = url.raw_path.removeprefix(prefix)
        url = URL.build(path=path, query_string=url.raw_query_string, encoded=True)
        if url.path not in PROBES:
            message = message._replace(url=url)
    request: web.Request = make(message, *arguments)
    return request


class Runner(web.AppRunner):
    """aiohttp's runner with the limits above.

    `keepalive_timeout` lasts from the connection or the last answer to the end of a request head.
    """

    __slots__ = ("_path",)

    def __init__(self, application: web.Application, path: str = "") -> None:
        """`path`: the prefix of paths, which are answered with it and without."""
        self._path = path
        for old in [
            old_filter
            for old_filter in REQUEST_LOG.filters
            if isinstance(old_filter, RequestErrors)
        ]:
            REQUEST_LOG.removeFilter(old)
        REQUEST_LOG.addFilter(RequestErrors())
        super().__init__(
            application,
            access_log=None,
            logger=REQUEST_LOG,
            keepalive_timeout=HEAD_SECONDS,
            max_line_size=LARGEST_LINE,
            max_field_size=LARGEST_HEADER,
            max_headers=MOST_HEADERS,
        )

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=partial(_below, self._path, made.request_factory),
            loop=made._loop,
            **made._kwargs,
        )
