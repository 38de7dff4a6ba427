"""What other workers answer, asked for by this one: their addresses come from the group, and a
browser need not reach them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    web,
)
from yarl import URL

ANSWER_SECONDS: Final = 25.0
"""More than a worker takes to say that it is busy."""
PAGE_SECONDS: Final = 3.0
CONNECT_SECONDS: Final = 2.0
QUIET_SECONDS: Final = 20.0
"""A stream that says nothing for so long, not even that there is nothing, is over."""
NO_WORKER: Final = "what answers there is no worker"
LARGEST_ANSWER: Final = 64 * 2**20


class PeerUnreachable(Exception):
    """A worker that should have what is asked for does not answer."""


class PeerAnswer(NamedTuple):
    """Status and JSON of another worker."""

    status: int
    body: bytes

    def json(self) -> Any:
        """What it says. Raises PeerUnreachable where it is no JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PeerUnreachable(NO_WORKER) from error


class Others:
    """Asks other workers; `close` when the worker stops."""

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    async def ask(self, url: str, seconds: float = ANSWER_SECONDS) -> PeerAnswer:
        """What a worker answers at this address. Raises PeerUnreachable."""
        try:
            async with self._get(
                url, ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
            ) as answer:
                return PeerAnswer(answer.status, await _all_of(answer))
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise PeerUnreachable(_told(error)) from error

    @asynccontextmanager
    async def frames(self, url: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The events that a worker streams there, as they come. Raises PeerUnreachable where it streams
        none.
        """
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=QUIET_SECONDS)
        try:
            async with self._get(url, timeout) as answer:
                if answer.status != 200 or answer.content_type != "text/event-stream":
                    raise PeerUnreachable(f"it answers {answer.status}")
                yield _pieces(answer)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise PeerUnreachable(_told(error)) from error

    async def close(self, _application: web.Application | None = None) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()

    def _get(self, url: str, timeout: ClientTimeout) -> Any:
        if self._session is None:
            # As many as pages look on: streams would else keep all connections, and questions wait
            # for ever.
            self._session = ClientSession(
                connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar()
            )
        return self._session.get(URL(url, encoded=True), timeout=timeout, allow_redirects=False)


async def _all_of(answer: ClientResponse) -> bytes:
    """The body. Raises PeerUnreachable where it is larger than any of a worker."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise PeerUnreachable(f"its answer is larger than {LARGEST_ANSWER >> 20} MiB")
    return bytes(body)


async def _pieces(answer: ClientResponse) -> AsyncIterator[bytes]:
    """Until the other worker ends it, or is gone: the browser comes again either way."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (ClientError, TimeoutError, OSError):
        return


def _told(error: BaseException) -> str:
    return "it does not answer in time" if isinstance(error, asyncio.TimeoutError) else str(error)
