"""What a stand-in's controller needs of the API server: requests, and a copy kept by watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import aiohttp
import msgspec

from crds.kind import Kind
from crds.kubernetes import Manifest
from tests.faults.kubeconfig import api_server

AGAIN_SECONDS = 0.3
"""After this a controller tries again what failed, and looks again for what is not served."""
TOGETHER_SECONDS = 0.02
"""Changes that come within this are looked at once."""
REQUEST_SECONDS = 20.0
NOT_FOUND = 404
CONFLICT = 409
LINE_BYTES_MAX = 1 << 24
"""Of one event of a watch, which is one object."""

Key = tuple[str, str]
"""Namespace and name."""
UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


class ApiError(Exception):
    """The API server answered something other than what was asked for."""

    def __init__(self, status: int, text: str) -> None:
        """Take the HTTP status and what the server said."""
        super().__init__(f"{status}: {text}")
        self.status = status


class Client:
    """The API server for one stand-in: an administrator whose writes carry a field manager."""

    def __init__(self, kubeconfig: Path, manager: str) -> None:
        """Take who asks; `open` in the event loop that will use it."""
        self._server = api_server(kubeconfig)
        self._manager = manager
        self._session: aiohttp.ClientSession

    def open(self) -> None:
        """Be ready for requests."""
        self._session = aiohttp.ClientSession(
            self._server.url,
            headers={
                "Authorization": f"Bearer {self._server.token}",
                "User-Agent": f"stand-in-{self._manager}/1",
            },
            connector=aiohttp.TCPConnector(ssl=self._server.tls or True),
            read_bufsize=LINE_BYTES_MAX,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()
        await asyncio.sleep(0)

    async def get(self, path: str, **query: str) -> Manifest:
        """Return what is at a path."""
        return await self._ask("GET", path, query)

    async def find(self, path: str) -> Manifest | None:
        """Return the object at a path, None where there is none."""
        try:
            return await self.get(path)
        except ApiError as exc:
            if exc.status == NOT_FOUND:
                return None
            raise

    async def post(self, path: str, body: Manifest) -> Manifest:
        """Create an object; return it."""
        return await self._ask("POST", path, {"fieldManager": self._manager}, body)

    async def put(self, path: str, body: Manifest) -> Manifest:
        """Replace an object, or its status; return it."""
        return await self._ask("PUT", path, {"fieldManager": self._manager}, body)

    async def delete(self, path: str, uid: str) -> None:
        """Ask for the deletion of that very object; one that is gone already is all right."""
        try:
            await self._ask("DELETE", path, {}, {"preconditions": {"uid": uid}})
        except ApiError as exc:
            if exc.status not in (NOT_FOUND, CONFLICT):
                raise

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Manifest]:
        """Yield the events of a watch until the server ends it."""
        waits = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS)
        async with self._session.get(path, params={**query, "watch": "1"}, timeout=waits) as reply:
            if not reply.ok:
                raise ApiError(reply.status, await reply.text())
            try:
                while (line := await reply.content.readline()).endswith(b"\n"):
                    yield msgspec.json.decode(line)
            finally:
                # TLS would say goodbye and wait for the answer, which outlives the session.
                if reply.connection is not None and reply.connection.transport is not None:
                    reply.connection.transport.abort()

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: Manifest | None = None
    ) -> Manifest:
        async with self._session.request(
            method,
            path,
            params=query,
            data=None if body is None else msgspec.json.encode(body),
            headers={} if body is None else {"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        ) as reply:
            if not reply.ok:
                raise ApiError(reply.status, f"{method} {path}: {await reply.text()}")
            answer: Manifest = msgspec.json.decode(await reply.read())
            return answer


class Copy:
    """The objects of a kind in all namespaces as a watch tells; none while it is not served."""

    def __init__(self, kind: Kind, selector: str) -> None:
        """Take what is watched."""
        self.kind = kind
        self.objects: dict[Key, Manifest] = {}
        self.is_known = False
        """Whether there was a first answer, be it that the kind is not served."""
        self._query = {"labelSelector": selector} if selector else {}

    async def keep(self, client: Client, changed: asyncio.Event) -> None:
        """Follow the API server until cancelled, through its restarts and the comings of a CRD."""
        while True:
            try:
                await self._follow(client, changed)
            except ApiError as exc:
                if exc.status == NOT_FOUND:
                    self.objects, self.is_known = {}, True
                    changed.set()
            except UNREACHABLE:
                pass  # what was seen last still stands
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, client: Client, changed: asyncio.Event) -> None:
        listed = await client.get(self.kind.path(), **self._query)
        self.objects = {_key(item): item for item in listed["items"] or ()}
        self.is_known = True
        changed.set()
        version = listed["metadata"]["resourceVersion"]
        events = client.watch(self.kind.path(), resourceVersion=version, **self._query)
        async with aclosing(events):
            async for event in events:
                seen = event["object"]
                match event["type"]:
                    case "ADDED" | "MODIFIED":
                        self.objects[_key(seen)] = seen
                    case "DELETED":
                        self.objects.pop(_key(seen), None)
                    case _:
                        return
                changed.set()


class Controller:
    """Watches kinds and calls `reconcile` after changes, while it is started."""

    def __init__(
        self,
        client: Client,
        watched: Sequence[Copy],
        reconcile: Callable[[], Awaitable[bool]],
    ) -> None:
        """Take `reconcile`, which says whether it is to be called again though nothing changed."""
        self._client = client
        self._watched = watched
        self._reconcile = reconcile
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Watch from now on."""
        self._client.open()
        changed = asyncio.Event()
        self._tasks = [
            *(asyncio.create_task(copy.keep(self._client, changed)) for copy in self._watched),
            asyncio.create_task(self._go_on(changed)),
        ]

    async def stop(self) -> None:
        """Do nothing any more; raise what ended it before, which is a fault of the stand-in."""
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _go_on(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            await asyncio.sleep(TOGETHER_SECONDS)
            changed.clear()
            if not all(copy.is_known for copy in self._watched):
                continue
            try:
                is_done = not await self._reconcile()
            except UNREACHABLE:
                is_done = False
            if not is_done:
                await asyncio.sleep(AGAIN_SECONDS)
                changed.set()


def _key(item: Manifest) -> Key:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
