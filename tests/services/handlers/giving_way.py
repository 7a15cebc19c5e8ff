"""A resource at a real API server one of whose children gives way to others, by and by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bridge.events import ChildHint, EventType
from bridge.kube import MERGE_PATCH
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT, DEPLOYMENT_LABEL
from crds.kubernetes import POD, Manifest
from handlers.dry_run import DryRun
from handlers.errors import LeaseLost
from handlers.handler import AnyHandler, ChildName, Rendering
from handlers.inferadeployment import HANDLER
from handlers.settle import Outcome
from handlers.state import EMPTY
from handlers.writes import Writes
from tests.services.handlers.conftest import OWNER, Desk
from tests.services.handlers.looking import looked
from tests.services.handlers.renderings import ORDINARY, a_deployment

FORMER = ChildName("Deployment", "child")
SUCCESSOR = ChildName("StatefulSet", "child")
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class Scene:
    """A resource whose workload was a Deployment, and looks at it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.former = a_deployment()(desk)
        self.successor = ORDINARY["a stateful set"](desk)
        self.rendering = self.forwards()
        self.known = [FORMER, SUCCESSOR]
        """Children that the bridge tells of where they are."""
        self.serving: set[ChildName] = set()
        self.due = 0
        """Pods that a successor should have made by now."""
        self.state = EMPTY
        self.settings = Settings(other_operator_seconds=0.0)

    def forwards(self, successor: Manifest | None = None) -> Rendering:
        """Return what is asked for once the kind was changed."""
        made = successor or self.successor
        return Rendering(children=(made,), succeeds={FORMER: ChildName(made["kind"], "child")})

    def backwards(self) -> Rendering:
        """Return what is asked for once it was changed back."""
        return Rendering(children=(self.former,), succeeds={SUCCESSOR: FORMER})

    @property
    def handler(self) -> AnyHandler:
        """The kind, but for what the resource asks for and who serves."""
        return msgspec.structs.replace(
            HANDLER,
            render=lambda _resource, _facts: self.rendering,
            serves=lambda _resource, child, _live: child in self.serving,
            pods_of=lambda _resource, child: f"is={child.kind}",
            pod_selector=lambda _resource: f"{DEPLOYMENT_LABEL}={OWNER}",
            workload_of=lambda _resource, pod: ChildName(pod["metadata"]["labels"]["is"], "child"),
            pods_due=lambda _live: self.due,
            recorded=lambda _resource: (),
        )

    async def by_event(self) -> Outcome:
        """Look because something changed; the bridge knows every child."""
        hints = [
            ChildHint(name.kind, name.name, "uid")
            for name in self.known
            if await self.is_there(name)
        ]
        return await self.look(EventType.CHANGED, *hints)

    async def by_timer(self) -> Outcome:
        """Look because time passed: such an event names no child."""
        return await self.look(EventType.TIMER)

    async def look(self, type_: EventType, *hints: ChildHint) -> Outcome:
        """Reconcile once and settle; what is remembered is remembered."""
        return await self._look(type_, hints, self.desk.making().writer)

    async def foretold(self) -> DryRun:
        """Return what a dry run tells of a look at everything."""
        dry_run = DryRun(self.desk._writer(self.desk.dry))
        self.settings = msgspec.structs.replace(self.settings, dry_run=True)
        await self._look(EventType.RESYNC, (), dry_run)
        return dry_run

    async def _look(
        self, type_: EventType, hints: tuple[ChildHint, ...], writer: Writes
    ) -> Outcome:
        outcome, self.state = await looked(
            self.desk, self.handler, (type_, hints), writer, self.state, self.settings
        )
        return outcome

    async def is_there(self, name: ChildName) -> bool:
        """Return whether a child exists and is not on its way out."""
        return await self.uid(name) is not None

    async def uid(self, name: ChildName) -> str | None:
        """Return which child of that name there is."""
        data = await self.desk.admin.get(self.desk.kind(name.kind), self.desk.namespace, name.name)
        metadata = msgspec.json.decode(data)["metadata"] if data is not None else {}
        return None if "deletionTimestamp" in metadata else metadata.get("uid")

    async def condition(self, type_: str) -> Manifest | None:
        """Return a condition of the resource."""
        data = await self.desk.admin.get(CONTRACT.kind, self.desk.namespace, OWNER)
        assert data is not None
        listed = (msgspec.json.decode(data).get("status") or {}).get("conditions") or ()
        return next((one for one in listed if one["type"] == type_), None)

    async def a_pod(self, name: str, of: str, *conditions: Manifest, **metadata: Any) -> None:
        """A pod that no scheduler looks at says this of itself."""
        labels = {"is": of, DEPLOYMENT_LABEL: OWNER}
        containers = [{"name": "main", "image": "registry.example/a:1"}]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.desk.namespace,
                "labels": labels,
                **metadata,
            },
            "spec": {"containers": containers, "schedulerName": "nobody"},
        }
        await self.desk.admin.create(POD, self.desk.namespace, pod, timeout_seconds=5)
        await self.desk.admin.request(
            "PATCH",
            POD.path(self.desk.namespace, name, "status"),
            body=msgspec.json.encode({"status": {"conditions": list(conditions)}}),
            content_type=MERGE_PATCH,
        )

    async def pod_ends(self, name: str) -> None:
        """A pod is told to end: one that no node has is gone then, unless a finalizer holds it."""
        await self.desk.admin.request("DELETE", POD.path(self.desk.namespace, name))

    async def pod_is_let_go(self, name: str) -> None:
        """No finalizer holds a pod any more."""
        await self.desk.admin.request(
            "PATCH",
            POD.path(self.desk.namespace, name),
            body=msgspec.json.encode({"metadata": {"finalizers": None}}),
            content_type=MERGE_PATCH,
        )

    def deletes(self) -> list[str]:
        """Return what the last look deleted."""
        return [what for what in self.desk.written if what.startswith("delete")]


class EndingLease:
    """A lease that is over after so many calls: as if its holder had died there."""

    predecessor_died = False

    def __init__(self, calls: int) -> None:
        self.calls = calls

    @property
    def seconds_left(self) -> float:
        """How long it still lasts: asked before each call."""
        self.calls -= 1
        return 60.0 if self.calls >= 0 else 0.0


async def cut_at_every_write(scene: Scene, holds: Callable[[], Awaitable[bool]]) -> int:
    """
    Return at how many calls a look could be cut, once one was not; after each something holds.

    What is remembered is lost each time.
    """
    alive, cuts, was_cut = scene.desk.lease, 0, True
    while was_cut:
        scene.desk.lease = EndingLease(cuts)  # type: ignore[assignment]
        was_cut = await _is_cut(scene.by_event())
        assert await holds()
        scene.state = EMPTY
        cuts += was_cut
    scene.desk.lease = alive
    return cuts


async def _is_cut(look: Awaitable[Outcome]) -> bool:
    try:
        await look
    except LeaseLost:
        return True
    return False
