"""The worker's web server: health, readiness, metrics and summaries.

Faust's own server on the worker's event loop, read-only and without Faust's pages. The port is
bound before the worker joins its group. An answer of `/healthz` proves that the event loop runs.

docs/reference/http.md lists the addresses. Clients remove the ids `.` and `..` from paths:
/entities//summary?id=..

`worker.web.server` checks the request and removes the prefix of its path, `worker.web.admission`
checks tokens and limits.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import ssl
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec
import numpy as np
from aiohttp import web
from faust.web.drivers.aiohttp import Web

from worker.processing.ask import Question, Vector, WrongVector, question_of
from worker.processing.entity_view import (
    KINDS,
    EntityView,
    Extent,
    NoFacets,
    UnknownLanguage,
    View,
)
from worker.processing.trend import Trend
from worker.settings import Settings
from worker.state.listing import LONGEST_LIKE, LONGEST_PAGE, EntitySearch
from worker.stream.faust import FAUST_LOG
from worker.stream.queries import NotHere, TooManyQuestions
from worker.stream.status import WorkerStatus
from worker.telemetry.metrics import CONTENT_TYPE, Metrics
from worker.web.admission import CLIENT, admission
from worker.web.peers import NO_WORKER, Peers, PeerUnreachable
from worker.web.server import (
    Runner,
    allowed_hosts,
    bind,
    error,
    known_host,
    probes_first,
    read_only,
    unknown_path,
    utf8_query,
)

PREFIX: Final = "/entities/"
SUFFIX: Final = "/summary"
FACETS: Final = "/facets"
ASK: Final = "/ask"
TREND: Final = "/trend"
DOTS: Final = (".", "..")  # ids that clients remove from a path, percent-encoded or not
ANSWER_SECONDS: Final = 20
HERE: Final = "here"
"""In the query of a request that another worker relays: this worker must not relay it again."""
RELAYED: Final = (200, 400, 404, 429, 503)  # statuses of other workers that are handed on
PAGE_SECONDS: Final = 0.05  # to search for a page of entities, on the processor of the stream
_INDEX: Final = (
    "coversumm-worker\n\n/healthz\n/readyz\n/metrics\n/status\n/entities\n/entities/ID/summary\n"
    "/entities/ID/facets\n/entities/ID/ask\n/entities/ID/trend\n"
)


class WorkerWeb(Web):  # type: ignore[misc]
    """Faust's web server on a bound socket, without Faust's pages."""

    logger = FAUST_LOG

    default_blueprints = production_blueprints = debug_blueprints = optional_blueprints = ()

    def __init__(
        self, app: Any, bound: socket.socket, path: str, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(app)
        self._runner = Runner(self.web_app, path)
        self._bound, self._tls = bound, tls

    def _create_site(self) -> web.BaseSite:
        return web.SockSite(self._runner, self._bound, shutdown_timeout=1.0, ssl_context=self._tls)


def install_web(app: Any, path: str = "", tls: ssl.SSLContext | None = None) -> web.Application:
    """Serve an application on the app's `web_bind` and `web_port`, also below `path`.

    Raises SetupError.
    """
    app.web = WorkerWeb(app, bind(app.conf.web_bind, app.conf.web_port), path, tls)
    application: web.Application = app.web.web_app
    return application


def add_pages(
    application: web.Application, worker: WorkerStatus, metrics: Metrics, settings: Settings
) -> Pages:
    """Add the worker's pages to an application; the root is an index without the live page."""
    hosts, path = known_host(allowed_hosts(settings)), settings.web_path
    application.middlewares.extend([probes_first, unknown_path, hosts])
    application.middlewares.extend([*admission(settings), read_only, utf8_query])
    origins = frozenset((settings.web_origins or "").split(",")) - {""}
    pages = Pages(worker, metrics, Peers(settings), origins)

    async def add_slash(_request: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": f"{path}/"})

    if path:  # of which links need a slash at the end
        application.router.add_get(path, add_slash)
    if not settings.web_page:
        application.router.add_get("/", pages.index)
    application.router.add_get("/healthz", pages.healthz)
    application.router.add_get("/readyz", pages.readyz)
    application.router.add_get("/metrics", pages.metrics)
    application.router.add_get("/status", pages.status)
    application.router.add_get("/entities", pages.entities)
    for suffix in (SUFFIX, FACETS, ASK, TREND):
        application.router.add_get(f"{PREFIX}{{id:(?s:.*)}}{suffix}", partial(pages.view, suffix))

    async def close_connections(_application: web.Application) -> None:
        await pages.peers.close()

    application.on_cleanup.append(close_connections)
    return pages


@dataclass(frozen=True, slots=True)
class Pages:
    """The handlers."""

    worker: WorkerStatus
    counters: Metrics
    peers: Peers
    origins: frozenset[str]  # whose web pages may read entities; `*`: all

    async def index(self, _request: web.Request) -> web.Response:
        """The addresses."""
        return web.Response(text=_INDEX)

    async def healthz(self, _request: web.Request) -> web.Response:
        """The event loop lives."""
        return web.json_response({"healthy": True, "waiting_for": self.worker.stall()})

    async def readyz(self, _request: web.Request) -> web.Response:
        """Readiness: the worker processes its partitions."""
        ready, reason = self.worker.ready()
        return web.json_response({"ready": ready, "reason": reason}, status=200 if ready else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Metrics for Prometheus."""
        page = self.counters.page(self.worker)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})

    async def status(self, _request: web.Request) -> web.Response:
        """The worker's state, for `coversumm-worker status`."""
        return web.json_response(self.worker.describe())

    async def entities(self, request: web.Request) -> web.Response:
        """A page of this worker's entities, where to continue, and the owners of the others."""
        try:
            search, limit = search_of(request.query)
        except ValueError as wrong:
            return error(400, str(wrong))
        ready, reason = self.worker.ready()
        if not ready:
            return error(503, reason)
        partitions = sorted(self.worker.lag())
        try:
            page = await asyncio.wait_for(
                self.worker.entities(partitions, search, limit, PAGE_SECONDS), ANSWER_SECONDS
            )
        except TimeoutError:
            return error(503, "the worker is busy")
        except NotHere:
            return error(503, "a partition is being handed over")
        body = {**asdict(page), "partitions": partitions, "others": self.worker.others()}
        return json_answer(body)

    async def view(self, suffix: str, request: web.Request) -> web.Response:
        """A view of an entity, from the worker that has it."""
        answer = await self._view(id_between(request, PREFIX, suffix), request, suffix)
        if "*" in self.origins:
            answer.headers["Access-Control-Allow-Origin"] = "*"
        elif self.origins:
            answer.headers["Vary"] = "Origin"
            if (origin := request.headers.get("Origin")) in self.origins:
                answer.headers["Access-Control-Allow-Origin"] = origin
        return answer

    async def _view(self, entity_id: str, request: web.Request, suffix: str) -> web.Response:
        """The view that `suffix` and the query ask for."""
        try:
            read = _reader(request.query, suffix)
        except ValueError as wrong:
            return error(400, str(wrong))
        ready, reason = self.worker.ready()
        if not ready:
            return error(503, reason)
        is_here, url = self.worker.owner_of(entity_id)
        if not is_here:
            if url is None:
                return error(503, "no worker is known to own the entity's partition")
            if HERE in request.query:
                return error(503, "the entity's partition is being handed over")
            query = f"{request.rel_url.raw_query_string}&{HERE}=1".lstrip("&")
            path = path_of(entity_id, PREFIX, suffix, query)
            return await self._relayed(url.rstrip("/") + path, request.get(CLIENT))
        try:
            found = await asyncio.wait_for(read(self.worker, entity_id), ANSWER_SECONDS)
        except TimeoutError:
            return error(503, "the worker is busy")
        except NotHere:
            return error(503, "the entity's partition is being handed over")
        except TooManyQuestions as why:
            again = {"Retry-After": str(math.ceil(why.seconds))}
            return error(429, "too many questions are asked of this worker", again)
        except (NoFacets, UnknownLanguage, WrongVector) as why:
            return error(400, str(why))
        if found is None and (late := self.worker.not_yet(entity_id)):
            return error(503, late)
        if found is None:
            return error(404, "there is no such entity; /entities?near=ID names similar ids")
        return json_answer(found)

    async def _relayed(self, url: str, client: str | None) -> web.Response:
        """The answer of another worker; 503 if no worker gives such answers."""
        try:
            answer = await self.peers.ask(url, client=client)
            answer.json()
            if answer.status not in RELAYED:
                raise PeerUnreachable(answer.error if answer.status == 401 else NO_WORKER)
        except PeerUnreachable as why:
            return error(503, f"the worker that has the entity does not answer: {why}")
        again = {} if answer.retry_after is None else {"Retry-After": answer.retry_after}
        return web.Response(
            body=answer.body,
            status=answer.status,
            content_type="application/json",
            charset="utf-8",
            headers={"X-Content-Type-Options": "nosniff"} | again,
        )


def id_between(request: web.Request, prefix: str, suffix: str) -> str:
    """The id in a path, which the router decodes in part. Raises HTTPBadRequest if not UTF-8."""
    encoded = request.rel_url.raw_path.removeprefix(prefix).removesuffix(suffix)
    try:
        return unquote_to_bytes(encoded).decode() or request.query.get("id", "")
    except UnicodeError:
        body = json.dumps({"error": "the entity id is not UTF-8"})
        raise web.HTTPBadRequest(text=body, content_type="application/json") from None


def path_of(entity_id: str, prefix: str, suffix: str, query: str = "") -> str:
    """The path and query of an entity, as `id_between` reads them; safe for ids of dots."""
    if entity_id in DOTS:
        names = "&".join(part for part in query.split("&") if part and not part.startswith("id="))
        return f"{prefix}{suffix}?id={entity_id}" + (f"&{names}" if names else "")
    return f"{prefix}{quote(entity_id, safe='')}{suffix}" + (f"?{query}" if query else "")


def search_of(query: Mapping[str, str]) -> tuple[EntitySearch, int]:
    """The search and the limit. Raises ValueError with a message for the client."""
    limit = query.get("limit", "100")
    if not (re.fullmatch("[0-9]{1,9}", limit) and 1 <= int(limit) <= LONGEST_PAGE):
        raise ValueError(f"limit is a number from 1 to {LONGEST_PAGE}")
    order, near = query.get("order", "id"), query.get("near")
    if order not in ("id", "reviews"):
        raise ValueError("order is id or reviews")
    if near is not None and ("order" in query or len(near) > LONGEST_LIKE):
        raise ValueError(f"near is an id of at most {LONGEST_LIKE} characters, without order")
    words = query.get("prefix", ""), query.get("contains", "")
    return EntitySearch(*words, query.get("after"), order == "reviews", near), int(limit)


Read: TypeAlias = Callable[[WorkerStatus, str], Awaitable[EntityView | None]]
"""Reads a view of an entity of this id."""


def _reader(query: Mapping[str, str], suffix: str) -> Read:
    """Read what a request asks for. Raises ValueError with a message."""
    if suffix == ASK:
        question, vector = _question(query), _vector(query)
        return lambda worker, entity_id: worker.ask(entity_id, question, vector)
    if suffix == TREND:
        trend = Trend(query.get("by", "month"))
        return lambda worker, entity_id: worker.view(entity_id, trend)
    kind, extent = _kind_and_extent(query, "set" if suffix == SUFFIX else "facets")
    return lambda worker, entity_id: worker.view(entity_id, kind, extent)


def _question(query: Mapping[str, str]) -> Question:
    text = query.get("q", "")
    if not (text.strip() or "vector" in query):
        raise ValueError("q is missing: the question, such as q=Is+it+quiet+at+night")
    return question_of(text, query)


def _vector(query: Mapping[str, str]) -> Vector | None:
    """The embedding of a question, as events have it."""
    given = query.get("vector")
    if given is None:
        return None
    try:
        return np.frombuffer(b64decode(given, validate=True), "<f4")
    except ValueError:
        raise ValueError("vector is base64 of float32, little-endian") from None


def _kind_and_extent(query: Mapping[str, str], default: str) -> tuple[type[View], Extent | None]:
    """The view and its extent in a request; None as extent for views without limits. Raises
    ValueError with a message.
    """
    name = query.get("view", default)
    if name not in KINDS:
        raise ValueError("view is set, short, facets or overview")
    language = query.get("language")
    if language is not None and name in ("set", "short"):
        raise ValueError("language is for the views facets and overview")
    if name in ("set", "facets"):
        return KINDS[name], None if language is None else Extent(language=language)
    numbers = {item: _number(item, query[item]) for item in ("sentences", "words") if item in query}
    threshold = query.get("threshold")
    if threshold is None:
        return KINDS[name], Extent(**numbers, language=language)
    if not re.fullmatch(r"0(\.[0-9]{1,9})?", threshold):
        raise ValueError("threshold is a number like 0.8, from 0 up to, but not including, 1")
    return KINDS[name], Extent(**numbers, threshold=float(threshold), language=language)


def _number(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise ValueError(f"{name} is a whole number")
    return int(value)


def json_answer(value: Any) -> web.Response:
    """A value as JSON."""
    return web.Response(
        body=msgspec.json.encode(value), content_type="application/json", charset="utf-8"
    )
