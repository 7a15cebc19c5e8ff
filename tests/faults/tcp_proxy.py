"""
A TCP proxy in front of a real server, which cuts, freezes, refuses and delays on command.

Bytes pass as they are, so TLS goes through it end to end. The controls may be called from the
loop that started the proxy or from any thread; they hold when they return.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Self

from msgspec import Struct

from tests.faults.dead_port import bound
from tests.faults.own_loop import call_on

_CHUNK_BYTES = 64 * 1024
_BACKLOG = 512
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with zero seconds: close sends RST instead of FIN."""


class Counters(Struct):
    """What has passed so far."""

    accepted: int = 0
    """Connections accepted; those held by a freeze included."""
    cut: int = 0
    """Connections that `cut` reset."""
    bytes_up: int = 0
    """From clients to the server."""
    bytes_down: int = 0


class TcpProxy:
    """
    Forwards connections on 127.0.0.1:`port` to `upstream`, and makes faults of them.

    `upstream` may be changed while it runs: new connections follow a server that moved.
    """

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.port = 0
        self.counters = Counters()
        self._loop: asyncio.AbstractEventLoop
        self._reserved: socket.socket | None = None
        self._listener: socket.socket | None = None
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._flowing: asyncio.Event
        self._delay_seconds = 0.0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Accept connections on a port of our own, which stays ours while we refuse."""
        self._loop = asyncio.get_running_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        # Bound but never listening: the kernel gives the port to nobody else, and answers
        # connections with RST whenever the listener beside it is closed.
        self._reserved = bound(0)
        self.port = self._reserved.getsockname()[1]
        self._listen()

    async def stop(self) -> None:
        """Drop every connection and give the port back."""
        self._unlisten()
        links = tuple(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    @property
    def open(self) -> int:
        """How many connections are open now."""
        return len(self._links)

    def cut(self) -> int:
        """Reset every open connection, on both sides; return how many."""
        return call_on(self._loop, self._cut)

    def freeze(self) -> None:
        """Half-open: accept and hold, pass no byte and no FIN, until `thaw`."""
        call_on(self._loop, self._flowing.clear)

    def thaw(self) -> None:
        """Let what was held by `freeze` go on."""
        call_on(self._loop, self._flowing.set)

    def refuse(self) -> None:
        """Answer new connections with RST; open ones live on."""
        call_on(self._loop, self._unlisten)

    def allow(self) -> None:
        """Accept new connections again, on the same port."""
        call_on(self._loop, self._listen)

    def delay(self, seconds: float) -> None:
        """Hold everything, each way, for so long on its way; 0 ends it."""
        self._delay_seconds = seconds

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = bound(self.port)
            self._listener.listen(_BACKLOG)
            self._loop.add_reader(self._listener, self._accept)

    def _unlisten(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client went away between the wake-up and here
        client.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        self.counters.accepted += 1
        writers: list[asyncio.StreamWriter] = []
        link = self._loop.create_task(self._link(client, writers))
        self._links[link] = writers

        def ended(task: asyncio.Task[None]) -> None:
            del self._links[task]
            client.close()  # also where the task was cancelled before it began

        link.add_done_callback(ended)

    def _cut(self) -> int:
        links = tuple(self._links.items())
        for link, writers in links:
            for writer in writers:
                _reset(writer)
            link.cancel()
        self.counters.cut += len(links)
        return len(links)

    async def _link(self, client: socket.socket, writers: list[asyncio.StreamWriter]) -> None:
        """Carry one connection until both sides have ended it, or it is cut."""
        close: Callable[[asyncio.StreamWriter], None] = _reset
        try:
            down_reader, down_writer = await asyncio.open_connection(sock=client)
            writers.append(down_writer)
            await self._flowing.wait()
            up_reader, up_writer = await asyncio.open_connection(*self.upstream)
            writers.append(up_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(down_reader, up_writer, upwards=True))
                both.create_task(self._pump(up_reader, down_writer, upwards=False))
            close = asyncio.StreamWriter.close  # what is still buffered arrives
        except* OSError:
            pass  # one side is gone: so is the other, by the reset below
        finally:
            for writer in writers:
                close(writer)
            for writer in writers:
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upwards: bool
    ) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
            if upwards:
                self.counters.bytes_up += len(chunk)
            else:
                self.counters.bytes_down += len(chunk)
        await self._flowing.wait()
        writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    if (raw := writer.get_extra_info("socket")) is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
