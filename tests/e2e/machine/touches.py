"""What other people and programs do to a child, as a request each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from bridge.kube import JSON_PATCH, MERGE_PATCH
from crds.inferadeployment import DEPLOYMENT_LABEL, MANAGED_BY_LABEL
from crds.kubernetes import Manifest
from handlers.plan import APPLIED, RENDERER

STRATEGIC_PATCH = "application/strategic-merge-patch+json"
PEOPLE = ("kubectl-edit", "kubectl-client-side-apply")
MANAGERS = (*PEOPLE, "somebody")
INJECTED = "INJECTED"
"""A variable that others add."""
LABEL = ("team.example/label", "blue")
ANNOTATION = ("team.example/on-call", "nobody")
GONE = "gone"
OWNER = "owner"
NOT_WHILE_HELD = frozenset(
    {OWNER, "an identity label", "whose it is", "our marks", "strategy", "hostnames"}
)
"""
Touches that a child must not wait with until it is no longer held.

Two of the others leave it foreign, and what is not rendered any more then is theirs for good.
"""
UNDONE_AT_ONCE = frozenset({"hostnames"})
"""Touches of what a resource may cease to ask for: what is theirs then, no edit takes away."""

WORKLOADS = ("Deployment", "StatefulSet")
GROUPS = "LeaderWorkerSet"
ANY = (
    *WORKLOADS,
    *("Service", "ServiceAccount", "Role", "RoleBinding"),
    *(GROUPS, "InferencePool", "HTTPRoute"),
)


class Change(Struct, frozen=True):
    """A patch of an object."""

    media_type: str
    body: object


class Kind(Struct, frozen=True):
    """A way to touch children of some kinds; None where this one cannot be touched so."""

    of: tuple[str, ...]
    change: Callable[[Manifest], Change | None]
    by: tuple[str, ...] = MANAGERS


def _image(_: Manifest) -> Change:
    at = "/spec/template/spec/containers/0/image"
    return Change(JSON_PATCH, [{"op": "replace", "path": at, "value": "registry.example/other:9"}])


def _image_of_groups(_: Manifest) -> Change:
    at = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"
    return Change(JSON_PATCH, [{"op": "replace", "path": at, "value": "registry.example/other:9"}])


def _hostnames(live: Manifest) -> Change | None:
    if "hostnames" not in live["spec"]:
        return None  # nobody's, and theirs to add
    return Change(MERGE_PATCH, {"spec": {"hostnames": ["other.example"]}})


def _replicas(live: Manifest) -> Change:
    return Change(MERGE_PATCH, {"spec": {"replicas": live["spec"]["replicas"] + 1}})


def _env(live: Manifest) -> Change:
    name = live["spec"]["template"]["spec"]["containers"][0]["name"]
    added = {"name": name, "env": [{"name": INJECTED, "value": "1"}]}
    return Change(STRATEGIC_PATCH, {"spec": {"template": {"spec": {"containers": [added]}}}})


def _command(live: Manifest) -> Change | None:
    if "command" not in live["spec"]["template"]["spec"]["containers"][0]:
        return None
    at = "/spec/template/spec/containers/0/command"
    return Change(JSON_PATCH, [{"op": "remove", "path": at}])


def _strategy(live: Manifest) -> Change | None:
    if (live["spec"]["strategy"].get("rollingUpdate") or {}).get("maxSurge") != 0:
        return None  # the API server's default, and theirs to change
    return Change(MERGE_PATCH, {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}})


def _selector(_: Manifest) -> Change:
    return Change(MERGE_PATCH, {"spec": {"selector": {"infera.amd.com/service": "nobody"}}})


def _port(_: Manifest) -> Change:
    return Change(JSON_PATCH, [{"op": "replace", "path": "/spec/ports/0/port", "value": 1}])


def _merge(body: Manifest) -> Callable[[Manifest], Change]:
    return lambda _: Change(MERGE_PATCH, body)


def _metadata(**fields: Any) -> Callable[[Manifest], Change]:
    return _merge({"metadata": fields})


TOUCHES: Mapping[str, Kind] = {
    "image": Kind(WORKLOADS, _image),
    "the image of groups": Kind((GROUPS,), _image_of_groups),
    "replicas": Kind((*WORKLOADS, GROUPS), _replicas),
    "env": Kind(WORKLOADS, _env),
    "command": Kind(WORKLOADS, _command),
    "strategy": Kind(("Deployment",), _strategy),
    "selector": Kind(("Service",), _selector),
    # Ours beside it would be a second one of its name; of others that is named, and not undone.
    "port": Kind(("Service",), _port, PEOPLE),
    "size": Kind((GROUPS,), _merge({"spec": {"leaderWorkerTemplate": {"size": 7}}})),
    "ports of the pool": Kind(
        ("InferencePool",), _merge({"spec": {"targetPorts": [{"number": 7}]}})
    ),
    "hostnames": Kind(("HTTPRoute",), _hostnames),
    "whose route": Kind(
        ("HTTPRoute",), _merge({"spec": {"parentRefs": [{"name": "other"}]}}), PEOPLE
    ),
    "rules": Kind(("Role",), _merge({"rules": []})),
    "subjects": Kind(("RoleBinding",), _merge({"subjects": None})),
    "an identity label": Kind(ANY, _metadata(labels={MANAGED_BY_LABEL: None})),
    "whose it is": Kind(ANY, _metadata(labels={DEPLOYMENT_LABEL: "other"})),
    "a label of theirs": Kind(ANY, _metadata(labels=dict([LABEL]))),
    "an annotation of theirs": Kind(ANY, _metadata(annotations=dict([ANNOTATION]))),
    "our marks": Kind(
        ANY,
        _metadata(annotations={APPLIED: "0" * 16, RENDERER: None}),
    ),
    OWNER: Kind(ANY, _metadata(ownerReferences=None)),
    GONE: Kind(ANY, _merge({})),
}


def touches_of(kind: str) -> list[str]:
    """Return the ways to touch a child of a kind."""
    return [name for name, touch in TOUCHES.items() if kind in touch.of]
