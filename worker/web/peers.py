"""HTTP client for other workers, for the live page (`Peers`) and for commands (`ask`).

Addresses come from the members of the group, so answers are bounded, and no redirect is followed.
Both send the token of this process's settings, and trust its CA certificates.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlencode

import msgspec
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

from worker.credentials.files import client_context
from worker.settings import Settings
from worker.settings.kinds import host_port

ANSWER_SECONDS: Final = 25.0  # longer than a worker needs to answer that it is busy
COMMAND_SECONDS: Final = 30.0
PAGE_SECONDS: Final = 3.0
CONNECT_SECONDS: Final = 2.0
QUIET_SECONDS: Final = 20.0
"""Longest silence of a stream, which sends a line every few seconds, before it counts as ended."""
NO_WORKER: Final = "the server at this address is not a worker"
LARGEST_ANSWER: Final = 64 * 2**20
Query: TypeAlias = Mapping[str, str | int | None]


class PeerUnreachable(Exception):
    """A worker does not answer, or a server that is no worker; the message says why."""


class PeerAnswer(NamedTuple):
    """An answer of another worker."""

    status: int  # of HTTP
    body: bytes  # as it was received
    retry_after: str | None = None  # seconds, if the worker says them

    def json(self) -> Any:
        """The body. Raises PeerUnreachable if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PeerUnreachable(NO_WORKER) from error

    @property
    def fields(self) -> dict[str, Any]:
        """The body; empty if it is not a JSON object."""
        try:
            value = self.json()
        except PeerUnreachable:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def error(self) -> str:
        """Why the worker refused, in its own words."""
        body = self.fields
        return str(body.get("error") or body.get("reason") or f"status {self.status}")


class Peers:
    """Asks other workers from an event loop; `close` it at the end.

    With `is_command` it uses the proxies that the environment names. Raises SetupError.
    """

    def __init__(self, settings: Settings, *, is_command: bool = False) -> None:
        self._token = settings.web_token and settings.web_token.split(",")[0]
        self._tls, self._is_command = client_context(settings), is_command
        self._session: ClientSession | None = None

    async def ask(
        self,
        url: str,
        seconds: float = ANSWER_SECONDS,
        connect_seconds: float | None = CONNECT_SECONDS,
        *,
        client: str | None = None,
    ) -> PeerAnswer:
        """The answer at an address, for a client at another. Raises PeerUnreachable."""
        timeout = ClientTimeout(total=seconds, sock_connect=connect_seconds)
        try:
            async with self._get(url, timeout, client) as answer:
                again = answer.headers.get("Retry-After")
                return PeerAnswer(answer.status, await _bounded(answer), again)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise PeerUnreachable(_reason(error)) from error

    @asynccontextmanager
    async def frames(
        self, url: str, client: str | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The events of a stream as they come. Raises PeerUnreachable if there is none."""
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=QUIET_SECONDS)
        try:
            async with self._get(url, timeout, client) as answer:
                if answer.status != 200 or answer.content_type != "text/event-stream":
                    raise PeerUnreachable(f"it answers {answer.status}")
                yield _pieces(answer)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise PeerUnreachable(_reason(error)) from error

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _get(self, url: str, timeout: ClientTimeout, client: str | None) -> Any:
        if not url.startswith(("http://", "https://")):
            raise PeerUnreachable(f"{url} is not a URL")
        if self._session is None:
            # No limit of connections: streams would keep all, and requests would wait forever.
            self._session = ClientSession(
                connector=TCPConnector(limit=0),
                cookie_jar=DummyCookieJar(),
                trust_env=self._is_command,
            )
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        return self._session.get(
            URL(url, encoded=True),
            timeout=timeout,
            allow_redirects=False,
            ssl=True if self._tls is None else self._tls.current(),
            headers=headers if client is None else {**headers, "X-Forwarded-For": client},
        )


def ask(
    url: str,
    path: str,
    query: Query | None = None,
    timeout: float = COMMAND_SECONDS,
) -> PeerAnswer:
    """A worker's answer, for a command; blocks. Leaves out None. Raises PeerUnreachable."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    address = f"{url.rstrip('/')}{path}{'?' if given else ''}{urlencode(given)}"
    return asyncio.run(_ask_once(address, timeout))


async def _ask_once(address: str, seconds: float) -> PeerAnswer:
    peers = Peers(Settings.from_environment(), is_command=True)
    try:
        return await peers.ask(address, seconds, connect_seconds=None)
    finally:
        await peers.close()


async def _bounded(answer: ClientResponse) -> bytes:
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise PeerUnreachable(f"its answer is larger than {LARGEST_ANSWER >> 20} MiB")
    return bytes(body)


async def _pieces(answer: ClientResponse) -> AsyncIterator[bytes]:
    """Ends when the other worker does or is gone: the browser connects again in both cases."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (ClientError, TimeoutError, OSError):
        return


def _reason(error: BaseException) -> str:
    if isinstance(error, ClientConnectorError) and not isinstance(error, ClientSSLError):
        code = error.errno or 0
        why = os.strerror(code) if code > 0 else error.os_error.strerror  # of names below 0
        return f"{host_port(error.host, error.port or 80)}: {why or error.os_error}"
    return "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
