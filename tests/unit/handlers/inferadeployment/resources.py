"""InferaDeployments as tests write them, and children as a control plane would report them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Manifest
from handlers.handler import ChildName, Facts, Notice, Observation, Problem, Rendering
from handlers.inferadeployment import HANDLER

NOW = "2026-11-30T12:00:00Z"
LATER = "2026-11-30T13:00:00Z"


def raw(name: str = "demo", **spec: Any) -> Manifest:
    """Return a resource of a server and a worker without NATS, changed by the given fields."""
    given = {
        "image": "engine:1",
        "nats": {"deploy": False},
        "services": {"server": {"componentType": "server"}, "worker": {"componentType": "worker"}},
        **spec,
    }
    return {
        "apiVersion": "infera.amd.com/v1alpha1",
        "kind": "InferaDeployment",
        "metadata": {"name": name, "namespace": "models", "uid": "uid-1", "generation": 3},
        "spec": {field: value for field, value in given.items() if value is not None},
    }


def read(manifest: Manifest) -> InferaDeployment:
    """Return the resource as a handler reads it."""
    return msgspec.json.decode(msgspec.json.encode(manifest), type=InferaDeployment)


def a_resource(name: str = "demo", **spec: Any) -> InferaDeployment:
    """Return a resource of a server and a worker without NATS, changed by the given fields."""
    return read(raw(name, **spec))


def a_worker(**fields: Any) -> InferaDeployment:
    """Return a resource of one worker with these fields."""
    return a_resource(services={"worker": {"componentType": "worker", **fields}})


def a_server(**fields: Any) -> InferaDeployment:
    """Return a resource of one server with these fields."""
    return a_resource(services={"server": {"componentType": "server", **fields}})


def rendered(resource: InferaDeployment, **facts: Any) -> Rendering:
    """Return the rendering of a resource."""
    return HANDLER.render(resource, Facts(**facts))


def children(rendering: Rendering) -> dict[tuple[str, str], Manifest]:
    """Return the children by kind and name."""
    return {(c["kind"], c["metadata"]["name"]): c for c in rendering.children}


def pod_spec(resource: InferaDeployment, service: str = "worker", **facts: Any) -> Manifest:
    """Return the PodSpec that a service's Deployment gets."""
    name = f"{resource.metadata.name}-{service}"
    deployment = children(rendered(resource, **facts))["Deployment", name]
    spec: Manifest = deployment["spec"]["template"]["spec"]
    return spec


def group(resource: InferaDeployment, service: str = "worker", **facts: Any) -> Manifest:
    """Return the spec of the LeaderWorkerSet that a service of several nodes gets."""
    name = f"{resource.metadata.name}-{service}"
    spec: Manifest = children(rendered(resource, **facts))["LeaderWorkerSet", name]["spec"]
    return spec


def container(resource: InferaDeployment, service: str = "worker", **facts: Any) -> Manifest:
    """Return the first container of a service's pods."""
    first: Manifest = pod_spec(resource, service, **facts)["containers"][0]
    return first


def as_ready(manifest: Manifest) -> Manifest:
    """Return a child as the API server holds it once everything about it is done."""
    live = copy.deepcopy(manifest)
    live["metadata"] |= {"generation": 1, "uid": f"uid-{manifest['metadata']['name']}"}
    wanted = live.get("spec", {}).get("replicas", 0)
    if live["kind"] in ("Deployment", "StatefulSet", "LeaderWorkerSet"):
        live["status"] = {
            "observedGeneration": 1,
            "replicas": wanted,
            "readyReplicas": wanted,
            "updatedReplicas": wanted,
        }
    if live["kind"] == "StatefulSet":
        live["status"] |= {"currentRevision": "r1", "updateRevision": "r1"}
    if live["kind"] == "LeaderWorkerSet":
        live["status"]["conditions"] = [
            {"type": "Available", "status": "True"},
            {"type": "Progressing", "status": "False"},
        ]
    if live["kind"] == "HTTPRoute":
        (parent,) = live["spec"]["parentRefs"]
        live["status"] = {"parents": [accepted(parent)]}
    return live


def accepted(parent: Manifest, status: str = "True", **fields: Any) -> Manifest:
    """Return what a Gateway's controller reports of a route or pool."""
    condition = {"type": "Accepted", "status": status, "observedGeneration": 1, **fields}
    return {"parentRef": parent, "conditions": [{"type": "Other", "status": "False"}, condition]}


def observed(
    rendering: Rendering,
    *,
    without: Iterable[tuple[str, str]] = (),
    status: dict[str, Manifest] | None = None,
    problems: Iterable[Problem] = (),
    pods: Iterable[Manifest] | None = None,
    notices: Iterable[Notice] | None = None,
    now: str = NOW,
) -> Observation:
    """
    Return what is seen of children that are all done.

    But for those in `without`, which do not exist, and `status`, which replaces fields of the
    status of children by their name.
    """
    seen: dict[ChildName, Manifest | None] = {}
    for manifest in rendering.children:
        child = ChildName(manifest["kind"], manifest["metadata"]["name"])
        live = None if child in set(without) else as_ready(manifest)
        if live is not None and child.name in (status or {}) and child.kind != "Service":
            live.setdefault("status", {}).update((status or {})[child.name])
        seen[child] = live
    return Observation(
        children=seen,
        notices=tuple(rendering.notices if notices is None else notices),
        problems=tuple(problems),
        pods=None if pods is None else tuple(pods),
        now=now,
    )


def condition(status: Manifest, type_: str) -> Manifest:
    """Return a condition of a status by its type."""
    found: Manifest = next(c for c in status["conditions"] if c["type"] == type_)
    return found
