"""The worker's pages: what each answers in each state of the worker, ids with any bytes, and a port
that is taken.
"""

import asyncio
import errno
import json
import re
import socket
from dataclasses import replace
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from jsonschema import Draft202012Validator
from yarl import URL

from docs.build.render import ROOT
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import OTHER_WORKER, FakeState
from worker.errors import SetupError
from worker.processing.entity_view import Extent
from worker.settings import Settings
from worker.settings.kinds import host_port
from worker.state.listing import EntitySearch
from worker.stream.queries import NotHere
from worker.telemetry.metrics import Metrics
from worker.web.peers import PeerAnswer, Peers
from worker.web.routes import PAGE_SECONDS, add_pages, install_web
from worker.web.server import bind, check_port

SETTINGS = Settings(web_page=False)


@pytest.fixture
def state():
    return FakeState()


def get(state, *paths):
    """Status, headers and body of each path, asked for exactly as written."""

    async def ask():
        application = web.Application()
        add_pages(application, state, Metrics(), SETTINGS)
        answers = []
        async with TestClient(TestServer(application)) as client:
            for path in paths:
                url = URL(f"{client.make_url('/')}".rstrip("/") + path, encoded=True)
                async with client.session.get(url, allow_redirects=False) as answer:
                    body = await (answer.json() if "json" in answer.content_type else answer.text())
                    answers.append((answer.status, answer.headers, body))
        return answers

    return asyncio.run(ask())


def test_a_question_too_many_may_be_asked_again(state):
    state.is_busy = True
    ((status, headers, _),) = get(state, "/entities/x/ask?q=quiet")
    assert (status, headers["Retry-After"]) == (429, "1")


def test_health_and_readiness(state):
    (health, _, _), (ready, _, body) = get(state, "/healthz", "/readyz")
    assert (health, ready, body) == (200, 200, {"ready": True, "reason": "because"})
    state.is_ready = False
    (health, _, _), (ready, _, body) = get(state, "/healthz", "/readyz")
    assert (health, ready, body) == (200, 503, {"ready": False, "reason": "because"})


def test_status_is_answered_whether_ready_or_not(state):
    state.is_ready = False
    ((status, _, body),) = get(state, "/status")
    assert (status, body) == (200, {"ready": False, "lag": {"0": 5}})


def test_a_page_of_entities(state):
    ((status, _, body),) = get(state, "/entities?prefix=a%2F%C3%A9&contains=x&after=%26&limit=7")
    assert status == 200
    assert state.searches == [([0, 1], EntitySearch("a/é", "x", "&"), 7, PAGE_SECONDS)]
    entity = {"entity_id": "x", "sentences": 3, "reviews": 2, "sequence": None, "partition": 0}
    assert body == {
        "entities": [entity],
        "after": "x",
        "searched": 7,
        "partitions": [0, 1],
        "others": {OTHER_WORKER: [2]},
    }
    get(state, "/entities")
    assert state.searches[1:] == [([0, 1], EntitySearch(), 100, PAGE_SECONDS)]


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1e3", "٣"])
def test_a_limit_that_is_none(state, limit):
    ((status, _, body),) = get(state, f"/entities?limit={quote(limit)}")
    assert (status, body, state.searches) == (
        400,
        {"error": "limit is a number from 1 to 1000"},
        [],
    )


def test_no_entities_while_not_ready_or_busy(state, monkeypatch):
    state.is_ready = False
    status, headers, body = get(state, "/entities")[0]
    assert (status, headers["Retry-After"], body) == (503, "1", {"error": "because"})

    async def never(*_):
        await asyncio.sleep(60)

    state.is_ready, state.entities = True, never
    monkeypatch.setattr("worker.web.routes.ANSWER_SECONDS", 0.05)
    assert get(state, "/entities")[0][::2] == (503, {"error": "the worker is busy"})


def test_metrics_are_those_of_this_moment(state):
    ((status, headers, page),) = get(state, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    assert 'coversumm_lag_records{partition="0"} 5.0\n' in page
    assert "coversumm_ready 1.0\n" in page


def test_a_summary(state):
    ((status, headers, body),) = get(state, "/entities/x/summary")
    assert status == 200
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert body["sequence"] == 17
    assert body["ratings"] == {"count": 1, "mean": 4.0, "histogram": {"4": 1}}
    assert body["sentences"] == [
        {
            "rank": 0,
            "sentence_id": "r#0",
            "review_id": "r",
            "text": "Grün.",
            "rating": 4.0,
            "language": "de",
            "distance": 0.25,
            "support": 2,
        }
    ]


def test_a_short_view(state):
    ((status, headers, body),) = get(
        state, "/entities/x/summary?view=short&words=75&threshold=0.85"
    )
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    schema = json.loads((ROOT / "schemas" / "short-view.schema.json").read_text())
    Draft202012Validator(schema).validate(body)
    assert body["sentences"][0]["stands_for_reviews"] == 2
    paths = ["?view=short", "?view=short&sentences=3", "?view=set&words=1"]
    answers = get(
        state, *(f"/entities/x/summary{query}" for query in paths), "/entities/y/summary?view=short"
    )
    assert [status for status, _, _ in answers] == [200, 200, 200, 404]
    assert state.extents == [
        ("x", Extent(None, 75, 0.85)),
        ("x", Extent()),
        ("x", Extent(3)),
        ("y", Extent()),
    ]
    assert state.asked == ["x"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("view=long", "view is set, short, facets or overview"),
        ("view=", "view is set, short, facets or overview"),
        ("view=short&sentences=0", "sentences is a number from 1 to 100"),
        ("view=short&sentences=-1", "sentences is a whole number"),
        ("view=short&sentences=9999999999", "sentences is a whole number"),
        ("view=short&words=%D9%A3", "words is a whole number"),
        ("view=short&words=", "words is a whole number"),
        ("view=short&threshold=1", "threshold is a number like 0.8"),
        ("view=short&threshold=nan", "threshold is a number like 0.8"),
        ("view=short&threshold=1e-3", "threshold is a number like 0.8"),
        ("language=fr", "language is for the views facets and overview"),
        ("view=short&language=fr", "language is for the views facets and overview"),
    ],
)
def test_a_short_view_that_is_none(state, query, message):
    ((status, _, body),) = get(state, f"/entities/x/summary?{query}")
    assert status == 400
    assert body["error"].startswith(message)
    assert state.extents == state.asked == []


def test_facets_and_overview(state):
    paths = {
        "/entities/x/facets": "facets-view",
        "/entities/x/facets?view=overview&words=75": "overview",
        "/entities/x/summary?view=overview&sentences=3": "overview",
        "/entities/x/summary?view=facets": "facets-view",
    }
    answers = get(state, *paths)
    for (status, _, body), name in zip(answers, paths.values(), strict=True):
        assert status == 200
        schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
        Draft202012Validator(schema).validate(body)
    assert state.extents == [("x", Extent(None, 75)), ("x", Extent(3))]
    unknown, plain = get(state, "/entities/y/facets", "/entities/plain/facets")
    assert unknown[0] == 404
    assert plain[0] == 400
    assert "COVERSUMM_FACETS" in plain[2]["error"]


def test_a_language_of_facets(state):
    paths = [
        "/entities/x/facets?language=fr",
        "/entities/x/facets?view=overview&language=fr",
        "/entities/x/summary?view=overview&language=fr&words=9&threshold=0.5",
    ]
    assert [status for status, _, _ in get(state, *paths)] == [200, 200, 200]
    extents = [Extent(language="fr"), Extent(language="fr"), Extent(None, 9, 0.5, "fr")]
    assert state.extents == [("x", extent) for extent in extents]
    ((status, _, body),) = get(state, "/entities/x/facets?language=nl")
    assert (status, body) == (400, {"error": "language 'nl': the facets are in fr, en"})


IDS = [
    "a/b", "/", "a%2Fb", "%", "a b+c", "é😀", "\x00", "..", "../x", "a?b#c", "x/summary", "",
    'quote"', "a\nb\r\n",
]  # fmt: skip


@pytest.mark.parametrize("entity_id", [*IDS, "z" * 1024])
def test_ids_are_just_ids(state, entity_id):
    get(state, f"/entities/{quote(entity_id, safe='')}/summary")
    assert state.asked == [entity_id]


def test_an_id_that_is_not_utf8_and_an_unknown_one(state):
    ((status, _, body),) = get(state, "/entities/%ff/summary")
    assert (status, body["error"]) == (400, "the entity id is not UTF-8")
    assert state.asked == []
    unknown = {"error": "there is no such entity; /entities?near=ID names similar ids"}
    assert get(state, "/entities/y/summary")[0][::2] == (404, unknown)


def test_an_entity_whose_partition_is_behind_is_not_yet_there(state):
    state.behind = "not yet: 4,000 records behind"
    ((status, headers, body), (known, _, _)) = get(
        state, "/entities/y/summary", "/entities/x/summary"
    )
    assert (status, headers["Retry-After"]) == (503, "1")
    assert (body, known) == ({"error": "not yet: 4,000 records behind"}, 200)


@pytest.mark.parametrize("path", ["/entities/x", "/nowhere"])
def test_an_unknown_path_is_refused_in_json(state, path):
    ((status, _, body),) = get(state, path)
    assert status == 404
    assert "/entities/ID/summary" in body["error"]


def test_an_order_of_entities(state):
    get(state, "/entities?order=reviews", "/entities?near=B%2F00x")
    assert [search for _, search, _, _ in state.searches] == [
        EntitySearch(by_reviews=True),
        EntitySearch(near="B/00x"),
    ]
    for query in ("order=size", "order=id&near=x", f"near={'x' * 201}"):
        ((status, _, body),) = get(state, f"/entities?{query}")
        assert (status, query[:4] in body["error"]) == (400, True)
    assert len(state.searches) == 2


def test_an_entity_of_another_worker(state, monkeypatch):
    """Its owner is asked with the same path and query, and asks nobody else."""
    asked = []

    async def ask(_self, url, client):
        asked.append(url)
        return PeerAnswer(404, b'{"error": "none"}')

    monkeypatch.setattr(Peers, "ask", ask)
    state.owner = (False, OTHER_WORKER + "/")
    paths = ("/entities/%C3%A9%2F%25/summary", "/entities/x/facets?view=overview&words=9")
    for path in paths:
        assert get(state, path)[0][::2] == (404, {"error": "none"})
    here = [f"{OTHER_WORKER}{path}{'&' if '?' in path else '?'}here=1" for path in paths]
    assert asked == here
    ((status, _, body),) = get(state, here[0].removeprefix(OTHER_WORKER))
    assert (status, "handed over" in body["error"], asked) == (503, True, here)
    assert state.asked == []


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ((), "https://shop.example", None),
        (("https://shop.example", "http://b"), "https://shop.example", "https://shop.example"),
        (("https://shop.example",), "https://shop.example.evil", None),
        (("https://shop.example",), None, None),
        (("*",), "https://any.example", "*"),
    ],
)
def test_pages_of_known_origins_may_read_entities(state, origins, origin, allowed):
    async def ask():
        application = web.Application()
        settings = replace(SETTINGS, web_origins=",".join(origins))
        add_pages(application, state, Metrics(), settings)
        async with TestClient(TestServer(application)) as client:
            headers = {} if origin is None else {"Origin": origin}
            found = [
                (await client.get(path, headers=headers)).headers
                for path in ("/entities/x/summary", "/entities/none/facets", "/status", "/entities")
            ]
        return found

    summary, unknown, *others = asyncio.run(ask())
    for headers in (summary, unknown):
        assert headers.get("Access-Control-Allow-Origin") == allowed
        assert headers.get("Vary") == ("Origin" if origins and "*" not in origins else None)
        assert "Access-Control-Allow-Credentials" not in headers
    assert all("Access-Control-Allow-Origin" not in headers for headers in others)


def test_no_summary_while_it_may_be_wrong(state, monkeypatch):
    async def never(*_):
        await asyncio.sleep(60)

    async def going(*_):
        raise NotHere

    monkeypatch.setattr("worker.web.routes.ANSWER_SECONDS", 0.05)
    state.is_ready = False
    assert get(state, "/entities/x/summary")[0][::2] == (503, {"error": "because"})
    state.is_ready, state.owner = True, (False, None)
    unowned = "no worker is known to own the entity's partition"
    assert get(state, "/entities/x/summary")[0][::2] == (503, {"error": unowned})
    assert state.asked == []
    state.owner, state.view = (True, None), never
    assert get(state, "/entities/x/summary")[0][::2] == (503, {"error": "the worker is busy"})
    state.view, handed = going, "the entity's partition is being handed over"
    assert get(state, "/entities/x/summary")[0][::2] == (503, {"error": handed})


def raw(state, request):
    """The first line of the answer to a request written by hand, byte for byte; empty where the
    connection is closed.
    """

    async def ask():
        application = web.Application()
        add_pages(application, state, Metrics(), SETTINGS)
        async with TestServer(application) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(request)
            try:
                return (await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)).decode()
            except ConnectionError:
                return ""
            finally:
                writer.close()

    return asyncio.run(ask())


PATHS = [
    "/", "/healthz", "/readyz", "/metrics", "/status", "/entities", "/entities/x/summary",
]  # fmt: skip


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
)
def test_nothing_can_be_changed(state, method):
    for path in (*PATHS, "/nowhere"):
        target = "host:80" if method == "CONNECT" else path
        answer = raw(
            state,
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode(),
        )
        assert answer.startswith("HTTP/1.1 405 "), (path, answer)
    assert state.asked == []


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(state, path):
    assert raw(state, f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).startswith(
        "HTTP/1.1 200 "
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize(
    "size", ["Content-Length: 1", "Content-Length: 999999999999", "Transfer-Encoding: chunked"]
)
def test_bodies_are_refused_unread(state, method, size):
    answer = raw(
        state,
        f"{method} /entities/x/summary HTTP/1.1\r\nHost: localhost\r\n{size}\r\n\r\n".encode(),
    )
    assert answer.startswith("HTTP/1.1 405 " if method == "POST" else "HTTP/1.1 413 ")
    assert state.asked == []


FOREIGN_PATHS = [
    "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/entities/../../etc/passwd",
    "//etc/passwd", "/static/../worker/settings.py", "/entities/x/summary/../../..",
    "/metrics/..%2f..", "/app", "/tables", "/table/entities/x", "/live", "/router", "/graph",
    "/stats", "/docs",
]  # fmt: skip


@pytest.mark.parametrize("path", FOREIGN_PATHS)
def test_there_are_no_files_and_none_of_fausts_pages(state, path):
    assert (
        raw(state, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).split()[1] == "404"
    )


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 10**6 + b"\r\n\r\n",
        b"GET /" + b"a" * 10**6 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\r\n\r\n",  # TLS
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"
        b"\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(state, request_):
    answer = raw(state, request_)
    assert answer == "" or 400 <= int(answer.split()[1]) < 500


def test_a_port_that_is_taken_is_said_in_one_line():
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError) as refused:
            check_port("127.0.0.1", port)
    assert str(refused.value) == (
        f"the web server cannot listen on 127.0.0.1:{port} (Address already in use): set "
        "COVERSUMM_WEB_PORT or "
        "COVERSUMM_WEB_BIND to an address that is free on this machine"
    )
    check_port("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "clients"),
    [("::", ["127.0.0.1", "::1"]), ("::1", ["::1"]), ("0.0.0.0", ["127.0.0.1"])],
)
def test_addresses_of_both_families(host, clients):
    with bind(host, 0) as listener:
        port = listener.getsockname()[1]
        for client in clients:
            socket.create_connection((client, port), PATIENCE_SECONDS).close()
        with pytest.raises(SetupError, match=re.escape(f"listen on {host_port(host, port)} (Addr")):
            check_port(host, port)


def test_a_machine_without_ipv6_listens_for_the_other_family(monkeypatch):
    create = socket.socket

    def without_ipv6(family=-1, *arguments, **options):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return create(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    with bind("::", 0) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"
    with pytest.raises(SetupError, match="Address family"):
        check_port("::1", 0)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_here_is_said_in_one_line(host):
    with pytest.raises(SetupError, match="COVERSUMM_WEB_BIND"):
        check_port(host, 18080)


def test_the_port_is_held_from_the_moment_the_pages_are_installed(state):
    import faust

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    app = faust.App("test-web", web_bind="127.0.0.1", web_port=port, autodiscover=False)
    add_pages(install_web(app), state, Metrics(), SETTINGS)
    try:
        with pytest.raises(SetupError):
            check_port("127.0.0.1", port)
        app.web.init_server()
        with pytest.raises(SetupError):
            check_port("127.0.0.1", port)
    finally:
        app.web._bound.close()
