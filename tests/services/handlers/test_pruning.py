"""Stale children go; what is not ours to delete stays."""

from __future__ import annotations

import pytest

from handlers.errors import GiveBack
from handlers.handler import ChildName
from handlers.prune import listed, prune, stale_candidates
from tests.services.handlers.conftest import OWNER, Desk
from tests.services.handlers.renderings import ORDINARY
from tests.stack.fixtures import Kubectl

CHILD = ChildName("Service", "child")
SELECTOR = f"infera.amd.com/deployment={OWNER}"


async def _is_there(desk: Desk, name: ChildName = CHILD) -> bool:
    return await desk.kube.get(desk.kind(name.kind), desk.namespace, name.name) is not None


async def test_what_is_no_longer_rendered_is_deleted_and_what_is_stays(desk: Desk) -> None:
    account = ORDINARY["a service account"](desk)
    await desk.make(ORDINARY["a headless service"](desk), account)
    kept = ChildName("ServiceAccount", "child")
    making = desk.making()
    assert await prune(making, [kept], [CHILD, kept, ChildName("Service", "never-was")]) == []
    assert making.writer.written == ["delete Service/child"]
    assert not await _is_there(desk)
    assert await _is_there(desk, kept)


async def test_a_hint_of_a_kind_that_we_never_make_is_not_followed(desk: Desk) -> None:
    making = desk.making()
    assert await prune(making, [], [ChildName("Secret", "child")]) == []
    assert making.writer.written == []


async def test_a_hint_that_is_no_name_reaches_no_other_object(desk: Desk) -> None:
    await desk.make(ORDINARY["a headless service"](desk))
    making = desk.making()
    hints = [ChildName("Service", f"child{more}") for more in ("?x=y", "#x", "/status", "?", "/")]
    assert await prune(making, [CHILD], hints) == []
    assert making.writer.written == []
    assert await _is_there(desk)


async def test_what_is_not_ours_stays(desk: Desk, kubectl: Kubectl) -> None:
    manifest = ORDINARY["a headless service"](desk)
    del manifest["metadata"]["ownerReferences"]  # our labels, and nobody's
    kubectl("create", "-f", "-", document=manifest)
    making = desk.making()
    assert await prune(making, [], [CHILD]) == []
    assert making.writer.written == []
    assert await _is_there(desk)


async def test_what_is_being_deleted_costs_no_second_delete(desk: Desk, kubectl: Kubectl) -> None:
    manifest = ORDINARY["a headless service"](desk)
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    await desk.made(manifest)
    kubectl("delete", "service", "child", "-n", desk.namespace, "--wait=false")
    making = desk.making()
    assert await prune(making, [], [CHILD]) == []
    assert making.writer.written == []
    patch = '{"metadata":{"finalizers":null}}'
    kubectl("patch", "svc", "child", "-n", desk.namespace, "--type=merge", "-p", patch)


async def test_every_child_is_listed_by_the_resources_labels(desk: Desk, kubectl: Kubectl) -> None:
    role = ORDINARY["a role"](desk)
    await desk.make(ORDINARY["a headless service"](desk), role, ORDINARY["a service account"](desk))
    kubectl("create", "serviceaccount", "stranger", "-n", desk.namespace)
    found = await listed(desk.making(), SELECTOR)
    assert sorted(found) == [
        ChildName("Role", "child"),
        CHILD,
        ChildName("ServiceAccount", "child"),
    ]


async def test_what_only_a_newer_renderer_wants_stays_while_one_lives(desk: Desk) -> None:
    manifest = ORDINARY["a headless service"](desk)
    await desk.make(manifest, renderer=2)
    desk.newest_renderer = 2
    making = desk.making(renderer=1)
    for looks in (prune, stale_candidates):
        with pytest.raises(GiveBack, match="renderer 2"):
            await looks(making, [], [CHILD])
    assert await _is_there(desk)
    desk.newest_renderer = 1
    assert await stale_candidates(making, [], [CHILD]) == (CHILD,)
    assert await prune(making, [], [CHILD]) == []
    assert not await _is_there(desk)
