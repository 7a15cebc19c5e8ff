"""
Many small resources, and what must become of them: edited while things break, judged afterwards.

Each has one server without pods, so that a test's time goes into what it is about. The crowd's
user is patient: a request that the API server did not answer is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bridge.kube import MERGE_PATCH
from bridge.settings import variable
from crds.inferadeployment import KIND
from crds.kind import Kind
from crds.kubernetes import DEPLOYMENT, SERVICE, Manifest
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import Setting, WeirProcess
from tests.builders import an_infera_deployment
from tests.e2e.population import queue_depth
from tests.faults.kubeconfig import api_server
from tests.stack.eventually import PATIENCE_SECONDS, eventually
from tests.stack.fixtures import Weir
from tests.witness.audit import AuditLog
from tests.witness.history import read_history, spans_of_history
from tests.witness.overlap import Ownership, overlaps, spans_of_writes

PRODUCTION: Mapping[str, Setting] = {}
QUICK: Mapping[str, Setting] = {
    "lease_seconds": 6,
    "lease_renew_seconds": 1.5,
    "ack_wait_seconds": 4,
    "write_timeout_seconds": 4,
    "stream_check_seconds": 1,
    "concurrency": 8,
    "resync_seconds": 86_400,
}
"""
Half of production's times, with the same order among them, for a machine that is busy otherwise.

No periodic resync comes to the aid of what should heal by itself.
"""

_AT_ONCE = 16
_PATIENCE_SECONDS = 3 * PATIENCE_SECONDS
_ASK_AGAIN_SECONDS = 0.2
_SERVER_IN_TROUBLE = 500
_CLIENT_SLOW_DOWN = 429
_ENDS = {"reconciled", "delivery not settled"}
"""Log lines with which a handler ends a reconcile that wrote something."""


def image(number: int) -> str:
    """Return the image of an edition."""
    return f"registry.example/infera:{number}"


class Crowd:
    """The resources of one namespace: what its user asked for last, and what came of it."""

    def __init__(
        self, cluster: ControlPlane, namespace: str, session: aiohttp.ClientSession
    ) -> None:
        self.namespace = namespace
        self.wanted: dict[str, str] = {}
        """The image that each resource was last given; what was deleted is not in it."""
        self._audit = AuditLog(cluster.audit_log)
        self._offset = self._audit.offset()
        self._session = session
        self._editions = 0
        self._limit = asyncio.Semaphore(_AT_ONCE)

    # What the user does

    async def create(self, *names: str) -> None:
        """The resources exist."""
        await self._all(self._create, names)

    async def edit(self, *names: str) -> None:
        """Each has an image that none had before."""
        await self._all(self._edit, names)

    async def delete(self, *names: str) -> None:
        """They are gone, and their children will be."""
        await self._all(self._delete, names)

    async def _all(self, act: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(self._one(act, name))

    async def _one(self, act: Callable[[str], Awaitable[None]], name: str) -> None:
        async with self._limit:
            await act(name)

    async def _create(self, name: str) -> None:
        edition = self._next()
        resource = an_infera_deployment(name).with_server(replicas=0).with_image(edition)
        await self.request("POST", KIND.path(self.namespace), resource.manifest(), accept=(409,))
        self.wanted[name] = edition

    async def _edit(self, name: str) -> None:
        edition = self._next()
        await self.request("PATCH", KIND.path(self.namespace, name), {"spec": {"image": edition}})
        self.wanted[name] = edition

    async def _delete(self, name: str) -> None:
        await self.request("DELETE", KIND.path(self.namespace, name), accept=(404,))
        del self.wanted[name]

    def _next(self) -> str:
        self._editions += 1
        return image(self._editions)

    # What is there

    async def items(self, kind: Kind) -> dict[str, Manifest]:
        """Return the namespace's objects of a kind by name."""
        listed = await self.request("GET", kind.path(self.namespace))
        return {item["metadata"]["name"]: item for item in listed["items"]}

    async def converge(self, nats_url: str, within_seconds: float = 120.0) -> None:
        """Everything is as it was last asked for, and no message waits or is in hand."""

        async def is_so() -> bool:
            complaints = [complaint async for complaint in self._complaints()]
            assert not complaints, f"{len(complaints)}: {complaints[:4]}"
            depth = await queue_depth(nats_url)
            assert (depth.pending, depth.in_flight) == (0, 0), depth
            return True

        await eventually(is_so, within_seconds, every_seconds=0.3)

    async def _complaints(self) -> AsyncIterator[str]:
        resources = await self.items(KIND)
        deployments = await self.items(DEPLOYMENT)
        services = await self.items(SERVICE)
        if set(resources) != set(self.wanted):
            yield f"not the resources wanted: {set(resources) ^ set(self.wanted)}"
        for name, resource in resources.items():
            observed = (resource.get("status") or {}).get("observedGeneration")
            if observed != resource["metadata"]["generation"]:
                yield f"{name}: status of generation {observed}"
        children = {f"{name}-server": edition for name, edition in self.wanted.items()}
        for what, held in (("Deployment", deployments), ("Service", services)):
            for name in set(held) ^ set(children):
                yield f"{what} {name} {'is left' if name in held else 'is missing'}"
        for name, deployment in deployments.items():
            has = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
            if has != children.get(name):
                yield f"{name} has {has}, not {children.get(name)}"

    # What the witnesses say

    async def never_two_at_once(
        self,
        handlers: Iterable[WeirProcess],
        nats_url: str,
        killed: Mapping[str, Iterable[datetime]] = {},
    ) -> None:
        """
        Fail if the audit log, or what is left of the history, shows reconciles that overlap.

        *killed* says when handlers were killed whose names the next ones took over.
        """
        writes = [
            event
            for event in self._audit.mutating(
                user_agent_prefix="weir-handlers",
                namespace=self.namespace,
                from_offset=self._offset,
            )
            # What is turned away at the door (429) was never read, and has no name.
            if event.object_ref.name
        ]
        assert any(event.landed for event in writes), "nothing was reconciled at all"
        finished = _ends_in_logs(handlers)
        told = [
            moment
            for moment in await read_history(nats_url)
            if moment.owner.startswith(f"{self.namespace}/")
        ]
        spans = spans_of_writes(writes, Ownership(), finished=finished, killed=killed)
        found = overlaps(spans)
        found += overlaps(spans_of_history(told))
        assert not found, "\n".join(map(str, found))

    def deletes(self) -> list[str]:
        """Return what our handlers deleted."""
        return [
            str(event)
            for event in self._audit.mutating(
                user_agent_prefix="weir", namespace=self.namespace, from_offset=self._offset
            )
            if event.verb == "delete"
        ]

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        accept: tuple[int, ...] = (),
        patch_type: str = MERGE_PATCH,
    ) -> Any:
        """Return what an administrator's request is answered, however often it takes."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        headers = {"Content-Type": patch_type if method == "PATCH" else "application/json"}
        data = None if body is None else msgspec.json.encode(body)
        while True:
            try:
                async with self._session.request(method, path, data=data, headers=headers) as reply:
                    text = await reply.text()
                    if reply.ok or reply.status in accept:
                        return msgspec.json.decode(text)
                    trouble = f"{method} {path}: {reply.status} {text}"
                    if reply.status not in (403, _CLIENT_SLOW_DOWN) and (
                        reply.status < _SERVER_IN_TROUBLE
                    ):
                        raise AssertionError(trouble)
            except (aiohttp.ClientError, TimeoutError) as exc:
                trouble = f"{method} {path}: {exc!r}"
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(trouble)
            await asyncio.sleep(_ASK_AGAIN_SECONDS)


@asynccontextmanager
async def a_crowd(cluster: ControlPlane, namespace: str, size: int = 0) -> AsyncIterator[Crowd]:
    """Give a crowd of so many resources, named r000 and so on, and its user."""
    server = api_server(cluster.kubeconfig())
    assert server.tls is not None
    async with aiohttp.ClientSession(
        server.url,
        headers={"Authorization": f"Bearer {server.token}", "User-Agent": "crowd"},
        connector=aiohttp.TCPConnector(ssl=server.tls),
        timeout=aiohttp.ClientTimeout(total=10),
    ) as session:
        crowd = Crowd(cluster, namespace, session)
        await crowd.create(*names(size))
        yield crowd


def names(end: int, begin: int = 0) -> list[str]:
    """Return the names of a crowd's resources."""
    return [f"r{number:03}" for number in range(begin, end)]


def a_bridge(
    weir: Weir, settings: Mapping[str, Setting], *namespaces: str, kubeconfig: Path | None = None
) -> WeirProcess:
    """Start a bridge that sees these namespaces only; it may not be ready yet."""
    seen = {**settings, "watch_namespaces": ",".join(namespaces)}
    return weir.bridge(kubeconfig=kubeconfig, environment=_variables(seen))


def a_handler(weir: Weir, settings: Mapping[str, Setting]) -> WeirProcess:
    """Start a handlers process; it may not be ready yet."""
    return weir.handlers(environment=_variables(settings))


def _variables(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {variable(field): str(value) for field, value in settings.items()}


async def http_get(url: str) -> tuple[int, str]:
    """Return status and text of what a process of Weir answers."""
    async with aiohttp.request(
        "GET", url, timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    ) as reply:
        return reply.status, await reply.text()


def log_lines(process: WeirProcess) -> Iterator[dict[str, Any]]:
    """Return what a process of Weir has logged; a torn last line is left out."""
    for line in process.log_text().splitlines():
        try:
            said = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(said, dict):
            yield said


def _ends_in_logs(handlers: Iterable[WeirProcess]) -> dict[tuple[str, str], list[datetime]]:
    """Return when each (owner, handler) ended a reconcile: WEIR_HISTORY may be what was lost."""
    found: dict[tuple[str, str], list[datetime]] = {}
    for process in handlers:
        for said in log_lines(process):
            if said["message"] in _ENDS and "name" in said:
                owner = f"{said['namespace']}/{said['name']}"
                moments = found.setdefault((owner, process.name), [])
                moments.append(datetime.fromisoformat(said["time"]))
    return found
