"""A client of the API server that does nothing but send: bytes out, bytes in, 16 at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from bridge.kube import JSON
from crds.kind import Kind
from tests.faults.kubeconfig import api_server

IN_FLIGHT = 16

T = TypeVar("T")


class Client:
    """The API server, to one user."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Take a session that carries the user's token and name."""
        self._session = session

    async def send(
        self, method: str, path: str, body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        """Return the answer to a request; raise ClientResponseError where it is refused."""
        headers = {"Content-Type": content_type}
        async with self._session.request(method, path, data=body, headers=headers) as reply:
            answer = await reply.read()
            if not reply.ok:
                raise aiohttp.ClientResponseError(
                    reply.request_info,
                    reply.history,
                    status=reply.status,
                    message=answer.decode(errors="replace"),
                )
            return answer

    async def items(self, kind: Kind, namespace: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        listed = msgspec.json.decode(await self.send("GET", kind.path(namespace)))
        found: list[dict[str, Any]] = listed["items"]
        return found


@asynccontextmanager
async def client(kubeconfig: Path, user_agent: str) -> AsyncIterator[Client]:
    """Give a client that the audit log knows by this User-Agent."""
    server = api_server(kubeconfig)
    async with aiohttp.ClientSession(
        server.url,
        headers={"Authorization": f"Bearer {server.token}", "User-Agent": user_agent},
        connector=aiohttp.TCPConnector(ssl=server.tls or True, limit=IN_FLIGHT),
        read_bufsize=1 << 20,
    ) as session:
        yield Client(session)


async def each(items: Iterable[T], act: Callable[[T], Awaitable[object]]) -> None:
    """`act` is done for every item, 16 at once, begun in their order; its first error is raised."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await act(item)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
