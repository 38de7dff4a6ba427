"""The page's addresses. All answers but files and streams are JSON, errors `{"error": "..."}`.

docs/reference/http.md lists them. The ids `.` and `..` go into the query, see `worker.web.routes`.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from typing import Final

import msgspec
from aiohttp import ETag, web

from worker.events import publishing
from worker.processing.entity_view import NoFacets
from worker.state.listing import Page, merged
from worker.stream.feed import ChangeFeed
from worker.stream.status import WorkerStatus
from worker.web.admission import CLIENT
from worker.web.page.history import NoHistory, RecentHistory
from worker.web.page.watchers import (
    HELLO,
    MOST_WATCHERS,
    TooManyWatchers,
    Watchers,
    stream,
    watched,
)
from worker.web.peers import NO_WORKER, PAGE_SECONDS, PeerUnreachable
from worker.web.routes import (
    ANSWER_SECONDS,
    HERE,
    PREFIX,
    Pages,
    id_between,
    json_answer,
    path_of,
    search_of,
)
from worker.web.server import error

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
    "'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


_STATIC: Final = files(__package__).joinpath("static")
_WIDGET: Final = "widget.js"


def add_widget(application: web.Application, review_url: str) -> None:
    """Serve the widget to pages of all origins; `review_url` is where it finds reviews."""
    text = _STATIC.joinpath(_WIDGET).read_text("utf-8")
    text = re.sub(r"\n\s*(//.*)?", "\n", text)  # each page loads it: without comments and indents
    text = text.replace('REVIEW_URL = ""', f"REVIEW_URL = {json.dumps(review_url)}")
    headers = HEADERS | {
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Access-Control-Allow-Origin": "*",  # for `integrity`, which needs `crossorigin`
    }
    body, kind = text.encode(), _KINDS[".js"]
    application.router.add_get(f"/{_WIDGET}", partial(_file, body, kind, headers))


def add_files(application: web.Application) -> None:
    """Serve the page at the root and its files below /page. Files are read once."""
    for file in _STATIC.iterdir():
        if file.name == _WIDGET:
            continue
        kind = _KINDS[PurePath(file.name).suffix]
        path = "/" if kind == "text/html" else f"/page/{file.name}"
        application.router.add_get(path, partial(_file, file.read_bytes(), kind, HEADERS))


async def _file(
    body: bytes, kind: str, headers: Mapping[str, str], request: web.Request
) -> web.Response:
    """The file, or 304 if the browser has it already."""
    tag = ETag(hashlib.blake2b(body, digest_size=12).hexdigest())
    if any(known.value in (tag.value, "*") for known in request.if_none_match or ()):
        answer = web.Response(status=304, headers=headers)
    else:
        answer = web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)
    answer.etag = tag
    return answer


PAGE: Final = "/page"
ENTITY: Final = PAGE + PREFIX
_STREAM: Final = "/changes"
_HISTORY: Final = "/history"
MOST_SHOWN: Final = 500  # characters of another worker's message


def install_page(
    application: web.Application,
    worker: WorkerStatus,
    pages: Pages,
    feed: ChangeFeed,
    history: RecentHistory,
) -> None:
    """Add the page to the worker's web server beside its other pages."""
    watchers = Watchers(feed)
    routes = Routes(worker, pages, watchers, history)
    add_files(application)
    add = application.router.add_get
    add(f"{PAGE}/status", pages.status)
    add(f"{PAGE}/entities", routes.entities)
    add(f"{PAGE}/changes", routes.changes)
    add(f"{ENTITY}{{id:(?s:.*)}}{_HISTORY}", routes.history)
    add(f"{ENTITY}{{id:(?s:.*)}}{_STREAM}", routes.changes_of)

    async def end_streams(_application: web.Application) -> None:
        watchers.close()

    application.on_shutdown.append(end_streams)


@dataclass(slots=True)
class Routes:
    """The handlers."""

    worker: WorkerStatus
    pages: Pages
    watchers: Watchers
    history_of: RecentHistory
    relayed: int = 0  # streams of other workers

    async def entities(self, request: web.Request) -> web.Response:
        """A page of all entities; the other workers are asked concurrently."""
        own = await self.pages.entities(request)
        if own.status != 200:
            return own
        assert isinstance(own.body, bytes)
        found = msgspec.json.decode(own.body)
        workers = list(found["others"].items())
        query = f"?{request.rel_url.raw_query_string}"
        answers = await asyncio.gather(
            *(self._page_of(url + "/entities" + query, request.get(CLIENT)) for url, _ in workers)
        )
        pages, missing = [msgspec.convert(found, Page)], []
        for (url, partitions), answer in zip(workers, answers, strict=True):
            if isinstance(answer, str):
                missing.append({"url": url, "partitions": partitions, "why": answer})
            else:
                pages.append(answer)
        # This worker's own answer has checked the query.
        search, limit = search_of(request.query)
        page = merged(pages, limit, search.rank())
        return json_answer({**asdict(page), "missing": missing})

    async def _page_of(self, url: str, client: str | None) -> Page | str:
        """Another worker's page, or the reason why there is none."""
        try:
            answer = await self.pages.peers.ask(url, PAGE_SECONDS, client=client)
            body = answer.json()
            if answer.status == 200:
                return msgspec.convert(body, Page)
            return str(body["error"])[:MOST_SHOWN]
        except PeerUnreachable as why:
            return str(why)
        except (KeyError, TypeError, msgspec.ValidationError):
            return NO_WORKER

    async def history(self, request: web.Request) -> web.Response:
        """The entity's last changes."""
        before = request.query.get("before")
        if before is not None and not re.fullmatch("[0-9]{1,18}", before):
            return error(400, "before is an offset")
        entity_id = id_between(request, ENTITY, _HISTORY)
        try:
            is_summary = request.query.get("facets") != "1"
            kind = publishing.SUMMARIES if is_summary else publishing.FACETS
            read = self.history_of.read(entity_id, None if before is None else int(before), kind)
            return json_answer(asdict(await asyncio.wait_for(read, ANSWER_SECONDS)))
        except NoFacets as why:
            return error(400, str(why))
        except NoHistory as why:
            return error(503, str(why))
        except TimeoutError:
            return error(
                503, "the history takes too long to read: the brokers or this worker are busy"
            )

    async def changes(self, request: web.Request) -> web.StreamResponse:
        """A stream of the changes at this worker."""
        return await self._follow(request, None, lambda: True)

    async def changes_of(self, request: web.Request) -> web.StreamResponse:
        """A stream of the entity's changes from the worker that has it."""
        entity_id = id_between(request, ENTITY, _STREAM)
        if not entity_id:
            return error(404, "there is no such entity")
        if self.relayed + len(self.watchers) >= MOST_WATCHERS:
            return _too_many()
        is_here, url = self.worker.owner_of(entity_id)
        if is_here:
            return await self._follow(
                request, entity_id.encode(), lambda: self.worker.owner_of(entity_id)[0]
            )
        if url is None or HERE in request.query:
            return error(503, "no worker is known to own the entity's partition")
        self.relayed += 1
        try:
            path = path_of(entity_id, ENTITY, _STREAM, f"{HERE}=1")
            peer = self.pages.peers.frames(url.rstrip("/") + path, request.get(CLIENT))
            async with peer as frames:
                return await stream(request, _after_hello(frames))
        except PeerUnreachable as why:
            return error(503, f"the worker that has the entity does not answer: {why}")
        finally:
            self.relayed -= 1

    async def _follow(
        self, request: web.Request, key: bytes | None, is_here: Callable[[], bool]
    ) -> web.StreamResponse:
        try:
            with self.watchers.one_more(key) as watcher:
                return await stream(request, watched(watcher, is_here))
        except TooManyWatchers:
            return _too_many()


async def _after_hello(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream of another worker without its first frame, which this worker has sent."""
    seen = b""
    async for piece in frames:
        if len(seen) < len(HELLO):
            seen += piece
            piece = seen[len(HELLO) :]
        if piece:
            yield piece


def _too_many() -> web.Response:
    return error(503, f"{MOST_WATCHERS} pages are open already: close one")
