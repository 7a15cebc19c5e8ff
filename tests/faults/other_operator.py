"""A stand-in for AMD's operator that nobody has stopped: it makes children, and goes on writing."""

from __future__ import annotations

import asyncio
import itertools
from copy import deepcopy
from typing import Any

import aiohttp
import msgspec

from bridge.kube import MERGE_PATCH
from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from crds.kubernetes import DEPLOYMENT, Manifest
from handlers.cli.devstack.cluster import Cluster
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from tests.faults.kubeconfig import api_server

MANAGER = "infera-operator"
LABEL = "example.com/old"
"""What it gives every child, and ours does not."""
EVERY_SECONDS = 0.5

_KINDS = {child.kind.kind: child.kind for child in CONTRACT.owns}


class StandInOperator:
    """Serves the resources of these names in a namespace while it is started."""

    def __init__(self, cluster: Cluster, namespace: str, *names: str) -> None:
        self._server = api_server(cluster.kubeconfig())
        self._namespace = namespace
        self._names = names
        self._session: aiohttp.ClientSession
        self._writing: asyncio.Task[None]
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """All children exist, with pod templates as ours has them, and all statuses."""
        self._session = aiohttp.ClientSession(
            self._server.url,
            headers={"Authorization": f"Bearer {self._server.token}", "User-Agent": "stand-in/1"},
            connector=aiohttp.TCPConnector(ssl=self._server.tls or True),
        )
        for name in self._names:
            resource = await self._request("GET", CONTRACT.kind, name)
            typed = msgspec.convert(resource, CONTRACT.resource)
            for child in HANDLER.render(typed, Facts()).children:
                theirs = deepcopy(child)
                theirs["metadata"]["labels"][LABEL] = "1"
                await self._request("POST", _KINDS[child["kind"]], body=theirs)
            await self._write(name, "0")
        self._writing = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        """It writes no more; what it began is done."""
        self._stopping.set()
        await self._writing
        await self._session.close()

    async def _go_on(self) -> None:
        for beat in itertools.count(1):
            await asyncio.sleep(EVERY_SECONDS)
            if self._stopping.is_set():
                return
            for name in self._names:
                await self._write(name, str(beat))

    async def _write(self, name: str, beat: str) -> None:
        """A status that differs, and a label of each Deployment: what moves times and no pod."""
        status = {"status": {"state": "pending", "observedGeneration": int(beat)}}
        await self._request("PATCH", CONTRACT.kind, name, "status", body=status)
        for service in ("server", "worker"):
            label = {"metadata": {"labels": {LABEL: beat}}}
            await self._request("PATCH", DEPLOYMENT, f"{name}-{service}", body=label)

    async def _request(
        self, method: str, kind: Kind, *path: str, body: Manifest | None = None
    ) -> Any:
        content = "application/json" if method == "POST" else MERGE_PATCH
        async with self._session.request(
            method,
            kind.path(self._namespace, *path),
            params={"fieldManager": MANAGER} if body is not None else {},
            data=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": content} if body is not None else {},
        ) as reply:
            assert reply.ok, f"{method} {path}: {await reply.text()}"
            return await reply.json()
