"""
A stand-in for AMD's Infera operator: it makes of a resource what that operator was seen to make.

Its children are those of a golden (tests/golden/reference), so it serves the resource of that
golden as it stands there, and no edit of it. It writes as the reference does, which uses
controller-runtime's CreateOrUpdate: POST, later the whole object by PUT, wherever a pass finds what
it would write otherwise. A PUT has its own spec, labels (those of others go) and owner reference;
annotations, claims of a StatefulSet and the address of a Service stay. The status is what it writes
of workloads, pool and route. What it leaves out: the passes of the reference that change nothing
(it repeats them every 5 or 15 s), its watches, and any opinion on a resource that is not a golden.

One that is restless writes in every pass, as one does that somebody else undoes: a label of each
Deployment, and the status. It may serve what we render (`as_rendered`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct

from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from crds.kubernetes import DEPLOYMENT, HTTP_ROUTE, INFERENCE_POOL, LEADER_WORKER_SET, Manifest
from handlers.cli.devstack.cluster import Cluster
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from tests.faults.stand_ins.client import UNREACHABLE, ApiError, Client

MANAGER = "infera-operator"
OF_ITS_IMAGE = "manager"
"""What it is called where its own image runs it: it names no manager, and its program is that."""
LABEL = "example.com/old"
"""What a restless one gives every child, and ours does not."""
GOLDENS = Path(__file__).parents[2] / "golden" / "reference"
EVERY_SECONDS = 0.5
"""How often it looks at everything while it is started."""
_KINDS = {
    kind.kind: kind
    for kind in (*(child.kind for child in CONTRACT.owns), HTTP_ROUTE, INFERENCE_POOL)
}
_REPLACED: dict[str, tuple[str, ...]] = {
    "Role": ("rules",),
    "RoleBinding": ("subjects",),
    "ServiceAccount": (),
}
"""Of some kinds it replaces other fields than the spec."""
_KEPT: dict[str, tuple[str, ...]] = {
    "StatefulSet": ("volumeClaimTemplates",),
    "Service": ("clusterIP", "clusterIPs"),
}
"""What of a spec it leaves as it is."""


class Golden(Struct, frozen=True, kw_only=True):
    """A resource, and what the reference operator made of it."""

    resource: Manifest
    """As a user applies it, in whatever namespace."""
    children: list[Manifest]
    """With NAMESPACE and OWNER in place of the namespace and the resource's uid."""
    status: Manifest
    """What the reference said in the end."""
    managers: dict[str, list[list[str]]]
    """Who owned fields of `Kind/name` in the end, and by which operation."""

    @property
    def name(self) -> str:
        """The resource's name."""
        return str(self.resource["metadata"]["name"])

    def children_of(self, namespace: str, uid: str) -> list[Manifest]:
        """Return the children of the resource in that namespace and with that uid."""
        text = json.dumps(self.children)
        # As whole values: a variable of a pod is called POD_NAMESPACE.
        for placeholder, value in (("NAMESPACE", namespace), ("OWNER", uid)):
            text = text.replace(json.dumps(placeholder), json.dumps(value))
        placed = json.loads(text)
        return [
            {**child, "metadata": {**child["metadata"], "namespace": namespace}} for child in placed
        ]


def golden(name: str, folder: Path = GOLDENS) -> Golden:
    """Return a golden by the name of its files."""
    meta = json.loads((folder / f"{name}.meta.json").read_text(encoding="utf-8"))
    children = (folder / f"{name}.children.yaml").read_text(encoding="utf-8")
    return Golden(
        resource=yaml.safe_load((folder / f"{name}.in.yaml").read_text(encoding="utf-8")),
        children=[child for child in yaml.safe_load_all(children) if child],
        status=meta["status"],
        managers=meta["managers"],
    )


def as_rendered(resource: Manifest) -> Golden:
    """Return a resource with the children that we would make of it, labelled as theirs."""
    metadata = {**resource["metadata"], "namespace": "NAMESPACE", "uid": "OWNER"}
    typed = msgspec.convert({**resource, "metadata": metadata}, CONTRACT.resource)
    children = json.loads(json.dumps(HANDLER.render(typed, Facts()).children))
    for child in children:
        child["metadata"]["labels"][LABEL] = "1"
    return Golden(resource=resource, children=children, status={"state": "pending"}, managers={})


class StandInReferenceOperator:
    """Serves the resource of a golden in one namespace: `once`, or as long as it is started."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        served: Golden,
        manager: str = MANAGER,
        *,
        is_restless: bool = False,
    ) -> None:
        """Take what it serves; an administrator's kubeconfig is used."""
        self._beats = itertools.count() if is_restless else None
        self._client = Client(cluster.kubeconfig(), manager)
        self._namespace = namespace
        self._served = served
        self._going_on: asyncio.Task[None]
        self._stopping = asyncio.Event()

    async def once(self) -> None:
        """All children and the status are as the reference would have them after one pass."""
        self._client.open()
        try:
            await self._pass()
        finally:
            await self._client.close()

    async def start(self) -> None:
        """Go on with pass after pass; the first is done."""
        self._client.open()
        await self._pass()
        self._going_on = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        """It writes no more; what it began is done."""
        self._stopping.set()
        await self._going_on
        await self._client.close()

    async def _go_on(self) -> None:
        while not self._stopping.is_set():
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self._pass()
            except (ApiError, *UNREACHABLE):
                continue  # a conflict, or a kind that is not served: the next pass tries again

    async def _pass(self) -> None:
        path = CONTRACT.kind.path(self._namespace, self._served.name)
        resource = await self._client.find(path)
        if resource is None or "deletionTimestamp" in resource["metadata"]:
            return
        beat = None if self._beats is None else next(self._beats)
        for child in self._served.children_of(self._namespace, resource["metadata"]["uid"]):
            if beat is not None and child["kind"] == DEPLOYMENT.kind:
                child["metadata"]["labels"][LABEL] = str(beat)
            await self._create_or_update(child)
        if beat is None:
            status = await self._status(resource)
        else:
            status = {"state": "pending", "observedGeneration": beat}
        if status != resource.get("status"):
            await self._client.put(f"{path}/status", {**resource, "status": status})

    async def _create_or_update(self, child: Manifest) -> None:
        kind = _KINDS[child["kind"]]
        path = kind.path(self._namespace, child["metadata"]["name"])
        live = await self._client.find(path)
        if live is None:
            await self._client.post(kind.path(self._namespace), child)
        elif (wanted := _whole(child, live)) != live:
            await self._client.put(path, wanted)

    async def _status(self, resource: Manifest) -> Manifest:
        said = resource.get("status") or {}
        status: Manifest = {"observedGeneration": resource["metadata"]["generation"]}
        if "conditions" in said:  # a field of its type that it never touches
            status["conditions"] = said["conditions"]
        if self._served.status["state"] == "failed":
            return {**status, "state": "failed"}
        services = {
            name: await self._service_status(name, service)
            for name, service in resource["spec"]["services"].items()
        }
        is_ready = all(one["readyReplicas"] >= one["replicas"] for one in services.values())
        status |= {"state": "ready" if is_ready else "pending", "services": services}
        if (resource["spec"].get("gaie") or {}).get("enabled"):
            status["gaie"] = await self._gaie_status()
        return status

    async def _service_status(self, name: str, service: Manifest) -> Manifest:
        kind = LEADER_WORKER_SET if service.get("numberOfNodes", 1) > 1 else DEPLOYMENT
        live = await self._find(kind, name)
        return {
            "kind": kind.kind,
            "replicas": service.get("replicas", 1),
            "readyReplicas": (live.get("status") or {}).get("readyReplicas", 0),
        }

    async def _gaie_status(self) -> Manifest:
        """Return the Gateway's part; what is false is left out, as the reference leaves it."""
        picker = await self._find(DEPLOYMENT, "epp")
        pool = await self._find(INFERENCE_POOL, "pool")
        route = await self._find(HTTP_ROUTE, "route")
        ready = (picker.get("status") or {}).get("readyReplicas", 0)
        says = {
            "inferencePoolReady": bool(pool) and _is_accepted(pool, where_silent=True),
            "httpRouteAccepted": _is_accepted(route, where_silent=False),
        }
        says["ready"] = ready > 0 and all(says.values())
        return {
            "eppReplicas": 1,
            "eppReadyReplicas": ready,
            "inferencePoolName": f"{self._served.name}-pool",
            "httpRouteName": f"{self._served.name}-route",
            **{key: True for key, value in says.items() if value},
        }

    async def _find(self, kind: Kind, suffix: str) -> Manifest:
        """Return a child; empty where it is not there."""
        name = f"{self._served.name}-{suffix}"
        return await self._client.find(kind.path(self._namespace, name)) or {}


def _whole(child: Manifest, live: Manifest) -> Manifest:
    """Return a live object as the reference would write it."""
    (owner,) = child["metadata"]["ownerReferences"]
    owners = live["metadata"].get("ownerReferences") or []
    others = [reference for reference in owners if reference["uid"] != owner["uid"]]
    metadata = {
        **live["metadata"],
        "labels": child["metadata"]["labels"],
        "ownerReferences": owners if owner in owners else [*others, owner],
    }
    replaced = {field: child[field] for field in _REPLACED.get(child["kind"], ("spec",))}
    for field in _KEPT.get(child["kind"], ()):
        if field in live["spec"]:
            replaced["spec"] = {**replaced["spec"], field: live["spec"][field]}
    return {**live, **replaced, "metadata": metadata}


def _is_accepted(item: Manifest, *, where_silent: bool) -> bool:
    """Return whether a parent says Accepted; *where_silent* is for one that says nothing."""
    said = [
        condition["status"] == "True"
        for parent in (item.get("status") or {}).get("parents") or ()
        for condition in parent.get("conditions") or ()
        if condition["type"] == "Accepted"
    ]
    return any(said) if said else where_silent
