"""Another operator that still writes, at a real API server: nothing of ours beside it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from bridge.events import ObjectKey
from bridge.kube import MERGE_PATCH
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers import plan
from handlers.apply import make_all
from handlers.budget import unlimited
from handlers.children import World
from handlers.errors import OtherOperator
from handlers.fields import entries_of
from handlers.handler import ChildName, Facts
from handlers.inferadeployment import HANDLER
from handlers.lookout import OTHER_OPERATORS, newest_write
from handlers.plan import child_name
from handlers.prune import prune, stale_candidates
from handlers.quarantine import say_quarantined
from handlers.state import FailState
from tests.services.handlers.conftest import OWNER, Desk
from tests.services.handlers.renderings import ORDINARY, PLAIN

INFERA, COGNITORA = OTHER_OPERATORS
LONG_SECONDS = 3600.0
"""No test takes so long that what was written at its begin is old."""


@pytest.fixture
def watchful(desk: Desk) -> Desk:
    """A desk that writes nothing beside another operator."""
    desk.other_operator_seconds = LONG_SECONDS
    return desk


async def _made_by(desk: Desk, manager: str, manifest: Manifest) -> None:
    await desk.admin.request(
        "POST",
        desk.kind(manifest["kind"]).path(desk.namespace),
        query={"fieldManager": manager},
        body=msgspec.json.encode(manifest),
        content_type="application/json",
    )


def _of_all_kinds(desk: Desk) -> list[Manifest]:
    names = ["a service account", "a role", "a role binding", "a service", "a small deployment"]
    return [ORDINARY[name](desk) for name in names]


@pytest.mark.parametrize("manager", OTHER_OPERATORS)
async def test_one_child_that_another_operator_writes_keeps_all_as_they_are(
    watchful: Desk, manager: str
) -> None:
    *rest, theirs = _of_all_kinds(watchful)
    await _made_by(watchful, manager, theirs)
    before = await watchful.live(theirs)

    with pytest.raises(OtherOperator, match=f"{manager} wrote Deployment child at ") as found:
        await watchful.make(*rest, theirs)

    assert watchful.written == []
    assert 0 < found.value.after_seconds <= LONG_SECONDS
    assert _not_by_controllers(await watchful.live(theirs)) == _not_by_controllers(before)
    for manifest in rest:
        assert await _is_missing(watchful, manifest)

    # The same once it has been silent for long enough: nothing else has to happen.
    watchful.other_operator_seconds = 0
    await watchful.make(*rest, theirs)
    managers = {entry["manager"] for entry in entries_of(await watchful.live(theirs))}
    assert manager not in managers
    watchful.other_operator_seconds = LONG_SECONDS
    await watchful.make(*rest, theirs)
    assert watchful.written == []


def _not_by_controllers(live: Manifest) -> list[dict[str, Any]]:
    return [e for e in entries_of(live) if e["manager"] != "kube-controller-manager"]


async def _is_missing(desk: Desk, manifest: Manifest) -> bool:
    kind, name = child_name(manifest)
    return await desk.kube.get(desk.kind(kind), desk.namespace, name) is None


@pytest.mark.parametrize(
    ("subresource", "patch", "told"),
    [
        ("", b'{"metadata":{"labels":{"x":"y"}}}', "wrote Deployment child"),
        ("/status", b'{"status":{"collisionCount":1}}', "wrote the status of Deployment child"),
    ],
)
async def test_a_child_at_rest_counts_too_whatever_of_it_the_other_operator_wrote(
    watchful: Desk, subresource: str, patch: bytes, told: str
) -> None:
    manifest = ORDINARY["a small deployment"](watchful)
    await watchful.made(manifest)
    path = watchful.kind("Deployment").path(watchful.namespace, "child")

    async def write(to: str, body: bytes) -> None:
        query = {"fieldManager": INFERA}
        await watchful.admin.request(
            "PATCH", path + to, query=query, body=body, content_type=MERGE_PATCH
        )

    # Of a write through `scale` the API server notes no time: by that alone nobody is seen.
    await write("/scale", b'{"spec":{"replicas":2}}')
    await watchful.made(manifest)

    await write(subresource, patch)
    assert plan.matches(manifest, await watchful.live(manifest))
    with pytest.raises(OtherOperator, match=told):
        await watchful.make(manifest)
    assert watchful.written == []


async def test_the_status_of_the_resource_tells_of_it_and_is_left_even_where_we_gave_up(
    watchful: Desk,
) -> None:
    owner = deepcopy(watchful.owner)
    owner["status"] = {"state": "pending"}
    data = await watchful.admin.request(
        "PUT",
        CONTRACT.kind.path(watchful.namespace, OWNER, "status"),
        query={"fieldManager": INFERA},
        body=msgspec.json.encode(owner),
        content_type="application/json",
    )

    write = newest_write([msgspec.json.decode(data)])
    assert write is not None
    assert (write.manager, write.object) == (INFERA, "the status of InferaDeployment owner")

    key = ObjectKey(CONTRACT.kind.queue_name, watchful.namespace, OWNER)
    for seconds, verbs in ((LONG_SECONDS, []), (0, ["event", "status"])):
        watchful.other_operator_seconds = seconds
        writer = watchful.making().writer
        failed = FailState(failures=10, error="LookupError: x")
        await say_quarantined(HANDLER, key, failed, writer, _world(watchful))
        assert [what.split()[0] for what in writer.written] == verbs


def _world(desk: Desk) -> World:
    async def newest(_: str) -> int:
        return 0

    return World(
        kube=desk.kube,
        settings=Settings(other_operator_seconds=desk.other_operator_seconds),
        facts=Facts(),
        identity="desk",
        newest_renderer=newest,
        may_roll_out=unlimited,
    )


async def test_a_birth_stops_where_the_other_operator_was_first_and_before_any_pod(
    watchful: Desk,
) -> None:
    """What refers to nothing is tried at once; the second wave, with the pods, is not begun."""
    account, role, binding, service, workload = _of_all_kinds(watchful)
    await _made_by(watchful, INFERA, role)

    with pytest.raises(OtherOperator, match="infera-operator wrote Role child"):
        await watchful.make(account, role, binding, service, workload, is_birth=True)

    assert {what.split()[0] for what in watchful.written} <= {"create"}
    assert await _is_missing(watchful, binding)
    assert await _is_missing(watchful, workload)


async def test_a_write_that_comes_between_what_was_read_and_ours_stops_ours(
    watchful: Desk,
) -> None:
    manifest = ORDINARY["a small deployment"](watchful)
    await watchful.made(manifest)
    watchful.owner["metadata"]["generation"] = 4
    watchful.owner["status"] = {"observedGeneration": 4}
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 77
    making = watchful.making(renderer=2)

    async def may_roll_out() -> bool:
        """It is asked after all was read, and before anything is written."""
        await watchful.patched(manifest, {"metadata": {"labels": {"x": "y"}}}, by=COGNITORA)
        return True

    making = msgspec.structs.replace(making, may_roll_out=may_roll_out)
    with pytest.raises(OtherOperator, match="cgn-operator wrote Deployment child"):
        await make_all(making, (manifest,))

    assert making.writer.written == []
    assert (await watchful.live(manifest))["spec"]["template"] != manifest["spec"]["template"]


async def test_a_stale_child_that_another_operator_writes_is_seen_before_anything_is_written(
    watchful: Desk,
) -> None:
    theirs = PLAIN["ServiceAccount"](watchful)
    await _made_by(watchful, INFERA, theirs)
    name = child_name(theirs)
    making = watchful.making()

    with pytest.raises(OtherOperator, match="infera-operator wrote ServiceAccount child"):
        await stale_candidates(making, [], [name, ChildName("Service", "never-was")])
    # And where it is found by a LIST only, before it is deleted.
    with pytest.raises(OtherOperator):
        await prune(watchful.making(), [], [name])
    assert not await _is_missing(watchful, theirs)

    watchful.other_operator_seconds = 0
    found = await stale_candidates(
        watchful.making(), [], [name, ChildName("Service", "never-was"), ChildName("Secret", "x")]
    )
    assert found == (name,)
    assert await prune(watchful.making(), [], found) == []
    assert watchful.written == ["delete ServiceAccount/child"]


async def test_a_dry_run_foretells_all_of_it_and_notes_who_is_waited_for(watchful: Desk) -> None:
    manifests = _of_all_kinds(watchful)
    for manifest in manifests:
        theirs: dict[str, Any] = deepcopy(manifest)
        theirs["metadata"]["labels"]["old"] = "1"
        await _made_by(watchful, INFERA, theirs)

    dry_run = await watchful.foretell(*manifests)

    assert len(dry_run.foretold) == len(manifests)
    assert {one.verb for one in dry_run.foretold} == {"apply"}
