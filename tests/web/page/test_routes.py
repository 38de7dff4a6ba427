"""What the page's addresses answer: of this worker, of others that answer or do not, and to whoever
is hostile.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from aiohttp.test_utils import TestClient, TestServer

from tests.harness.eventually import eventually_here
from tests.harness.page_site import Site, change, get, served
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import VIEW
from worker.published.history import PublishedChange
from worker.state.listing import ListedEntity, Page
from worker.web import peers
from worker.web.page import watchers
from worker.web.page import watchers as streams
from worker.web.page.routes import POLICY


def test_its_files_are_served_under_its_policy() -> None:
    names = [
        "/",
        *(
            f"/page/{name}.js"
            for name in (
                "page",
                "dom",
                "list",
                "recent",
                "entity",
                "overview",
                "changes",
                "timeline",
                "server",
            )
        ),
    ]
    answers = get(
        Site(), *names, "/page/page.css", "/page/icon.svg", "/page/page.html", "/page/../web.py"
    )
    assert [status for status, _, _ in answers] == [200] * (len(names) + 2) + [404, 404]
    for _, headers, _ in answers[: len(names) + 2]:
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in POLICY
    text = "".join(body for _, _, body in answers[: len(names) + 1])
    for word in ("innerHTML", "http://", "https://", " style=", "onclick=", "eval("):
        assert word not in text.replace("http://www.w3.org/2000/svg", ""), word


def test_without_the_page_there_is_none_of_it() -> None:
    site = Site()
    site.has_page = False
    (root, _, text), *others = get(site, "/", "/page/page.js", "/page/entities", "/page/changes")
    assert (root, "/readyz" in text) == (200, True)
    assert [status for status, _, _ in others] == [404, 404, 404]


def test_of_this_worker_it_answers_what_the_other_addresses_do() -> None:
    site = Site()
    answers = get(
        site,
        "/page/entities?contains=x&limit=7",
        "/page/entities?limit=0",
        "/entities/x/summary",
        "/entities/x/summary?view=short",
        "/entities/y/summary",
        "/entities/x/summary?view=long",
        "/entities/%ff/summary",
        "/page/status",
        "/entities/x/facets",
        "/entities/x/summary?view=overview",
    )
    statuses = [200, 400, 200, 200, 404, 400, 400, 200, 200, 200]
    assert [status for status, _, _ in answers] == statuses
    assert answers[8][2]["facets"][0]["name"] == "news"
    assert answers[9][2]["sentences"][0]["facet"] == "news"
    assert answers[0][2]["entities"][0]["entity_id"] == "x"
    assert answers[0][2]["missing"] == []
    assert answers[2][2]["sentences"][0]["text"] == VIEW.sentences[0].text
    assert answers[3][2]["sentences"][0]["stands_for"] == 3


@pytest.mark.parametrize(
    "entity_id",
    ["../../etc/passwd", "a%2Fb", "<img src=x>", "\x00", "x/summary", "é😀", "#", "a\nb"],
)
def test_a_hostile_id_is_just_an_unknown_one(entity_id: str) -> None:
    from urllib.parse import quote

    site = Site()
    path = f"/entities/{quote(entity_id, safe='')}"
    (summary, _, body), (history, _, _) = get(
        site, f"{path}/summary", f"/page{path}/history?before=5"
    )
    assert (summary, history) == (404, 200)
    assert body["error"].startswith("there is no such entity")
    assert site.state.asked == [entity_id]
    assert site.history.asked == [(entity_id, 5)]


@pytest.mark.parametrize("entity_id", [".", ".."])
def test_ids_that_clients_take_out_of_a_path_stand_in_the_query(entity_id: str) -> None:
    first, second = Site(), Site()
    second.state.summaries = {entity_id: VIEW}

    async def ask(client: TestClient[Any, Any], other: TestServer) -> None:
        first.state.owner = (False, str(other.make_url("/")))
        for options in ("", "&view=set", "&view=short"):
            path = f"/entities//summary?id={entity_id}{options}"
            async with client.get(path) as answer:
                body = await answer.json()
                assert answer.status == (404 if "short" in options else 200), body
        async with client.get(f"/page/entities//history?before=5&id={entity_id}") as answer:
            assert answer.status == 200
        assert first.history.asked == [(entity_id, 5)]

    served(ask, first, second)
    assert second.state.asked == [entity_id] * 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, "<script>"), (200, "\ud800".encode(errors="surrogatepass")), (500, "{}"), (302, "{}")],
)
def test_only_a_workers_answers_are_handed_on(status: int, body: str | bytes) -> None:
    site = Site()

    async def answers(_request: web.Request) -> web.Response:
        headers = {"Content-Type": "text/html", "Location": "http://127.0.0.1:9/"}
        return web.Response(status=status, body=body, headers=headers)

    async def ask(client: TestClient[Any, Any], _: TestServer) -> None:
        application = web.Application()
        application.router.add_get("/{path:.*}", answers)
        async with TestServer(application) as other:
            url = str(other.make_url("/"))
            site.state.owner, site.state.others = (False, url), lambda: {url: [2]}
            async with client.get("/entities/x/summary") as answer:
                assert (answer.status, answer.content_type) == (503, "application/json")
            async with client.get("/page/entities") as answer:
                assert [worker["partitions"] for worker in (await answer.json())["missing"]] == [
                    [2]
                ]

    served(ask, site)


@pytest.mark.parametrize(
    "wrong", [{"entities": [{"entity_id": 5}], "after": None, "searched": 1}, {"entities": 5}, []]
)
def test_a_page_that_is_none_is_missing(wrong: Any) -> None:
    first, second = Site(), Site()

    async def answers(_request: web.Request) -> web.Response:
        return web.json_response(wrong)

    async def ask(client: TestClient[Any, Any], _: TestServer) -> None:
        application = web.Application()
        application.router.add_get("/entities", answers)
        async with TestServer(application) as other:
            first.state.others = lambda: {str(other.make_url("/")).rstrip("/"): [2]}
            async with client.get("/page/entities") as answer:
                assert "not a worker" in (await answer.json())["missing"][0]["why"]

    served(ask, first, second)


def test_a_history() -> None:
    site = Site()
    (status, _, body), *wrong = get(
        site,
        "/page/entities/x/history",
        "/page/entities/x/history?before=-1",
        "/page/entities/x/history?before=x",
        "/page/entities/%ff/history",
    )
    assert (status, body) == (200, {"changes": [], "before": 17, "looked_at": 3000})
    assert [status for status, _, _ in wrong] == [400, 400, 400]
    site.history.fails = True
    ((status, _, body),) = get(site, "/page/entities/x/history")
    assert (status, body) == (503, {"error": "there is no topic out"})
    ((status, _, body),) = get(site, "/page/entities/x/history?facets=1")
    assert (status, "COVERSUMM_FACETS" in body["error"]) == (400, True)
    assert PublishedChange.__slots__  # what a change says is written as it is


def test_an_entity_of_another_worker_and_a_page_of_both() -> None:
    first, second = Site(), Site()
    second.state.summaries = {"there": VIEW}
    entity = ListedEntity("there", 3, 9, None, 2)

    async def page(*_: Any) -> Page:
        return Page([entity], None, 1)

    async def own(*_: Any) -> Page:
        return Page([ListedEntity("x", 3, 2, None, 0)], None, 1)

    first.state.entities, second.state.entities = own, page

    async def ask(client: TestClient[Any, Any], other: TestServer) -> None:
        url = str(other.make_url("/"))
        first.state.owner = (False, url)
        first.state.others = lambda: {url.rstrip("/"): [2], "http://127.0.0.1:9": [3]}
        async with client.get("/entities/there/summary?view=set") as answer:
            assert (answer.status, (await answer.json())["sequence"]) == (200, 17)
        async with client.get("/entities/nobody/summary") as answer:
            assert answer.status == 404
        async with client.get("/page/entities") as answer:
            body = await answer.json()
        assert {entity["entity_id"] for entity in body["entities"]} >= {"x"}
        async with client.get("/page/entities?order=reviews&limit=1") as answer:
            (most,) = (await answer.json())["entities"]
        assert most["entity_id"] == "there"
        assert [(worker["url"], worker["partitions"]) for worker in body["missing"]] == [
            ("http://127.0.0.1:9", [3])
        ]
        second.state.owner = (False, url)  # it has just let go of it
        async with client.get("/entities/there/summary") as answer:
            assert (answer.status, "handed over" in (await answer.json())["error"]) == (503, True)

    served(ask, first, second)


@pytest.mark.parametrize("what", ["summary", "changes"])
def test_a_partition_whose_owner_is_gone(what: str) -> None:
    site = Site()
    site.state.owner = (False, "http://127.0.0.1:9")
    ((status, _, body),) = get(site, f"{'' if what == 'summary' else '/page'}/entities/x/{what}")
    assert status == 503
    assert body["error"].startswith("the worker that has the entity does not answer: ")
    site.state.owner = (False, None)
    ((status, _, body),) = get(site, f"{'' if what == 'summary' else '/page'}/entities/x/{what}")
    assert (status, body["error"]) == (503, "no worker is known to own the entity's partition")


def watched_at(site: Site) -> set[bytes]:
    """The keys of the entities that somebody follows."""
    return {key for _, key in site.feed._watched}


async def next_event(answer: Any) -> bytes:
    """The next of a stream, past those that say that nothing has changed."""
    while (frame := await answer.content.readuntil(b"\n\n")) == streams.QUIET:
        pass
    return bytes(frame)


def test_changes_of_another_workers_entity_are_passed_on_until_it_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "QUIET_SECONDS", 0.1)
    first, second = Site(), Site()

    async def ask(client: TestClient[Any, Any], other: TestServer) -> None:
        first.state.owner = (False, str(other.make_url("/")))
        async with client.get("/page/entities/a/changes") as answer:
            assert answer.content_type == "text/event-stream"
            assert await answer.content.readuntil(b"{}\n\n") == streams.HELLO
            await eventually_here(lambda: watched_at(second))
            second.feed.committed([change("a", b'{"n":1}'), change("b", b'{"n":2}')])
            assert await next_event(answer) == b'event: change\ndata: {"n":1}\n\n'
            second.state.owner = (False, None)
            assert (await answer.content.read()).replace(streams.QUIET, b"") == b""

    served(ask, first, second)


def test_many_passed_on_streams_leave_room_for_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than connections that a client keeps by default: the question would wait for one
    until the test ends. How soon a worker of a busy machine answers is not tested.
    """
    monkeypatch.setattr(streams, "QUIET_SECONDS", PATIENCE_SECONDS)
    # `Peers.ask` has its times as defaults, so that a patched constant would not reach them.
    monkeypatch.setattr(peers, "ClientTimeout", lambda **_: ClientTimeout(PATIENCE_SECONDS))
    monkeypatch.setattr("worker.web.routes.ANSWER_SECONDS", PATIENCE_SECONDS)
    first, second = Site(), Site()
    second.state.summaries = {"there": VIEW}

    async def ask(client: TestClient[Any, Any], other: TestServer) -> None:
        first.state.owner = (False, str(other.make_url("/")))
        url = client.make_url("/page/entities/there/changes")
        async with (
            AsyncExitStack() as all_of_them,
            ClientSession(connector=TCPConnector(limit=0)) as session,
        ):
            for _ in range(120):
                answer = await all_of_them.enter_async_context(session.get(url))
                assert answer.status == 200
            async with session.get(client.make_url("/entities/there/summary")) as answer:
                assert answer.status == 200
            second.state.owner = (False, None)
            second.feed.committed([change("there")])  # after which the streams end

    served(ask, first, second)


def test_a_stream_is_passed_on_once() -> None:
    """Two workers that each take the other for the owner do not send a browser in circles."""
    site = Site()
    site.state.owner = (False, "http://127.0.0.1:9")
    ((status, _, body),) = get(site, "/page/entities/x/changes?here=1")
    assert (status, body["error"]) == (503, "no worker is known to own the entity's partition")


def test_more_pages_than_may_look_on_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "MOST_WATCHERS", 0)
    monkeypatch.setattr("worker.web.page.routes.MOST_WATCHERS", 0)
    for status, _, body in get(Site(), "/page/changes", "/page/entities/x/changes"):
        assert (status, body["error"]) == (503, "0 pages are open already: close one")


def test_who_asks_for_a_stream_and_takes_none_of_it_looks_on_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HEAD, and browsers that are gone before the stream begins: none of them keeps its place."""
    monkeypatch.setattr(watchers, "MOST_WATCHERS", 3)
    monkeypatch.setattr(streams, "QUIET_SECONDS", 0.02)
    site = Site()

    async def ask(client: TestClient[Any, Any], server: TestServer) -> None:
        for path in ("/page/changes", "/page/entities/x/changes") * 3:
            async with client.head(path) as answer:
                assert answer.status == 200
            _, gone = await asyncio.open_connection(server.host, server.port)
            gone.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            gone.transport.abort()
        await eventually_here(lambda: not site.feed._is_open)
        async with client.get("/page/changes") as answer:
            assert answer.status == 200

    served(ask, site)


def test_a_large_answer_of_another_worker_is_passed_on_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = Site(), Site()
    long = msgspec.structs.replace(VIEW.sentences[0], text="x" * 3_000_000)
    second.state.summaries = {"there": dataclasses.replace(VIEW, sentences=(long,))}

    async def ask(client: TestClient[Any, Any], other: TestServer) -> None:
        first.state.owner = (False, str(other.make_url("/")))
        async with client.get("/entities/there/summary") as answer:
            assert (await answer.json())["sentences"][0]["text"] == long.text
        monkeypatch.setattr(peers, "LARGEST_ANSWER", 2**20)
        async with client.get("/entities/there/summary") as answer:
            assert answer.status == 503
            assert (await answer.json())["error"].endswith("its answer is larger than 1 MiB")

    served(ask, first, second)


def test_who_reads_nothing_is_dropped_and_nothing_waits_for_him(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """He opens a stream and stays silent: the connection is closed, and the other one hears what
    there is meanwhile.
    """
    monkeypatch.setattr(streams, "SLOW_SECONDS", 1.0)
    monkeypatch.setattr(watchers, "BEAT_SECONDS", 0.02)
    site = Site()
    large = json.dumps({"text": "x" * 500_000}).encode()

    async def ask(client: TestClient[Any, Any], server: TestServer) -> None:
        _, silent = await asyncio.open_connection(server.host, server.port, limit=1024)
        try:
            silent.write(b"GET /page/entities/silent/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with client.get("/page/entities/good/changes") as good:
                await eventually_here(lambda: len(watched_at(site)) == 2)
                heard = b""
                while b"silent" in watched_at(site):
                    site.feed.committed([change("silent", large), change("good", b"{}")])
                    await asyncio.sleep(0.02)
                    heard += await good.content.readany()
                assert heard.count(b"event: change") > 10
                assert b"good" in watched_at(site)
        finally:
            silent.transport.abort()
            with suppress(ConnectionError):
                await silent.wait_closed()

    served(ask, site)
