"""Tokens, limits by client, and whom a limit counts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.web_state import FakeState
from worker.settings import Settings
from worker.stream import rate_limit
from worker.stream.rate_limit import RateLimit
from worker.telemetry.metrics import Metrics
from worker.web.admission import client_of
from worker.web.routes import add_pages
from worker.web.server import PROBES

TOKEN, NEXT = "0123456789abcdef", "fedcba9876543210=="
SETTINGS = Settings(web_token=f"{TOKEN},{NEXT}")
LIMITED = Settings(web_rate=1, web_burst=2, web_proxies="127.0.0.0/8,10.0.0.0/8")


def application(settings: Settings, state: Any = None) -> Any:
    made = web.Application()
    add_pages(made, state or FakeState(), Metrics(), replace(settings, web_page=False))
    return made


def statuses(settings: Settings, *requests: tuple[str, dict[str, str]]) -> list[int]:
    async def ask() -> list[int]:
        async with TestClient(TestServer(application(settings))) as client:
            return [(await client.get(path, headers=headers)).status for path, headers in requests]

    return asyncio.run(ask())


WRONG = (
    *("", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"),
    *(f"Bearer {TOKEN},{NEXT}", f"Bearer {TOKEN} {NEXT}", f"Bearer {NEXT[:-1]}", "Bearer é"),
)


@pytest.mark.parametrize("path", ["/status", "/entities", "/entities/x/summary", "/", "/nowhere"])
def test_every_address_but_probes_and_metrics_needs_a_token(path: str) -> None:
    wrong = [(path, {"Authorization": header}) for header in WRONG]
    assert statuses(SETTINGS, (path, {}), *wrong) == [401] * (1 + len(WRONG))
    right = [
        (path, {"Authorization": f"{header}"}) for header in (f"Bearer {TOKEN}", f"bearer  {NEXT}")
    ]
    assert statuses(SETTINGS, *right) == [404 if path == "/nowhere" else 200] * 2
    assert statuses(SETTINGS, *((path, {}) for path in PROBES)) == [200] * 3


def test_a_refusal_says_what_is_missing_and_nothing_of_the_token() -> None:
    async def ask() -> None:
        async with TestClient(TestServer(application(SETTINGS))) as client:
            answer = await client.get("/status", headers={"Authorization": "Bearer guess"})
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert list(await answer.json()) == ["error"]
            assert TOKEN not in await answer.text()

    asyncio.run(ask())


def relayed(owner: Settings, asking: Settings, *clients: str) -> list[tuple[int, Any, str | None]]:
    """Answers of a worker that asks another for the entity, to each of these clients."""

    async def ask() -> list[tuple[int, Any, str | None]]:
        found = []
        async with TestServer(application(owner)) as other:
            state = FakeState()
            state.owner = (False, str(other.make_url("")))
            async with TestClient(TestServer(application(asking, state))) as client:
                for name in clients or ("192.0.2.7",) * 3:
                    headers = {"Authorization": f"Bearer {NEXT}", "X-Forwarded-For": name}
                    answer = await client.get("/entities/x/summary", headers=headers)
                    again = answer.headers.get("Retry-After")
                    found.append((answer.status, await answer.json(), again))
        return found

    return asyncio.run(ask())


def test_workers_ask_each_other_with_the_first_token() -> None:
    answers = relayed(replace(SETTINGS, web_token=TOKEN), SETTINGS)
    assert [(status, body["entity_id"]) for status, body, _ in answers] == [(200, "x")] * 3
    answers = relayed(replace(SETTINGS, web_token=NEXT), SETTINGS)
    assert [status for status, _, _ in answers] == [503] * 3
    assert "a token is needed" in answers[0][1]["error"]


def test_a_limit_at_the_owner_counts_the_client_and_is_passed_on() -> None:
    asking = replace(LIMITED, web_burst=100)
    answers = relayed(LIMITED, asking)
    assert [status for status, _, _ in answers] == [200, 200, 429]
    assert (answers[2][2], list(answers[2][1])) == ("1", ["error"])
    clients = ("192.0.2.7", "192.0.2.7", "192.0.2.8", "192.0.2.7")
    answers = relayed(LIMITED, asking, *clients)
    assert [status for status, _, _ in answers] == [200, 200, 200, 429]


def test_each_client_has_its_own_burst_and_probes_have_no_limit() -> None:
    client, other = ({"X-Forwarded-For": name} for name in ("192.0.2.7", "192.0.2.8"))
    asked = [("/status", client)] * 3 + [("/status", other), ("/entities/x/summary", client)]
    assert statuses(LIMITED, *asked) == [200, 200, 429, 200, 429]
    assert statuses(LIMITED, *[("/healthz", client)] * 5, ("/metrics", client)) == [200] * 6


def test_without_proxies_nobody_can_say_that_he_is_another() -> None:
    settings = replace(LIMITED, web_proxies="10.0.0.0/8")
    asked = [("/status", {"X-Forwarded-For": f"192.0.2.{number}"}) for number in range(3)]
    assert statuses(settings, *asked) == [200, 200, 429]


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float, /) -> None:
        self.now += seconds


PROXIES = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]
FORWARDED = [
    ("192.0.2.1", "", "192.0.2.1"),
    ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
    ("10.0.0.1", "", "10.0.0.1"),
    ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
    ("10.0.0.1", "1.1.1.1, 198.51.100.1,10.2.2.2", "198.51.100.1"),
    ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
    ("::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
    ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
    ("10.0.0.1", "[2001:db8:1:2:3:4:5:6]:4711", "2001:db8:1:2::"),
    ("fd00::1", "2001:db8:1:2::1", "2001:db8:1:2::"),
    ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
    ("10.0.0.1", "198.51.100.1, _hidden, 10.0.0.9", "10.0.0.9"),
    ("10.0.0.1", "x, 198.51.100.1, ", "10.0.0.1"),
]


@pytest.mark.parametrize(("remote", "forwarded", "client"), FORWARDED)
def test_the_client_is_the_last_that_is_no_proxy(remote: str, forwarded: str, client: str) -> None:
    assert client_of(remote, forwarded.split(","), PROXIES) == client


@given(
    st.lists(st.one_of(st.ip_addresses().map(str), st.text(max_size=20)), max_size=5),
    st.ip_addresses(v=4).map(str).filter(lambda address: ip_address(address) not in PROXIES[0]),
)
def test_nothing_that_a_client_writes_makes_it_another(hops: list[str], client: str) -> None:
    """A proxy appends the address that it sees."""
    assert client_of("10.0.0.1", [*hops, client], PROXIES) == client
    assert client_of(client, hops, PROXIES) == client


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2000)), max_size=200),
)
def test_a_limit_is_a_bucket_of_tokens(rate: int, burst: int, asked: list[Any]) -> None:
    """Against a bucket in exact milliseconds: each client's is its own."""
    clock = Clock()
    limit = RateLimit(rate, burst, clock)
    full = burst * 1000  # a request takes 1000, and `rate` comes in each millisecond
    buckets: dict[int, tuple[int, int]] = {}
    now = 0
    for client, pause in asked:
        now += pause
        clock.sleep(pause / 1000)
        level, then = buckets.get(client, (full, now))
        level = min(full, level + (now - then) * rate)
        is_admitted = level >= 1000
        wait = limit.wait(str(client))
        if abs(level - 1000) > 1e-3:  # at equality floats may differ
            assert (wait == 0) == is_admitted
        is_admitted = wait == 0
        if not is_admitted:
            assert wait == pytest.approx((1000 - level) / rate / 1000, abs=1e-6)
        buckets[client] = (level - 1000 * is_admitted, now)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MOST_CLIENTS", 3)
    limit = RateLimit(1, 1, Clock())
    for client in ("a", "b", "c", "a", "d"):
        limit.wait(client)
    assert list(limit.complete) == ["c", "a", "d"]
    assert limit.wait("a") > 0
