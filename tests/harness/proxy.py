"""A network that fails: a TCP proxy between a client and a broker, which loses bytes or resets
connections on demand.

    pass      nothing happens
    swallow   what the client sends vanishes: a hole in the network
    mute      requests arrive, their answers vanish: the client cannot know what became of them
    reset     connections are reset, and so is each new one
    slow      so many bytes a second pass, in both directions and of all connections together

A mode holds for connections that are open and for new ones. A stream that lost bytes would be
garbage if it went on behind them, so it loses all that follows, after `pass` too: as behind a
firewall that forgot the connection, the client has to find out by itself and connect anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, Literal, Self, TypeVar

from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS

T = TypeVar("T")
Mode = Literal["pass", "swallow", "mute", "reset", "slow"]
_AT_A_TIME = 1 << 16
_SLICES_PER_S = 20
"""Writes a second on a slow link."""
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: closing is a RST, not a FIN


class Proxy:
    """Listens on its `port` of 127.0.0.1 and passes on to `upstream`, a port there; it has a thread
    of its own.

    `lost` counts the bytes that vanished, `connections` those that were ever accepted.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = free_port()
        self.mode: Mode = "pass"
        self.lost = self.connections = 0
        self._bytes_per_s = 0
        self._free_s = 0.0  # when the slow link has carried what was given to it
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def set(self, mode: Mode, *, bytes_per_s: int = 0) -> None:
        """Change the mode; return when it holds. `slow` needs the rate."""
        assert (mode == "slow") == (bytes_per_s > 0), "a slow link has a rate, and no other"
        self._call(self._set(mode, bytes_per_s))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the proxy's thread; its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    async def _set(self, mode: Mode, bytes_per_s: int) -> None:
        self.mode, self._bytes_per_s, self._free_s = mode, bytes_per_s, 0.0
        if mode == "reset":
            self._reset(self._open)

    async def _close(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        self._reset(self._open)

    async def _accept(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        """One connection, until either side ends it; then the other's is ended the same way."""
        self.connections += 1
        ends = [to_client]
        self._open.add(to_client)
        try:
            if self.mode == "reset":
                raise ConnectionResetError
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self.upstream)
            ends.append(to_broker)
            self._open.add(to_broker)
            await self._join(from_client, to_broker, from_broker, to_client)
            for end in ends:
                end.close()
        except (OSError, asyncio.CancelledError):  # reset, or nobody listens upstream
            self._reset(ends)
        finally:
            self._open.difference_update(ends)

    async def _join(
        self,
        from_client: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        from_broker: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
    ) -> None:
        """Carry bytes both ways until one of the streams ends; OSError where it is broken."""
        ways = {
            asyncio.ensure_future(self._carry(from_client, to_broker, "swallow")),
            asyncio.ensure_future(self._carry(from_broker, to_client, "mute")),
        }
        done, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in others:
            way.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for way in done:
            way.result()

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, loses: Mode
    ) -> None:
        """From the source to the sink until its end; from the first byte in the mode `loses` on,
        nowhere.
        """
        broken = False
        while some := await source.read(_AT_A_TIME):
            broken = broken or self.mode == loses
            if broken:
                self.lost += len(some)
            else:
                await self._write(some, sink)

    async def _write(self, some: bytes, sink: asyncio.StreamWriter) -> None:
        """Write it all, at the link's rate while that is slow."""
        while some:
            size = len(some)
            if self.mode == "slow":
                size = min(size, max(1, self._bytes_per_s // _SLICES_PER_S))
                now_s = self._loop.time()
                self._free_s = max(now_s, self._free_s) + size / self._bytes_per_s
                await asyncio.sleep(self._free_s - now_s)
            sink.write(some[:size])
            await sink.drain()
            some = some[size:]

    @staticmethod
    def _reset(ends: Iterable[asyncio.StreamWriter]) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.transport.abort()
