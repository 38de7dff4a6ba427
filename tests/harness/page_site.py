"""A worker's web pages on a state that a test makes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from tests.harness.bodies import BODY
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import FakeState
from worker.events import Message
from worker.events.json_codec import encode
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.processing.entity_view import NoFacets
from worker.settings import Settings
from worker.stream.feed import ChangeFeed
from worker.stream.surroundings import Threads
from worker.telemetry.metrics import Metrics
from worker.web.page import add_widget, install_page
from worker.web.page.history import ChangeHistory, NoHistory
from worker.web.routes import add_pages


def change(key: str, value: bytes | None = None) -> Message:
    return Message("out", 0, key.encode(), encode(BODY) if value is None else value, [])


class FakeHistory:
    """A history of which everything can be chosen."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.fails = False

    async def read(
        self, entity_id: str, before: int | None, kind: OutputTopic = SUMMARIES
    ) -> ChangeHistory:
        self.asked.append((entity_id, before))
        if self.fails:
            raise NoFacets if kind is FACETS else NoHistory("there is no topic out")
        return ChangeHistory([], 17, 3000)


class Site:
    """One worker with its page."""

    def __init__(self) -> None:
        self.state: Any = FakeState()
        self.state.owner = (True, None)
        self.state.others = dict
        self.feed = ChangeFeed("out", "facets", Threads())
        self.history = FakeHistory()
        self.has_page = True
        self.origins: set[str] = set()
        self.review_url = ""

    def application(self, path: str = "") -> web.Application:
        """What is served, if its Runner has this path."""
        application, history = web.Application(), cast(Any, self.history)
        origins = ",".join(self.origins) or None
        settings = Settings(web_page=self.has_page, web_path=path, web_origins=origins)
        pages = add_pages(application, self.state, Metrics(), settings)
        add_widget(application, self.review_url)
        if self.has_page:
            install_page(application, self.state, pages, self.feed, history)
        return application


def served(
    work: Callable[[TestClient[Any, Any], TestServer], Awaitable[None]], *sites: Site
) -> None:
    """Do something with the first of these workers, all of them running; the second one's server is
    given.
    """

    async def run() -> None:
        servers = [TestServer(site.application()) for site in sites]
        for server in servers:
            await server.start_server()
        async with TestClient(servers[0]) as client:
            await work(client, servers[-1])
        for server in servers[1:]:
            await server.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def get(site: Site, *paths: str) -> list[tuple[int, Any, Any]]:
    """Status, headers and body of each path, asked for as it is written."""
    answers: list[tuple[int, Any, Any]] = []

    async def ask(client: TestClient[Any, Any], _: TestServer) -> None:
        for path in paths:
            url = URL(f"{client.make_url('/')}".rstrip("/") + path, encoded=True)
            async with client.session.get(url, allow_redirects=False) as answer:
                body = await (answer.json() if "json" in answer.content_type else answer.text())
                answers.append((answer.status, answer.headers, body))

    served(ask, site)
    return answers
