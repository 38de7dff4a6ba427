"""Server-sent events to one browser: from the watchers here, or passed on from the worker that has the entity."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from worker.page.watchers import Watcher

QUIET_SECONDS: Final = 5.0
"""After so long without a change a line goes out that says nothing: a browser that is gone is found out about."""
SLOW_SECONDS: Final = 10.0
"""Who does not take a frame for so long is dropped; it comes again by itself."""
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}
HELLO: Final = b"retry: 1000\nevent: hello\ndata: {}\n\n"
_QUIET: Final = b":\n\n"


async def stream(request: web.Request, frames: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send frames as they come, until there are no more or the browser takes them no longer."""
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        await response.write(HELLO)
        async for frame in frames:
            async with asyncio.timeout(SLOW_SECONDS):
                await response.write(frame)
    except (TimeoutError, ConnectionError):
        _drop(request)
    return response


def _drop(request: web.Request) -> None:
    """What it has not taken is thrown away with the connection."""
    if request.transport is not None:
        request.transport.abort()


async def watched(watcher: Watcher, is_here: Callable[[], bool]) -> AsyncIterator[bytes]:
    """What a watcher is told, until its entity goes to another worker."""
    while is_here():
        frame = await watcher.next(QUIET_SECONDS)
        if frame is None:
            return
        yield frame or _QUIET
