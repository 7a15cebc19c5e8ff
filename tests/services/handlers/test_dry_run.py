"""What a dry run foretells is what then happens, and until then nothing does."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bridge.kube import APPLY
from crds.kubernetes import Manifest
from handlers.difference import field_changes
from handlers.dry_run import DryRun
from handlers.handler import ChildName
from tests.services.handlers.conftest import Desk
from tests.services.handlers.renderings import (
    LABELS,
    ODD,
    ORDINARY,
    PLAIN,
    UNKNOWN,
    a_container,
    a_deployment,
    in_container,
)

CONTROLLERS = "deployment.kubernetes.io/"
"""What a controller writes into an annotation after us."""

Before = Callable[[Desk, Manifest], Awaitable[object]]
"""Brings about what a dry run, and then a reconcile, meets in place of the rendering."""


def _made(rendered: Callable[[Desk], Manifest]) -> Before:
    async def made(desk: Desk, manifest: Manifest) -> None:
        await desk.made(_named(rendered(desk), manifest))

    return made


def _edited(patch: Manifest) -> Before:
    async def edited(desk: Desk, manifest: Manifest) -> None:
        await desk.made(manifest)
        strategic = "application/strategic-merge-patch+json"
        await desk.patched(manifest, patch, by="kubectl-edit", content_type=strategic)

    return edited


def _by_predecessor(operation: str, manager: str, rendered: Callable[[Desk], Manifest]) -> Before:
    async def made(desk: Desk, manifest: Manifest) -> None:
        theirs = _named(rendered(desk), manifest)
        if operation == "Apply":
            await desk.patched(theirs, theirs, by=manager, content_type=APPLY)
            return
        await desk.admin.request(
            "POST",
            desk.kind(theirs["kind"]).path(desk.namespace),
            query={"fieldManager": manager},
            body=msgspec.json.encode(theirs),
            content_type="application/json",
        )

    return made


def _named(manifest: Manifest, like: Manifest) -> Manifest:
    name = like["metadata"]["name"]
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def _pods(**pod: Any) -> Manifest:
    return {"spec": {"template": {"spec": pod}}}


OURS = a_deployment(
    {
        "containers": [
            a_container(
                env=[
                    {"name": "A", "value": "1"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                args=["--a"],
                resources={"limits": {"cpu": "1000m"}},
            )
        ]
    }
)
THEIRS = a_deployment(
    {
        "terminationGracePeriodSeconds": 77,
        "nodeSelector": {"gpu": "mi300x"},
        "securityContext": {"fsGroup": 7},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "containers": [
            a_container(
                env=[
                    {"name": "OLD", "value": "x"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "A", "value": "1"},
                ],
                ports=[{"containerPort": 80}],
                readinessProbe={"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5},
            ),
            {"name": "sidecar", "image": "registry.example/s:1"},
        ],
    }
)

CASES: dict[str, tuple[Before | None, Callable[[Desk], Manifest]]] = {
    **{f"{title}, new": (None, item) for title, item in ORDINARY.items()},
    "unknown fields": (None, UNKNOWN["several fields"]),
    "unknown fields, by an edit": (_made(PLAIN["Deployment"]), UNKNOWN["several fields"]),
    "empty fields, by an edit": (_made(PLAIN["Deployment"]), ODD["hostNetwork false"]),
    "other spellings": (_made(OURS), ODD["quantities in other spellings"]),
    "another image": (_made(in_container(image="registry.example/a:0")), OURS),
    "what we rendered before goes": (_made(THEIRS), OURS),
    "an image that a person set": (
        _edited(_pods(containers=[{"name": "main", "image": "registry.example/mine:1"}])),
        OURS,
    ),
    "a value that a person set beside ours": (
        _edited(_pods(containers=[{"name": "main", "env": [{"name": "B", "value": "2"}]}])),
        in_container(image="registry.example/a:2", env=[{"name": "A", "value": "1"}]),
    ),
    "a value that excludes ours": (
        _edited(
            _pods(
                nodeSelector={"a": "b"},
                containers=[
                    {
                        "name": "main",
                        "env": [
                            {"name": "POD", "value": "x", "valueFrom": None},
                            {"name": "C", "value": "3"},
                        ],
                    }
                ],
            )
        ),
        OURS,
    ),
    "a predecessor's update": (_by_predecessor("Update", "infera-operator", THEIRS), OURS),
    "a predecessor's update of just the same": (
        _by_predecessor("Update", "infera-operator", OURS),
        OURS,
    ),
    "a predecessor's apply": (_by_predecessor("Apply", "cgn-operator", THEIRS), OURS),
    "a stranger's update": (_by_predecessor("Update", "somebody", THEIRS), OURS),
    "a binding to another role": (
        _made(ORDINARY["a role binding"]),
        lambda desk: desk.child(
            "RoleBinding",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"},
            subjects=[{"kind": "ServiceAccount", "name": "child"}],
        ),
    ),
}


async def test_what_a_dry_run_foretells_is_what_a_reconcile_then_makes(desk: Desk) -> None:
    await desk.made(PLAIN["Role"](desk))
    other = PLAIN["Role"](desk)
    other["metadata"]["name"] = "other"
    await desk.made(other)
    wrong: dict[str, Any] = {}
    for number, (title, (before, rendered)) in enumerate(CASES.items()):
        manifest = copy.deepcopy(rendered(desk))
        manifest["metadata"]["name"] = f"child-{number}"
        if before is not None:
            await before(desk, manifest)
        kind, path = manifest["kind"], manifest["metadata"]["name"]
        was = await desk.kube.get(desk.kind(kind), desk.namespace, path)
        dry_run = await desk.foretell(manifest)
        assert _timeless(await desk.kube.get(desk.kind(kind), desk.namespace, path)) == (
            _timeless(was)
        ), title
        await desk.made(manifest)
        how = _missed(dry_run, await desk.live(manifest))
        if how:
            wrong[title] = how
    assert wrong == {}


def _timeless(data: bytes | None) -> Any:
    """Return all of an object but what its controller may write at any time."""
    if data is None:
        return None
    found = msgspec.json.decode(data)
    return {
        **{key: found.get(key) for key in ("spec", "rules", "roleRef", "subjects")},
        "uid": found["metadata"]["uid"],
        "generation": found["metadata"].get("generation"),
        "by": [
            (entry["manager"], entry["fieldsV1"])
            for entry in found["metadata"]["managedFields"]
            if entry["manager"] != "kube-controller-manager"
        ],
    }


def _missed(dry_run: DryRun, live: Manifest) -> Any:
    """Return what became otherwise than it was foretold."""
    if len(dry_run.foretold) != 1:
        return [one.verb for one in dry_run.foretold]
    (one,) = dry_run.foretold
    assert one.after is not None
    if one.name.kind == "RoleBinding":
        return (one.after["roleRef"] != live["roleRef"]) or None
    return [
        (field.path, field.old, field.new)
        for field in field_changes(one.after, live)
        # Which fields are noted as lost depends on whether a controller wrote in between.
        if not field.is_mark and CONTROLLERS not in field.path and "clusterIP" not in field.path
    ]


async def test_a_dry_run_says_which_pods_restart_and_which_end(desk: Desk) -> None:
    manifest = OURS(desk)
    manifest["spec"]["replicas"] = 2
    await desk.made(manifest)
    live = {**await desk.live(manifest), "status": {"replicas": 2}}
    edited = copy.deepcopy(manifest)
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/a:9"
    (image,) = (await desk.foretell(edited)).foretold
    edited = copy.deepcopy(manifest)
    edited["spec"]["replicas"] = 3
    (replicas,) = (await desk.foretell(edited)).foretold
    (gone,) = (await desk.foretell(stale=[ChildName("Deployment", "child")])).foretold

    assert (image.verb, image.restarts) == ("apply", True)
    assert [field.path for field in image.fields if not field.is_mark] == [
        'spec.template.spec.containers[name="main"].image'
    ]
    assert (replicas.restarts, replicas.pods) == (False, 0)
    assert [(f.path, f.old, f.new) for f in replicas.fields if not f.is_mark] == [
        ("spec.replicas", 2, 3)
    ]
    assert (gone.verb, gone.restarts, gone.after) == ("delete", False, None)
    assert live["metadata"]["uid"] == (await desk.live(manifest))["metadata"]["uid"]


async def test_at_a_birth_all_is_foretold_though_a_binding_cannot_be_tried(desk: Desk) -> None:
    """The server takes no binding to a role that is not there yet."""
    names = ["a service account", "a role", "a role binding", "a service", "a small deployment"]
    dry_run = await desk.foretell(*(ORDINARY[name](desk) for name in names))
    assert sorted(dry_run.written) == [
        "create Deployment/child",
        "create Role/child",
        "create RoleBinding/child",
        "create Service/child",
        "create ServiceAccount/child",
    ]


async def test_what_matches_is_not_foretold_and_not_asked_about(desk: Desk) -> None:
    manifest = OURS(desk)
    await desk.made(manifest)
    dry_run = await desk.foretell(manifest)
    assert (dry_run.written, dry_run.has_started) == ([], False)


async def test_a_dry_run_with_a_client_that_would_write_is_refused(desk: Desk) -> None:
    with pytest.raises(ValueError, match="dry"):
        DryRun(desk._writer(desk.kube))


async def test_no_write_of_a_dry_client_is_stored(desk: Desk) -> None:
    """Deletion, too: where there is a body, the server reads no query."""
    manifest = PLAIN["ServiceAccount"](desk)
    manifest["metadata"]["labels"] |= LABELS
    await desk.made(manifest)
    live = await desk.live(manifest)
    await desk._writer(desk.dry).delete(desk.kind("ServiceAccount"), live)
    await desk._writer(desk.dry).fence(desk.kind("ServiceAccount"), live)
    assert await desk.live(manifest) == live
