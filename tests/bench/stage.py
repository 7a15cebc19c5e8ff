"""For one figure: a control plane that nobody used before, NATS, a user, and who is measured."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers.cli.devstack import access
from handlers.cli.devstack.cluster import role_binding
from handlers.cli.devstack.control_plane import RBAC_GROUP, Binaries, ControlPlane
from handlers.cli.devstack.fleet import Fleet
from handlers.cli.devstack.loopback import answers
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.process import Process, remove_directory, reserve_port, run_directory
from handlers.cli.devstack.progress import heartbeat
from handlers.cli.devstack.weir import (
    REPOSITORY,
    Component,
    Setting,
    WeirProcess,
    shipped_manifests,
)
from tests.bench import bare_client, kopf_operator
from tests.bench import user as user_of
from tests.bench.client import Client, client
from tests.bench.machine import machine
from tests.bench.timing import Silence, Tail, TooSlow, watch
from tests.e2e.population import QueueDepth, is_ready, queue_depth

NOBODY_LOOKS_AGAIN: Mapping[str, Setting] = {
    "not_ready_seconds": 86_400,
    "not_ready_seconds_max": 86_400,
}
"""Without controllers nothing gets ready, and to look again for ever would be measured too."""
WEIR = "weir"
KOPF = "kopf"
"""How the User-Agents of whoever writes begin; Kopf's own is `kopf/...`."""
READY_SECONDS = 60.0
CALM_SECONDS = 4.0
POLL_SECONDS = 0.1
DRAINED_POLLS = 5
"""In a row, because a bridge holds the events of children for 0.1 s."""
WARM_UP = 50
"""So many births are rehearsed first: who is measured first must not pay for a cold server."""
_PODS_EACH = 4
"""Two pods of a resource, and as many again while a roll-out goes on."""
_NODES = 10

_KOPF_ROLE = {
    "apiVersion": f"{RBAC_GROUP}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": kopf_operator.USER_AGENT},
    "rules": [
        {
            "apiGroups": [CONTRACT.kind.group],
            "resources": [CONTRACT.kind.plural, f"{CONTRACT.kind.plural}/status"],
            "verbs": ["get", "list", "watch", "patch"],
        },
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
    ],
}
"""What Kopf needs besides the role of Weir's handlers."""


class Parts(Struct, frozen=True, kw_only=True):
    """The programs that a stage is made of."""

    control_plane: Binaries
    nats: Path


class Stage:
    """One figure's world, empty at first; `stage` makes and ends it."""

    def __init__(
        self, plane: ControlPlane, nats: NatsServer, scratch: Path, ends: AsyncExitStack
    ) -> None:
        self.plane = plane
        self.nats = nats
        self.tail = Tail(plane.audit_log)
        self.machine = machine(plane, nats)
        self.servers = (plane.api_server, plane.etcd.process, nats.process)
        self.user: Client
        self.bare: Client
        self._scratch = scratch
        self._ends = ends
        self._started = 0

    # Who is measured

    def start(self, component: Component, **settings: Setting) -> WeirProcess:
        """Start a bridge or handlers with the role that we ship; it may not be ready yet."""
        self._started += 1
        is_bridge = component == "bridge"
        process = WeirProcess(
            component,
            f"{component}-{self._started}",
            directory=self._scratch,
            kubeconfig=self.plane.kubeconfig(access.BRIDGE if is_bridge else access.HANDLERS),
            nats_url=self.nats.url,
            settings=settings if self.plane.controllers else {**NOBODY_LOOKS_AGAIN, **settings},
        )
        self._run(process)
        return process

    def weir(self, handlers: int = 1, **settings: Setting) -> list[Process]:
        """Return a bridge and so many handlers processes, ready."""
        processes = [self.start("bridge", **settings)]
        processes += [self.start("handlers", **settings) for _ in range(handlers)]
        for process in processes:
            process.wait_ready(READY_SECONDS)
        return [*processes]

    def start_kopf(self) -> tuple[Process, str]:
        """Start the Kopf operator; return it with the URL that answers once it is ready."""
        liveness = f"http://127.0.0.1:{reserve_port()}/healthz"
        kubeconfig = str(self.plane.kubeconfig(kopf_operator.USER_AGENT))
        self._started += 1
        process = Process(
            f"kopf-{self._started}",
            [
                sys.executable,
                "-m",
                "kopf",
                "run",
                "--standalone",
                f"--namespace={user_of.NAMESPACE}",
                f"--liveness={liveness}",
                str(Path(kopf_operator.__file__)),
            ],
            log=self._scratch / "kopf.log",
            environment={
                "KUBECONFIG": kubeconfig,
                "BENCH_KUBECONFIG": kubeconfig,
                "PYTHONPATH": str(REPOSITORY),
            },
            directory=self._scratch,
        )
        self._run(process)
        return process, liveness

    def kopf(self) -> list[Process]:
        """Return the Kopf operator, ready."""
        process, liveness = self.start_kopf()
        process.wait_until(lambda: answers(liveness), READY_SECONDS)
        return [process]

    def _run(self, process: Process) -> None:
        self._ends.callback(process.kill)
        process.start()

    # What is there

    async def resources(self) -> list[Manifest]:
        """Return the resources, as they are now."""
        return await self.user.items(CONTRACT.kind, user_of.NAMESPACE)

    async def waiting(self, count: int, within_seconds: float) -> None:
        """Return once so many messages wait in the queue."""
        await self._queue(lambda depth: depth.pending >= count, 1, within_seconds)

    async def drained(self, within_seconds: float) -> datetime:
        """Return since when the queue is empty, once it has been for as long as events are held."""
        return await self._queue(
            lambda depth: (depth.pending, depth.in_flight) == (0, 0), DRAINED_POLLS, within_seconds
        )

    async def _queue(
        self, is_so: Callable[[QueueDepth], bool], times: int, within_seconds: float
    ) -> datetime:
        """Return since when the queue is so, once it was seen to be so many times in a row."""
        depth, since, seen = None, datetime.now(UTC), 0
        with heartbeat("queue"):
            try:
                async with asyncio.timeout(within_seconds):
                    while True:
                        depth = await queue_depth(self.nats.url)
                        seen = seen + 1 if is_so(depth) else 0
                        if seen == 1:
                            since = datetime.now(UTC)
                        if seen >= times:
                            return since
                        await asyncio.sleep(POLL_SECONDS)
            except TimeoutError as exc:
                raise TooSlow(f"queue: {depth} after {within_seconds:.0f} s") from exc

    async def at_rest(self, within_seconds: float) -> None:
        """Return once every resource is Ready, nobody writes any more, and the queue is empty."""
        lacking = 0
        try:
            async with asyncio.timeout(within_seconds):
                while True:
                    lacking = sum(not is_ready(r) for r in await self.resources())
                    if not lacking:
                        break
                    await asyncio.sleep(1)
        except TimeoutError as exc:
            raise TooSlow(f"{lacking} are not Ready after {within_seconds:.0f} s") from exc
        silence = Silence(user_of.NAMESPACE, CALM_SECONDS)
        await watch(self.tail, silence, what="calm", within_seconds=within_seconds)
        await self.drained(within_seconds)


@asynccontextmanager
async def stage(
    parts: Parts, *, controllers: Sequence[str] = (), resources: int = 0
) -> AsyncIterator[Stage]:
    """Give a stage with these controllers and room for the pods of so many resources."""
    async with AsyncExitStack() as ends:
        scratch = run_directory("bench")
        ends.callback(remove_directory, scratch)
        fleet = Fleet(nodes=_NODES, pods_per_node=110 + resources * _PODS_EACH // _NODES)
        plane = ControlPlane(
            parts.control_plane,
            fleet=fleet,
            controllers=controllers,
            manifests=shipped_manifests(),
        )
        name = kopf_operator.USER_AGENT
        plane.users[name] = access.User(name=name, token=secrets.token_hex(16))
        ends.callback(plane.stop)
        plane.start()
        plane.kubectl("create", "-f-", document=_documents())
        nats = NatsServer(parts.nats, scratch)
        ends.callback(nats.kill)
        nats.start()
        made = Stage(plane, nats, scratch, ends)
        made.user = await ends.enter_async_context(
            client(plane.kubeconfig(access.ADMIN), user_of.USER_AGENT)
        )
        made.bare = await ends.enter_async_context(
            client(plane.kubeconfig(access.HANDLERS), bare_client.USER_AGENT)
        )
        await bare_client.rehearse(made.user, made.bare, user_of.resources(WARM_UP))
        made.tail.read()
        yield made


def _documents() -> list[dict[str, Any]]:
    """Return the namespace, and what lets the Kopf operator do its job."""
    subject = {"apiGroup": RBAC_GROUP, "kind": "User", "name": kopf_operator.USER_AGENT}
    as_handlers = role_binding(access.HANDLERS, subject)
    as_handlers["metadata"] = {"name": f"{kopf_operator.USER_AGENT}-children"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": user_of.NAMESPACE}},
        _KOPF_ROLE,
        role_binding(kopf_operator.USER_AGENT, subject),
        as_handlers,
    ]
