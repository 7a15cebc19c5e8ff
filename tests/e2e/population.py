"""InferaDeployments of one namespace: made at one instant, edited, and seen from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import nats
import nats.js.errors
from msgspec import Struct

from bridge.kube import MERGE_PATCH
from bridge.streams import QUEUE, consumer_name
from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers.cli.devstack.cluster import Cluster
from handlers.conditions import READY
from tests.e2e.stage import CHILD_KINDS
from tests.faults.kubeconfig import api_server

SHORT: Mapping[str, Any] = {
    "lease_seconds": 8,
    "lease_renew_seconds": 1.5,
    "ack_wait_seconds": 5,
    "write_timeout_seconds": 3,
    "stream_check_seconds": 1,
}
"""
Times of a handler's death and return, shorter than production's; the same order among them.

A process that gets no time for 3 s still has enough of its lease left to write.
"""

RESOURCES_AT_ONCE = 64


class ChildId(Struct, frozen=True, order=True):
    """A child: kind as in manifests, and name."""

    kind: str
    name: str


class Population:
    """The InferaDeployments of a namespace and their children, by an administrator's requests."""

    def __init__(self, session: aiohttp.ClientSession, namespace: str) -> None:
        """Take a session that reaches the API server as an administrator."""
        self._session = session
        self.namespace = namespace

    async def create(self, manifests: Iterable[Manifest]) -> None:
        """All of them exist, asked for at one instant."""
        limit = asyncio.Semaphore(RESOURCES_AT_ONCE)

        async def one(manifest: Manifest) -> None:
            async with limit:
                await self._request("POST", CONTRACT.kind.path(self.namespace), json=manifest)

        async with asyncio.TaskGroup() as tasks:
            for manifest in manifests:
                tasks.create_task(one(manifest))

    async def edit(self, name: str, spec: Manifest) -> None:
        """Merge a change of the spec into a resource."""
        await self._request(
            "PATCH",
            CONTRACT.kind.path(self.namespace, name),
            json={"spec": spec},
            headers={"Content-Type": MERGE_PATCH},
        )

    async def delete(self, name: str) -> None:
        """Delete a resource, as `kubectl delete` does."""
        await self._request("DELETE", CONTRACT.kind.path(self.namespace, name))

    async def resource(self, name: str) -> Manifest | None:
        """Return a resource, None where there is none."""
        return (await self.resources()).get(name)

    async def resources(self) -> dict[str, Manifest]:
        """Return the resources by name."""
        return {item["metadata"]["name"]: item for item in await self._list(CONTRACT.kind)}

    async def children(self) -> dict[str, dict[ChildId, Manifest]]:
        """Return the children by the name of their controller."""
        found: dict[str, dict[ChildId, Manifest]] = {}
        lists = await asyncio.gather(*map(self._list, CHILD_KINDS))
        for kind, items in zip(CHILD_KINDS, lists, strict=True):
            for item in items:
                for reference in item["metadata"].get("ownerReferences") or ():
                    if reference.get("controller") and reference["kind"] == CONTRACT.kind.kind:
                        child = ChildId(kind.kind, item["metadata"]["name"])
                        found.setdefault(reference["name"], {})[child] = item
        return found

    async def events(self, name: str) -> list[Manifest]:
        """Return the Kubernetes Events about a resource."""
        selector = f"involvedObject.name={name}"
        path = f"/api/v1/namespaces/{self.namespace}/events"
        listed = await self._request("GET", path, params={"fieldSelector": selector})
        items: list[Manifest] = listed["items"]
        return items

    async def _list(self, kind: Kind) -> list[Manifest]:
        items: list[Manifest] = (await self._request("GET", kind.path(self.namespace)))["items"]
        return items

    async def _request(self, method: str, path: str, **how: Any) -> Any:
        async with self._session.request(method, path, **how) as reply:
            if reply.status >= 300:
                raise AssertionError(f"{method} {path}: {reply.status} {await reply.text()}")
            return await reply.json()


@asynccontextmanager
async def population(cluster: Cluster, namespace: str) -> AsyncIterator[Population]:
    """Give the resources of a namespace; they are left as they are in the end."""
    server = api_server(cluster.kubeconfig())
    async with aiohttp.ClientSession(
        server.url,
        headers={"Authorization": f"Bearer {server.token}", "User-Agent": "a-test/1"},
        connector=aiohttp.TCPConnector(ssl=server.tls or True, limit=RESOURCES_AT_ONCE),
    ) as session:
        yield Population(session, namespace)


def condition(resource: Manifest, type_: str = READY) -> Manifest:
    """Return a condition of a resource, empty where it has none of that type."""
    listed = (resource.get("status") or {}).get("conditions") or ()
    return next((entry for entry in listed if entry["type"] == type_), {})


def is_ready(resource: Manifest) -> bool:
    """Whether the present generation of a resource serves."""
    return condition(resource).get("status") == "True" and is_observed(resource)


def is_observed(resource: Manifest) -> bool:
    """Whether the status speaks of the present generation."""
    observed = (resource.get("status") or {}).get("observedGeneration")
    return bool(observed == resource["metadata"]["generation"])


class QueueDepth(Struct, frozen=True, kw_only=True):
    """What a group's consumer has before it and in hand."""

    pending: int
    in_flight: int


async def queue_depth(nats_url: str, group: str = CONTRACT.consumer) -> QueueDepth:
    """Return what waits in the queue now."""
    client = await nats.connect(nats_url)
    try:
        info = await client.jetstream().consumer_info(QUEUE, consumer_name(group))
    finally:
        await client.close()
    return QueueDepth(pending=info.num_pending or 0, in_flight=info.num_ack_pending or 0)
