"""What an end-to-end test does and sees: a namespace, Weir's processes, and what a user types."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterable
from typing import Any

import nats

from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from crds.kubernetes import POD, Manifest
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import WeirProcess
from tests.builders import InferaDeploymentBuilder
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir
from tests.witness.audit import AuditLog

INFERA_DEPLOYMENT = CONTRACT.kind
OWNED_KINDS: tuple[Kind, ...] = tuple(child.kind for child in CONTRACT.owns)
CHILD_KINDS: tuple[Kind, ...] = tuple(child.kind for child in CONTRACT.owns if not child.optional)
"""Kinds that every API server serves."""
_NOT_FOUND = 404


class Stage:
    """One namespace of a real cluster with a bridge and handlers, and eyes to look at it."""

    def __init__(self, cluster: ControlPlane, namespace: str, weir: Weir) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.weir = weir
        self.audit = AuditLog(cluster.audit_log)
        self.bridge: WeirProcess
        self.handlers: WeirProcess

    def start(self, **settings: Any) -> None:
        """Start one bridge and one handlers process, and return when both are ready."""
        self.bridge = self.weir.bridge(**settings)
        self.handlers = self.weir.handlers(**settings)
        self.bridge.wait_ready()
        self.handlers.wait_ready()

    # What a user does

    def kubectl(self, *arguments: str, document: Manifest | None = None, check: bool = True) -> str:
        """Return what kubectl printed, run in our namespace."""
        done = self.cluster.kubectl(
            f"--namespace={self.namespace}", *arguments, document=document, check=check
        )
        return done.stdout

    def apply(self, *resources: InferaDeploymentBuilder | Manifest) -> None:
        """`kubectl apply -f`, as users do."""
        manifests = [
            r.manifest() if isinstance(r, InferaDeploymentBuilder) else r for r in resources
        ]
        self.cluster.kubectl(f"--namespace={self.namespace}", "apply", "-f-", document=manifests)

    def patch(self, target: str, patch: Manifest, *flags: str) -> None:
        """`kubectl patch` with a strategic merge patch, or another by *flags*."""
        self.kubectl("patch", target, f"--patch={json.dumps(patch)}", *flags)

    # What is there

    def find(self, kind: Kind, name: str) -> Manifest | None:
        """Return an object of our namespace, None where there is none."""
        try:
            found: Manifest = self.cluster.get(kind.path(self.namespace, name))
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code == _NOT_FOUND:
                return None
            raise
        return found

    def get(self, kind: Kind, name: str) -> Manifest:
        """Return an object of our namespace that a test knows to be there."""
        found = self.find(kind, name)
        assert found is not None, f"there is no {kind.kind} {name}"
        return found

    def children(self, kinds: Iterable[Kind] = CHILD_KINDS) -> dict[str, Manifest]:
        """Return, as `Kind/name`, every object that one of our resources controls."""
        return {
            f"{kind.kind}/{item['metadata']['name']}": item
            for kind in kinds
            for item in self._items(kind)
            if controller_of(item).get("kind") == INFERA_DEPLOYMENT.kind
        }

    def _items(self, kind: Kind) -> list[Manifest]:
        """Return the objects of a kind in our namespace; none where it is not installed."""
        try:
            found: list[Manifest] = self.cluster.get(kind.path(self.namespace))["items"]
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code != _NOT_FOUND:
                raise
            return []
        return found

    def pods(self) -> dict[str, Manifest]:
        """Return the pods of our namespace by name."""
        return {pod["metadata"]["name"]: pod for pod in self._items(POD)}

    def resource(self, name: str) -> Manifest:
        """Return one of our resources."""
        return self.get(INFERA_DEPLOYMENT, name)

    def condition(self, name: str, type_: str) -> Manifest:
        """Return a condition of a resource; empty where it has none of that type."""
        return condition_of(self.resource(name), type_)

    # What becomes true by itself

    async def ready(self, name: str, within_seconds: float = 30) -> Manifest:
        """Return the resource once it is Ready in its present generation."""

        def is_ready() -> Manifest:
            resource = self.resource(name)
            status = resource.get("status") or {}
            assert status.get("observedGeneration") == resource["metadata"]["generation"], status
            assert condition_of(resource, "Ready").get("status") == "True", status
            return resource

        return await eventually(is_ready, within_seconds)

    async def says(self, name: str, type_: str, status: str, reason: str, *words: str) -> Manifest:
        """Return a condition once it says this, in its present generation."""

        def is_said() -> Manifest:
            resource = self.resource(name)
            condition = condition_of(resource, type_)
            generation = resource["metadata"]["generation"]
            assert condition.get("observedGeneration") == generation, condition
            assert (condition["status"], condition["reason"]) == (status, reason), condition
            assert all(word in condition["message"] for word in words), condition
            return condition

        return await eventually(is_said, 30)

    async def vanish(self, *children: str, within_seconds: float = 30) -> None:
        """Return once none of these children (`Kind/name`) is there."""
        kinds = {kind.kind: kind for kind in (*OWNED_KINDS, INFERA_DEPLOYMENT)}

        def are_gone() -> bool:
            pairs = [child.split("/") for child in children]
            left = [name for kind, name in pairs if self.find(kinds[kind], name) is not None]
            assert not left, left
            return True

        await eventually(are_gone, within_seconds)

    async def looked_at_again(self, *names: str, within_seconds: float = 30) -> None:
        """Have a fresh bridge resync everything, and return once handlers have read *names*."""
        offset = self.audit.offset()
        self.bridge.restart()
        await self.read_since(offset, *names, within_seconds=within_seconds)

    async def read_since(self, offset: int, *names: str, within_seconds: float = 30) -> None:
        """Return once handlers have read *names* and have nothing in hand any more."""

        def were_read() -> bool:
            read = {
                event.object_ref.name
                for event in self.audit.events(from_offset=offset)
                if event.verb == "get"
                and event.user_agent.startswith("weir-handlers")
                and event.object_ref.resource == INFERA_DEPLOYMENT.plural
                and event.object_ref.namespace == self.namespace
            }
            assert read >= set(names), f"{len(read)} of {len(names)} were read"
            return True

        await eventually(were_read, within_seconds)
        await eventually(self._is_idle, within_seconds)

    async def _is_idle(self) -> bool:
        client = await nats.connect(self.weir.nats.url)
        try:
            consumers = await client.jetstream().consumers_info("WEIR_QUEUE")
        finally:
            await client.close()
        return all(c.num_pending == 0 and c.num_ack_pending == 0 for c in consumers)


def controller_of(manifest: Manifest) -> Manifest:
    """Return the owner reference of an object's controller; empty where it has none."""
    references: Iterable[Manifest] = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})


def condition_of(resource: Manifest, type_: str) -> Manifest:
    """Return a condition of a resource as it was read; empty where it has none of that type."""
    found: Iterable[Manifest] = (resource.get("status") or {}).get("conditions") or ()
    return next((condition for condition in found if condition["type"] == type_), {})


def uid(manifest: Manifest) -> str:
    """Return an object's uid."""
    found: str = manifest["metadata"]["uid"]
    return found


def container(workload: Manifest, name: str | None = None) -> Manifest:
    """Return a container of a workload's pod template, the first where no name is given."""
    containers: list[Manifest] = workload["spec"]["template"]["spec"]["containers"]
    return next(c for c in containers if name is None or c["name"] == name)


def versions(stage: Stage) -> dict[str, Any]:
    """Return which state of which child there is."""
    return {
        name: (uid(child), child["metadata"].get("generation"))
        for name, child in stage.children().items()
    }
