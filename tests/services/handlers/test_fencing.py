"""Writes that meet another state, another object or another owner than they were made for."""

from __future__ import annotations

from copy import deepcopy

import pytest

from bridge.kube_errors import Conflict, NotFound
from handlers import plan
from handlers.conditions import Transition
from handlers.errors import GiveBack, LeaseLost
from handlers.fields import merged
from handlers.kube_events import event_manifest
from tests.services.handlers.conftest import OWNER, Desk
from tests.services.handlers.renderings import ORDINARY
from tests.stack.fixtures import Kubectl


async def test_a_foreign_object_is_named_and_not_touched(desk: Desk, kubectl: Kubectl) -> None:
    manifest = ORDINARY["a headless service"](desk)
    theirs = deepcopy(manifest)
    del theirs["metadata"]["ownerReferences"], theirs["metadata"]["labels"]
    kubectl("create", "-f", "-", document=theirs)
    before = await desk.live(manifest)

    for is_birth in (True, False):
        (child,) = await desk.make(manifest, is_birth=is_birth)
        assert child.problem is not None
        assert child.problem.reason == "ForeignObject"
        assert child.live is None
        assert desk.written == []
    assert await desk.live(manifest) == before


async def test_an_object_of_an_older_incarnation_is_waited_for(desk: Desk) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.made(manifest)
    uid = "00000000-0000-0000-0000-000000000000"
    desk.owner = {**desk.owner, "metadata": {**desk.owner["metadata"], "uid": uid}}
    child = await desk.made(desk.child("Service", spec=manifest["spec"]))
    assert child.problem is not None
    assert child.problem.reason == "WaitingForDeletion"
    assert desk.written == []


async def test_an_orphan_is_adopted(desk: Desk) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.made(manifest)
    await desk.patched(manifest, {"metadata": {"ownerReferences": None}}, by="kubectl-edit")
    child = await desk.made(manifest)
    assert child.problem is None
    (reference,) = (await desk.live(manifest))["metadata"]["ownerReferences"]
    assert (reference["name"], reference["controller"]) == (OWNER, True)
    await desk.made(manifest)
    assert desk.written == []


async def test_every_write_on_a_state_that_moved_on_is_a_conflict(desk: Desk) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.made(manifest)
    stale = await desk.live(manifest)
    await desk.patched(manifest, {"metadata": {"labels": {"x": "y"}}}, by="somebody")
    now = await desk.live(manifest)
    kind = desk.kind("Service")
    writer = desk.making().writer

    with pytest.raises(Conflict):
        await writer.apply(kind, stale, plan.marked(manifest, 1))
    with pytest.raises(Conflict):
        await writer.take_fields(kind, stale, merged(stale, ()) or [])
    with pytest.raises(Conflict):
        await writer.delete(kind, stale)
    assert writer.written == []
    assert await desk.live(manifest) == now


async def test_after_a_death_a_late_write_fails_although_nothing_had_to_be_changed(
    desk: Desk,
) -> None:
    """What the dead handler had sent names a state that is no more, even of a child at rest."""
    manifest = desk.child("ServiceAccount")
    before = (await desk.made(manifest)).live
    assert before is not None
    desk.lease.predecessor_died = True
    (child,) = await desk.make(manifest)
    assert desk.written == ["fence ServiceAccount/child"]
    assert child.live is not None
    assert child.live["metadata"]["uid"] == before["metadata"]["uid"]
    late = desk.making().writer
    kind = desk.kind("ServiceAccount")
    with pytest.raises(Conflict):
        await late.apply(kind, before, manifest)
    with pytest.raises(Conflict):
        await late.delete(kind, before)
    desk.lease.predecessor_died = False
    await desk.make(manifest)
    assert desk.written == []


async def test_no_write_meets_another_object_of_that_name(desk: Desk, kubectl: Kubectl) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.made(manifest)
    stale = await desk.live(manifest)
    kubectl("delete", "service", "child", "-n", desk.namespace)
    await desk.made(manifest)
    now = await desk.live(manifest)
    kind = desk.kind("Service")
    writer = desk.making().writer

    with pytest.raises(Conflict):
        await writer.apply(kind, stale, plan.marked(manifest, 1))
    with pytest.raises(Conflict):
        await writer.take_fields(kind, stale, merged(stale, ()) or [])
    with pytest.raises(Conflict):
        await writer.delete(kind, stale)
    assert await desk.live(manifest) == now


async def test_no_write_brings_a_deleted_object_back(desk: Desk, kubectl: Kubectl) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.made(manifest)
    stale = await desk.live(manifest)
    kubectl("delete", "service", "child", "-n", desk.namespace)
    kind = desk.kind("Service")
    writer = desk.making().writer

    with pytest.raises((Conflict, NotFound)):
        await writer.apply(kind, stale, plan.marked(manifest, 1))
    with pytest.raises((Conflict, NotFound)):
        await writer.take_fields(kind, stale, merged(stale, ()) or [])
    with pytest.raises(NotFound):
        await writer.delete(kind, stale)
    assert await desk.kube.get(kind, desk.namespace, "child") is None


async def test_a_status_of_a_state_that_moved_on_is_not_written(
    desk: Desk, kubectl: Kubectl
) -> None:
    kubectl("annotate", "inferadeployment", OWNER, "-n", desk.namespace, "a=b")
    making = desk.making()
    with pytest.raises(Conflict):
        await making.writer.put_status(making.contract.kind, desk.owner, {"phase": "x"})


async def test_a_child_that_was_deleted_under_our_hands_is_made_anew(
    desk: Desk, kubectl: Kubectl
) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.made(manifest)
    kubectl("delete", "service", "child", "-n", desk.namespace)
    assert (await desk.made(manifest)).problem is None
    assert desk.written == ["create Service/child"]


async def test_a_binding_of_another_role_is_made_anew(desk: Desk) -> None:
    binding = ORDINARY["a role binding"](desk)
    binding["metadata"]["name"] = "binding"
    await desk.make(ORDINARY["a role"](desk), binding)
    old = await desk.live(binding)
    role = ORDINARY["a role"](desk)
    role["metadata"]["name"] = binding["roleRef"]["name"] = "other"
    await desk.make(role, binding)
    new = await desk.live(binding)
    assert new["roleRef"]["name"] == "other"
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_an_immutable_field_is_named_with_its_remedy_and_its_siblings_go_on(
    desk: Desk,
) -> None:
    manifest = ORDINARY["a small deployment"](desk)
    await desk.made(manifest)
    other = {"app": "y"}
    manifest["spec"]["selector"]["matchLabels"] = other
    manifest["spec"]["template"]["metadata"]["labels"] = other
    child, sibling = sorted(
        await desk.make(manifest, ORDINARY["a headless service"](desk)),
        key=lambda made: made.name.kind,
    )
    assert child.problem is not None
    assert child.problem.reason == "ImmutableField"
    assert "delete the object" in child.problem.message
    assert sibling.problem is None
    assert sibling.live is not None


async def test_a_namespace_that_goes_takes_no_children_and_that_is_no_problem(
    desk: Desk, kubectl: Kubectl
) -> None:
    # A finalizer keeps the namespace in its last state for as long as the test needs it.
    holder = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "h", "namespace": desk.namespace, "finalizers": ["example.com/hold"]},
    }
    kubectl("create", "-f", "-", document=holder)
    kubectl("delete", "namespace", desk.namespace, "--wait=false")
    try:
        (child,) = await desk.make(ORDINARY["a headless service"](desk), is_birth=True)
        assert child.problem is None
        assert child.live is None
    finally:
        patch = '{"metadata":{"finalizers":null}}'
        kubectl("patch", "cm", "h", "-n", desk.namespace, "--type=merge", "-p", patch)


async def test_nothing_is_written_with_less_lease_than_a_write_may_take(desk: Desk) -> None:
    manifest = ORDINARY["a headless service"](desk)
    desk.lease.seconds_left = 5.0
    with pytest.raises(LeaseLost):
        await desk.made(manifest)
    assert await desk.kube.get(desk.kind("Service"), desk.namespace, "child") is None


async def test_nothing_is_written_once_the_handler_is_cut(desk: Desk) -> None:
    desk.is_cut = True
    with pytest.raises(GiveBack):
        await desk.made(ORDINARY["a headless service"](desk))
    assert await desk.kube.get(desk.kind("Service"), desk.namespace, "child") is None


async def test_an_older_renderer_leaves_the_children_of_a_newer_that_lives(desk: Desk) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.make(manifest, renderer=2)
    before = await desk.live(manifest)
    manifest["spec"]["publishNotReadyAddresses"] = False

    desk.newest_renderer = 2
    for is_birth in (False, True):
        with pytest.raises(GiveBack):
            await desk.make(manifest, renderer=1, is_birth=is_birth)
    assert await desk.live(manifest) == before

    desk.newest_renderer = 1  # the newer one was rolled back
    (child,) = await desk.make(manifest, renderer=1)
    assert child.problem is None
    assert plan.renderer_of(await desk.live(manifest)) == 1


async def test_an_event_that_the_api_server_takes_is_told_of_every_name(desk: Desk) -> None:
    change = Transition(
        type="Ready", status="True", reason="Ready", message="x" * 5000, warning=False
    )
    for name in ("a", "a" * 199 + "-" + "b" * 40, "a" * 200 + ".b"):
        resource = {**desk.owner, "metadata": {**desk.owner["metadata"], "name": name}}
        event = event_manifest(resource, change, "me", "2026-01-01T00:00:00Z")
        await desk.making().writer.post_event(desk.namespace, event)
        assert desk.written == ["event Ready"]
