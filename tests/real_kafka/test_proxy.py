"""The proxies that faults of the network are made with; no Kafka is needed to look at them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.proxy import Mode, Proxy

QUIET_SECONDS = 0.3
"""Nothing came for so long: nothing will."""


class Echo:
    """A server that sends back what it got, and keeps it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.got = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                talk, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def _talk(self, talk: socket.socket) -> None:
        with talk:
            try:
                while some := talk.recv(1000):
                    self.got += some
                    talk.sendall(some)
            except OSError:
                pass

    def close(self) -> None:
        """Accept nobody any more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as server:
        yield server


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as made:
        yield made


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connect(proxy) as connected:
        assert ask(connected, b"hello") == b"hello"
        yield connected


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_SECONDS)


def ask(client: socket.socket, question: bytes) -> bytes:
    """The answer, as long as the question; empty where none came."""
    client.sendall(question)
    answer = b""
    client.settimeout(QUIET_SECONDS)
    try:
        while len(answer) < len(question):
            if not (some := client.recv(1000)):
                break
            answer += some
    except TimeoutError:
        pass
    client.settimeout(PATIENCE_SECONDS)
    return answer


@pytest.mark.parametrize(("mode", "arrives"), [("swallow", b""), ("mute", b"lost?")])
def test_open_and_new_connections_lose(
    client: socket.socket, proxy: Proxy, echo: Echo, mode: Mode, arrives: bytes
) -> None:
    proxy.set(mode)
    echo.got = b""
    assert ask(client, b"lost?") == b""
    assert echo.got == arrives
    with connect(proxy) as another:
        assert ask(another, b"lost?") == b""
    assert echo.got == 2 * arrives
    assert proxy.lost == 10


@pytest.mark.parametrize("mode", ["swallow", "mute"])
def test_a_stream_that_lost_bytes_never_continues(
    client: socket.socket, proxy: Proxy, mode: Mode
) -> None:
    with connect(proxy) as silent:
        assert ask(silent, b"hello") == b"hello"
        proxy.set(mode)
        assert ask(client, b"lost") == b""
        proxy.set("pass")
        assert ask(client, b"behind a hole") == b""
        assert ask(silent, b"lost nothing") == b"lost nothing"
    with connect(proxy) as another:
        assert ask(another, b"anew") == b"anew"


def test_a_slow_link_carries_so_many_bytes_a_second(client: socket.socket, proxy: Proxy) -> None:
    """Both ways together, and nothing is lost; when the link is well again, what is left goes at
    once.
    """
    proxy.set("slow", bytes_per_s=100_000)
    began_s, came = time.monotonic(), 0
    client.sendall(b"x" * 25_000)
    while came < 25_000:
        came += len(client.recv(1 << 16))
    assert time.monotonic() - began_s > 0.4
    proxy.set("slow", bytes_per_s=1000)
    client.sendall(b"y" * 60_000)
    proxy.set("pass")
    while came < 85_000:
        came += len(client.recv(1 << 16))
    assert proxy.lost == 0
    assert time.monotonic() - began_s < 60


def test_connections_are_reset_and_new_ones_too(client: socket.socket, proxy: Proxy) -> None:
    proxy.set("reset")
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionResetError), connect(proxy) as another:
        another.recv(1)
    proxy.set("pass")
    with connect(proxy) as another:
        assert ask(another, b"again") == b"again"
