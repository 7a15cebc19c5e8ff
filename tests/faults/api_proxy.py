"""
An HTTP proxy between one client and the API server, with rules that make faults.

It listens on plain HTTP so that it can see requests and goes to the API server over TLS. Paths,
headers and bodies pass as they are, both ways; watches are streamed unbuffered. What a client has
asked for is forwarded even when that client has died meanwhile, as a network would.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias
from urllib.parse import parse_qs

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from tests.faults.answers import Answer
from tests.faults.kubeconfig import ApiServer, api_server, point_at
from tests.faults.own_loop import call_on

_BODY_BYTES_MAX = 16 * 1024 * 1024
_WATCHER_CHECK_SECONDS = 0.5
"""The upstream half of a watch whose client went away ends within so long."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection, not of the message (RFC 9110, 7.6.1); lengths are made anew."""
_MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Request(Struct, frozen=True, kw_only=True):
    """A client's request, as a rule sees it."""

    n: int
    """1 for the first request since the proxy started."""
    method: str
    path: str
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_mutating(self) -> bool:
        """Whether the request asks for a change; a dry run counts as one."""
        return self.method in _MUTATING

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream without an end."""
        return self.query.get("watch", ("",))[0] in {"1", "true"}

    @property
    def identity(self) -> str:
        """The process of ours that asks, as its User-Agent names it; empty for anybody else."""
        return self.headers.get("User-Agent", "").partition("(")[2].partition(")")[0]


class Forward(Struct, frozen=True, kw_only=True):
    """
    The request is held, then sent on; `before` and `after` run around the API server's reply.

    Without `forward` the connection drops before the request reached the server, without
    `reply` after it did.
    """

    hold_seconds: float = 0.0
    before: Callable[[], None] | None = None
    forward: bool = True
    after: Callable[[], None] | None = None
    reply: bool = True


PASS = Forward()
DROP_BEFORE = Forward(forward=False)
DROP_AFTER = Forward(reply=False)

Action: TypeAlias = Answer | Forward
Rule: TypeAlias = Callable[[Request], Action | None]
"""What to do with a request; None leaves it to the next rule, and in the end to `PASS`."""


class Record(Struct):
    """One request that came by, and what became of it."""

    time: float
    n: int
    method: str
    path: str
    query: Mapping[str, tuple[str, ...]]
    user_agent: str
    status: int | None = None
    """None while it is under way, and where the connection was dropped."""


class HasPid(Protocol):
    """A process, of whichever library."""

    @property
    def pid(self) -> int:
        """Its process id."""


def hold(seconds: float) -> Forward:
    """Return the action that delays a request on its way, whatever its client does meanwhile."""
    return Forward(hold_seconds=seconds)


class ApiProxy:
    """Forwards http://127.0.0.1:`port` to the API server of a kubeconfig, by rules."""

    def __init__(self, kubeconfig: Path) -> None:
        self.port = 0
        self.records: list[Record] = []
        self._kubeconfig = kubeconfig
        self._rules: list[Rule] = []
        self._held = asyncio.Event()
        self._serving: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop
        self._server: ApiServer
        self._session: ClientSession
        self._runner: web.AppRunner

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve the client from now on."""
        self._loop = asyncio.get_running_loop()
        self._server = api_server(self._kubeconfig)
        self._session = ClientSession(
            connector=TCPConnector(limit=0, ssl=self._server.tls or True),
            timeout=ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        application = web.Application(client_max_size=_BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End every request and serve nothing any more."""
        for site in tuple(self._runner.sites):
            await site.stop()  # first: a client that is cut comes back at once
        self._cut()
        await self._session.close()  # aborts what is under way, so that nothing outlives the loop
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()  # aiohttp lets go of handlers whose client went away
        await asyncio.gather(*serving, return_exceptions=True)
        self._cut()
        await asyncio.sleep(0)  # the transports tell their protocols in the loop's next turn
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where the client finds us instead of the API server."""
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self, from_path: Path, to_path: Path) -> Path:
        """Write *from_path*, a user's kubeconfig, to *to_path* with us as its server."""
        point_at(from_path, to_path, self.url)
        return to_path

    def on_request(self, rule: Rule) -> Callable[[], None]:
        """Let *rule* judge every request before older rules do; return what takes it away."""
        self._rules.insert(0, rule)
        return lambda: self._rules.remove(rule) if rule in self._rules else None

    def kill_at(
        self,
        n: int,
        process: HasPid,
        *,
        when: Literal["before", "after"] = "before",
        matching: Callable[[Request], bool] = lambda _: True,
    ) -> threading.Event:
        """
        SIGKILL *process* at its n-th request, counted from here among the *matching* ones.

        Before: the request never reaches the API server. After: its effect is there and its
        reply is lost. The event that is returned is set once the process has been killed.
        """
        killed = threading.Event()
        seen = 0

        def kill() -> None:
            os.kill(process.pid, signal.SIGKILL)
            killed.set()

        def rule(request: Request) -> Action | None:
            nonlocal seen
            if not matching(request):
                return None
            seen += 1
            if seen != n:
                return None
            if when == "before":
                return Forward(before=kill, forward=False)
            return Forward(after=kill, reply=False)

        self.on_request(rule)
        return killed

    def release(self) -> None:
        """Let every request that is held now go on."""
        call_on(self._loop, self._release)

    def cut(self) -> int:
        """Reset every connection of the client, watches included; return how many."""
        return call_on(self._loop, self._cut)

    def _release(self) -> None:
        self._held.set()
        self._held = asyncio.Event()

    def _cut(self) -> int:
        assert self._runner.server is not None
        transports = [c.transport for c in self._runner.server.connections if c.transport]
        for transport in transports:
            _reset(transport)
        return len(transports)

    async def _serve(self, incoming: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            return await self._answer(incoming)
        finally:
            self._serving.discard(task)

    async def _answer(self, incoming: web.Request) -> web.StreamResponse:
        body = await incoming.read()
        path, _, query = incoming.raw_path.partition("?")
        request = Request(
            n=len(self.records) + 1,
            method=incoming.method,
            path=path,
            query={key: tuple(values) for key, values in parse_qs(query).items()},
            headers=incoming.headers,
            body=body,
        )
        record = Record(
            time=time.time(),
            n=request.n,
            method=request.method,
            path=path,
            query=request.query,
            user_agent=incoming.headers.get("User-Agent", ""),
        )
        self.records.append(record)
        match self._decide(request):
            case Answer() as answer:
                record.status = answer.status
                return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
            case Forward() as forward:
                return await self._forward(incoming, request, record, forward)

    def _decide(self, request: Request) -> Action:
        for rule in self._rules:
            if (action := rule(request)) is not None:
                return action
        return PASS

    async def _forward(
        self, incoming: web.Request, request: Request, record: Record, how: Forward
    ) -> web.StreamResponse:
        if how.hold_seconds:
            await self._hold(how.hold_seconds)
        if how.before is not None:
            how.before()
        if not how.forward:
            return _dropped(incoming)
        try:
            async with self._session.request(
                request.method,
                URL(self._server.url + incoming.raw_path, encoded=True),
                headers=self._headers(request),
                data=request.body or None,
                allow_redirects=False,
            ) as reply:
                if request.is_watch and how.reply:
                    record.status = reply.status
                    return await _stream(incoming, reply)
                content = await reply.read()
        except ClientError:
            return _dropped(incoming)  # the API server went away: so do we
        if how.after is not None:
            how.after()
        if not how.reply:
            return _dropped(incoming)
        record.status = reply.status
        return web.Response(status=reply.status, body=content, headers=_passed_on(reply.headers))

    async def _hold(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._held.wait()
        except TimeoutError:
            pass  # held for as long as it was to be

    def _headers(self, request: Request) -> CIMultiDict[str]:
        headers = _passed_on(request.headers)
        if self._server.token and "Authorization" not in headers:
            # client-go keeps a token to itself on a connection without TLS
            headers["Authorization"] = f"Bearer {self._server.token}"
        return headers


async def _stream(incoming: web.Request, reply: ClientResponse) -> web.StreamResponse:
    """Pass a watch on, chunk by chunk, until one side ends it."""
    outgoing = web.StreamResponse(status=reply.status, headers=_passed_on(reply.headers))
    try:
        await outgoing.prepare(incoming)
        while incoming.transport is not None:
            try:
                async with asyncio.timeout(_WATCHER_CHECK_SECONDS):
                    chunk = await reply.content.readany()
            except TimeoutError:
                continue  # nothing happened; is the client still there?
            if not chunk:
                await outgoing.write_eof()
                break
            await outgoing.write(chunk)
    except (ClientError, ConnectionError):
        _dropped(incoming)
    finally:
        # Without this, a watch that has not ended is shut down by TLS in its own time.
        if (connection := reply.connection) is not None and connection.transport is not None:
            connection.transport.abort()
    return outgoing


def _dropped(incoming: web.Request) -> web.Response:
    """Reset the client's connection; what is returned reaches nobody."""
    if incoming.transport is not None:
        _reset(incoming.transport)
    return web.Response(status=502)


def _reset(transport: asyncio.BaseTransport) -> None:
    if (raw := transport.get_extra_info("socket")) is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


def _passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP
    )
