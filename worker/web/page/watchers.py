"""Open pages that follow changes, and the streams of events to them.

All pages that follow the same get the same bytes, at most twice a second. A watcher buffers one
frame. If the browser has not taken it when the next one comes, the frame is dropped and the browser
is notified: a slow browser skips frames, and no buffer grows.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec
from aiohttp import web

from worker.events import Message, SummaryChanged
from worker.events.codec import decode_change
from worker.events.json_row import to_json
from worker.events.outputs import FacetsChanged
from worker.stream.feed import ChangeFeed

MOST_WATCHERS: Final = 200
BEAT_SECONDS: Final = 0.5
FRAMES_A_SECOND: Final = 100  # to all watchers together: the cost does not grow with their number
SHOWN_CHARACTERS: Final = 240  # of a sentence in the list of recent changes
SKIPPED: Final = b"event: skipped\ndata: {}\n\n"


class TooManyWatchers(Exception):
    """There are `MOST_WATCHERS` already."""


@dataclass(eq=False)
class Watcher:
    """One browser that follows an entity by its key, or everything if the key is None."""

    key: bytes | None
    _frame: bytes | None = None
    _has_skipped: bool = False
    _is_over: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, frame: bytes) -> None:
        """Buffer the next frame in place of one that was not taken."""
        self._has_skipped = self._has_skipped or self._frame is not None
        self._frame = frame
        self._news.set()

    def end(self) -> None:
        """No more frames will come."""
        self._is_over = True
        self._news.set()

    async def next(self, seconds: float) -> bytes | None:
        """The next frame; empty after a timeout, None at the end."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return b""
        self._news.clear()
        if self._is_over:
            return None
        frame = (SKIPPED if self._has_skipped else b"") + (self._frame or b"")
        self._frame, self._has_skipped = None, False
        return frame


@dataclass(eq=False)
class Watchers:
    """All watchers; not thread-safe."""

    feed: ChangeFeed
    _all: set[Watcher] = field(default_factory=set)
    _beating: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._all)

    @contextmanager
    def one_more(self, key: bytes | None) -> Iterator[Watcher]:
        """A watcher until the end of the block. Raises TooManyWatchers."""
        if len(self._all) >= MOST_WATCHERS:
            raise TooManyWatchers
        watcher = Watcher(key)
        self._all.add(watcher)
        self._subscribe()
        if key is None and (latest := self.feed.latest()):
            watcher.offer(_overview(0, latest))
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._beat())
        try:
            yield watcher
        finally:
            self._all.discard(watcher)
            self._subscribe()

    def close(self) -> None:
        """End all streams."""
        for watcher in self._all:
            watcher.end()

    def _subscribe(self) -> None:
        keys = {watcher.key for watcher in self._all} - {None}
        self.feed.subscribe([key for key in keys if key is not None] if self._all else None)

    async def _beat(self) -> None:
        try:
            while self._all:
                await asyncio.sleep(max(BEAT_SECONDS, len(self._all) / FRAMES_A_SECOND))
                self._offer_frames()
        finally:
            self._beating = None

    def _offer_frames(self) -> None:
        lately = self.feed.take()
        is_wanted = lately.changes and any(watcher.key is None for watcher in self._all)
        everything = _overview(lately.changes, lately.last) if is_wanted else None
        frames = {
            key: _of_one("change", lately.watched.get(key))
            + _of_one("facets", lately.facets.get(key))
            for key in lately.watched.keys() | lately.facets.keys()
        }
        for watcher in self._all:
            frame = everything if watcher.key is None else frames.get(watcher.key)
            if frame is not None:
                watcher.offer(frame)


def _overview(count: int, messages: Iterable[Message]) -> bytes:
    """The number of new changes, and the last ones in short; 0 for those before a stream."""
    body = {"count": count, "changes": [_in_short(message) for message in messages]}
    return _frame("changes", msgspec.json.encode(body))


def _in_short(message: Message) -> dict[str, object]:
    entity_id = (message.key or b"").decode()
    if message.value is None:
        return {"entity_id": entity_id, "deleted": True}
    body = decode_change(message.value)
    subject, text = _subject(body) if isinstance(body, FacetsChanged) else ("", _first_added(body))
    return {
        "entity_id": entity_id,
        "deleted": False,
        "sequence": body.sequence,
        "subject": subject,
        "text": text and text[:SHOWN_CHARACTERS],
        "review_count": body.review_count,
        "sentence_count": body.sentence_count,
    }


def _first_added(body: SummaryChanged) -> str | None:
    added = set(body.added)
    return next((quote.text for quote in body.sentences if quote.sentence_id in added), None)


def _subject(body: FacetsChanged) -> tuple[str, str | None]:
    """The first changed facet with a sentence of the review that caused the change, and that
    sentence; without any the changed facets.
    """
    review = body.cause.review_id
    for facet in body.facets:
        for sentence in facet.sentences if facet.name in body.changed else ():
            if sentence.review_id == review:
                return facet.label, sentence.text
    return ", ".join(body.changed), None


def _of_one(event: str, latest: tuple[int, list[Message]] | None) -> bytes:
    """The last changes of one entity in JSON; a tombstone is null."""
    count, messages = latest or (0, [])
    skipped = SKIPPED if count > len(messages) else b""
    return skipped + b"".join(
        _frame(event, to_json(message.value) if message.value else b"null") for message in messages
    )


def _frame(event: str, data: bytes) -> bytes:
    # data is JSON and has no line breaks
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)


QUIET_SECONDS: Final = 2.0
"""Time without a change after which an empty event is sent, by which the page detects silence."""
SLOW_SECONDS: Final = 10.0  # time to take a frame before a browser is disconnected; it reconnects
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}
HELLO: Final = b"retry: 1000\nevent: hello\ndata: {}\n\n"
QUIET: Final = b"event: quiet\ndata: {}\n\n"


async def stream(request: web.Request, frames: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send frames until their end, or until the browser stops reading."""
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
        if request.transport is not None:
            request.transport.abort()  # without sending what is buffered
    return response


async def watched(watcher: Watcher, is_here: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The frames of a watcher, until its entity moves to another worker."""
    while is_here():
        frame = await watcher.next(QUIET_SECONDS)
        if frame is None:
            return
        yield frame or QUIET
