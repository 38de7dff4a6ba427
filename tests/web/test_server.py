"""What the web server demands of a request before any page sees it, and what its connections may
take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from aiohttp import web

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import FakeState
from worker.settings import Settings
from worker.stream.journal import INTERVAL_SECONDS
from worker.telemetry.metrics import Metrics
from worker.web import server
from worker.web.routes import add_pages
from worker.web.server import RequestErrors, Runner

Ask = Callable[[bytes], Awaitable[bytes]]
SETTINGS = Settings(web_page=False)
PATHS = ("/", "/healthz", "/metrics", "/entities", "/entities/x/summary", "/nowhere")


def served(work: Callable[[Ask, int], Awaitable[None]], settings: Settings = SETTINGS) -> None:
    """Do something with a server; `ask` sends bytes and reads until the connection is closed."""

    async def run() -> None:
        application = web.Application()
        add_pages(application, FakeState(), Metrics(), settings)

        async def broken(_request: web.Request) -> web.Response:
            raise ZeroDivisionError

        async def stream(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(10):
                await asyncio.sleep(0.05)
                await response.write(b"data: more\n\n")
            return response

        application.router.add_get("/broken", broken)
        application.router.add_get("/stream", stream)
        runner = Runner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]

        async def ask(request: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            try:
                return await reader.read()
            finally:
                writer.close()

        try:
            await work(ask, port)
        finally:
            await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def of_host(host: str, path: str = "/status") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


KNOWN = [
    "127.0.0.1", "127.0.0.1:8080", "10.1.2.3:80", "[::1]", "[fd00::1]:8080", "localhost",
    "LOCALHOST:8080", "Worker-0:8080", "worker-0.", "worker-0.:80", "summaries.example.com",
]  # fmt: skip
FOREIGN = [
    "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
    "worker-0.evil", ":8080", "[::1", "::1", "127.0.0.1:80:80", "127.0.0.1@evil.example",
    "localhost/", "127.0.0.1%2e", "0x7f.1", "[evil.example]", "", "localhost, evil.example",
    "a" * 4000,
]  # fmt: skip


def test_only_names_of_this_worker_are_answered() -> None:
    settings = Settings(
        web_page=False,
        web_advertised_url="http://worker-0:8080",
        web_allowed_hosts="summaries.example.com",
    )

    async def ask_all(ask: Ask, _port: int) -> None:
        for host in KNOWN:
            assert status_of(await ask(of_host(host))) == 200, host
        for host in FOREIGN:
            answer = await ask(of_host(host))
            assert status_of(answer) in (400, 421), host
            assert b'"ready"' not in answer
        for path in PATHS:
            answer = await ask(of_host("evil.example", path))
            assert status_of(answer) == 421, path
            assert b"COVERSUMM_WEB_ALLOWED_HOSTS" in answer
        assert status_of(await ask(b"GET /healthz HTTP/1.0\r\n\r\n")) == 200  # not a browser's
        id_ = "%F0%9F%98%80" * 1024  # as long as an id may be
        assert status_of(await ask(of_host("localhost", f"/entities/{id_}/summary"))) == 404

    served(ask_all, settings)


def test_hosts_that_are_refused_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def ask_thrice(ask: Ask, _port: int) -> None:
        for _ in range(3):
            await ask(of_host("evil.example"))

    served(ask_thrice)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "'evil.example': COVERSUMM_WEB_ALLOWED_HOSTS names" in line


@pytest.mark.parametrize("text", [b"\xff", b"%FF", b"%ED%A0%80", b"a&contains=%C3"])
def test_a_query_that_is_not_utf_8_is_a_bad_request(text: bytes) -> None:
    async def ask_it(ask: Ask, _port: int) -> None:
        answer = await ask(
            b"GET /entities?prefix=%s HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n" % text
        )
        assert status_of(answer) == 400

    served(ask_it)


def test_bad_requests_are_one_line_a_minute_without_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask_them(ask: Ask, _port: int) -> None:
        for _ in range(5):
            assert status_of(await ask(b"GET /status HTTP/1.1\r\n\r\n")) == 400
            assert status_of(await ask(of_host("localhost", "http://[/"))) == 400

    served(ask_them)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert record.getMessage() == (
        "answered 1 bad HTTP requests with 400, the last: Missing 'Host' header in request."
    )


def test_a_request_that_fails_here_is_told_with_its_traceback_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask_them(ask: Ask, _port: int) -> None:
        for _ in range(3):
            assert status_of(await ask(of_host("localhost", "/broken"))) == 500

    served(ask_them)
    (record,) = caplog.records
    assert record.getMessage() == "1 HTTP requests failed, the last: ZeroDivisionError()"
    assert record.exc_info


def test_what_was_not_told_is_counted_in_the_next_line() -> None:
    clock = type("Clock", (), {"now": 0.0, "monotonic": lambda self: self.now})()
    errors = RequestErrors(clock)

    def record() -> logging.LogRecord:
        return logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), None)

    assert [errors.filter(record()) for _ in range(4)] == [True, False, False, False]
    clock.now = INTERVAL_SECONDS
    last = record()
    assert errors.filter(last)
    assert last.getMessage().startswith("4 HTTP requests failed")


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /status HTTP/1.1\r\nHost: localh",
        b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_connection_has_so_long_for_its_next_request(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None at all, the half of a head, and idle after an answer."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)

    async def ask_it(ask: Ask, _port: int) -> None:
        answer = await ask(begun)  # ends, because the server closes
        assert (b"200 OK" in answer) == begun.endswith(b"\r\n\r\n")

    served(ask_it)


def test_a_stream_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)

    async def follow(ask: Ask, _port: int) -> None:
        answer = await ask(of_host("localhost", "/stream"))
        assert answer.count(b"data: more") == 10

    served(follow)


def logged_once(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the only line is the one about connections."""
    return [message.split(": ")[1] for message in caplog.messages] == [
        "more than 3 were open at once"
    ]


def test_idle_connections_past_the_limit_make_room_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)

    async def connect(ask: Ask, port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        held[0][1].write(b"GET /status HTTP/1.1\r\nHost: localh")
        assert status_of(await ask(of_host("localhost"))) == 200
        assert not await held[0][0].read()
        assert [reader.at_eof() for reader, _ in held] == [True, False, False]
        held += [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert status_of(await ask(of_host("localhost", "/healthz"))) == 200
        for _, writer in held:
            writer.close()

    served(connect)
    assert logged_once(caplog)


@pytest.mark.parametrize("reserve", [0, 1])
def test_probes_are_answered_while_all_other_connections_are_busy(
    reserve: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(server, "PROBE_CONNECTIONS", reserve)

    async def connect(ask: Ask, port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in held:
            writer.write(of_host("localhost", "/stream"))
            assert b"200 OK" in await reader.readline()
        if reserve:
            assert status_of(await ask(of_host("localhost", "/healthz"))) == 200
            assert status_of(await ask(of_host("localhost"))) == 503
        else:
            with suppress(ConnectionError):
                assert not await ask(of_host("localhost", "/healthz"))
        for reader, writer in held:
            assert (await reader.read()).count(b"data: more") == 10
            writer.close()
        assert status_of(await ask(of_host("localhost"))) == 200

    served(connect)
    assert logged_once(caplog)
