"""
Taking over what the reference operator made, at a real API server: no pod restarts over it.

It writes whole objects, as manager `infera-operator` with operation Update; here a test does.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Manifest
from handlers.errors import LeaseLost
from handlers.handler import Facts, Rendering
from handlers.inferadeployment import HANDLER
from handlers.kept import KEPT, kept_by
from tests.services.handlers.conftest import Desk
from tests.services.handlers.giving_way import EndingLease
from tests.services.handlers.renderings import a_container
from tests.services.handlers.taken_over import REFERENCE, managers, pods_of, posted, put, rests

RUNS = "nats:2.10"


def rendering_of(desk: Desk, **nats: Any) -> Rendering:
    """Return what we make of the resource with that `spec.nats`."""
    owner = deepcopy(desk.owner)
    owner["spec"]["nats"] = {"deploy": True, **nats}
    return HANDLER.render(msgspec.convert(owner, InferaDeployment), Facts())


def broker_of(desk: Desk, **nats: Any) -> Manifest:
    """Return our broker, which is spared from now on."""
    rendering = rendering_of(desk, **nats)
    desk.spared = dict(rendering.spared)
    (found,) = (one for one in rendering.children if one["kind"] == "StatefulSet")
    return found


def theirs_of(broker: Manifest) -> Manifest:
    """Return it as the reference operator makes it: no probes, no requests, its own image."""
    theirs = deepcopy(broker)
    (container,) = theirs["spec"]["template"]["spec"]["containers"]
    for field in ("readinessProbe", "livenessProbe", "resources"):
        del container[field]
    container["image"] = RUNS
    theirs["metadata"]["labels"]["old"] = "1"
    return theirs


@pytest.fixture
async def broker(desk: Desk) -> Manifest:
    """What the reference operator made, as it is; the resource was carried out by it."""
    return await posted(desk, theirs_of(broker_of(desk)))


async def test_a_broker_keeps_its_template_and_becomes_ours_in_all_else(
    desk: Desk, broker: Manifest
) -> None:
    ours = broker_of(desk)
    await desk.patched(ours, {"metadata": {"labels": {"team": "x"}}}, by="team")
    child = await desk.made(ours)

    assert child.problem is None
    assert child.unchangeable == ()
    after = await desk.live(ours)
    assert after["spec"] == broker["spec"]
    assert pods_of(after) == pods_of(broker)
    assert managers(after) == {"weir", "team"}
    assert "old" not in after["metadata"]["labels"]
    assert after["metadata"]["labels"]["team"] == "x"
    assert kept_by(after) is not None
    await rests(desk, ours)


@pytest.mark.parametrize("nats", [{}, {"image": RUNS}, {"image": RUNS, "storageSize": "4096Mi"}])
async def test_it_is_rendered_whole_when_another_image_is_asked_for_and_not_before(
    desk: Desk, broker: Manifest, nats: dict[str, str]
) -> None:
    await desk.made(broker_of(desk))
    same = broker_of(desk, **nats)
    await desk.made(same)
    await rests(desk, same)
    assert pods_of(await desk.live(same)) == pods_of(broker)

    other = broker_of(desk, **nats | {"image": "nats:2.11"})
    assert (await desk.made(other)).problem is None
    after = await desk.live(other)
    (container,) = after["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "nats:2.11"
    assert {"readinessProbe", "livenessProbe"} <= container.keys()
    assert after["metadata"]["generation"] == broker["metadata"]["generation"] + 1
    assert KEPT not in after["metadata"]["annotations"]
    await rests(desk, other)
    # And back: it is ours now, and as it is rendered.
    again = broker_of(desk, image=RUNS)
    await desk.made(again)
    (container,) = (await desk.live(again))["spec"]["template"]["spec"]["containers"]
    assert (container["image"], "readinessProbe" in container) == (RUNS, True)
    await rests(desk, again)


async def test_an_image_that_was_asked_for_before_we_came_is_carried_out(
    desk: Desk, broker: Manifest
) -> None:
    other = broker_of(desk, image="nats:2.11")
    await desk.made(other)
    after = await desk.live(other)
    (container,) = after["spec"]["template"]["spec"]["containers"]
    assert (container["image"], "readinessProbe" in container) == ("nats:2.11", True)
    assert managers(after) == {"weir"}
    await rests(desk, other)


async def test_what_people_do_to_a_kept_template_is_theirs_or_drift_as_ever(
    desk: Desk, broker: Manifest
) -> None:
    ours = broker_of(desk)
    await desk.made(ours)
    for moment in ("1", "2"):
        annotations = {"kubectl.kubernetes.io/restartedAt": moment}
        restart = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        await desk.patched(ours, restart, by="kubectl-rollout")
        await rests(desk, ours)
    template = (await desk.live(ours))["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kubectl.kubernetes.io/restartedAt": "2"}

    live = await desk.live(ours)
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "nats:mine"
    await put(desk, live, by="kubectl-edit")
    await desk.made(ours)
    assert (await desk.live(ours))["spec"]["template"] == template
    await rests(desk, ours)


async def test_the_annotation_is_ours_to_write_and_anybodys_to_remove(
    desk: Desk, broker: Manifest
) -> None:
    ours = broker_of(desk)
    await desk.made(ours)
    for text in ("{", '{"instead":"x","template":{"spec":{"containers":[]}}}'):
        await desk.patched(ours, {"metadata": {"annotations": {KEPT: text}}}, by="kubectl-edit")
        await desk.made(ours)
        assert pods_of(await desk.live(ours)) == pods_of(broker)
        await rests(desk, ours)

    await desk.patched(ours, {"metadata": {"annotations": {KEPT: None}}}, by="kubectl-annotate")
    await desk.made(ours)
    (container,) = (await desk.live(ours))["spec"]["template"]["spec"]["containers"]
    assert "readinessProbe" in container
    await rests(desk, ours)


async def test_what_only_a_new_broker_could_hold_stays_and_is_named(
    desk: Desk,
) -> None:
    theirs = theirs_of(broker_of(desk))
    theirs["spec"]["podManagementPolicy"] = "Parallel"
    before = await posted(desk, theirs)
    ours = broker_of(desk, storageSize="8Gi")
    child = await desk.made(ours)
    assert (child.problem, child.unchangeable) == (None, ("volumeClaimTemplates",))
    assert (await desk.live(ours))["spec"] == before["spec"]
    await rests(desk, ours)
    other = broker_of(desk, storageSize="8Gi", image="nats:2.11")
    child = await desk.made(other)
    assert (child.problem, child.unchangeable) == (None, ("volumeClaimTemplates",))
    live = await desk.live(other)
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nats:2.11"
    assert live["spec"]["volumeClaimTemplates"] == before["spec"]["volumeClaimTemplates"]
    await rests(desk, other)


def _in_memory(theirs: Manifest) -> None:
    """The volume of that name is of the pod."""
    del theirs["spec"]["volumeClaimTemplates"]
    theirs["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]


def _of_another_name(theirs: Manifest) -> None:
    """The claim has another name."""
    theirs["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = "store"
    (container,) = theirs["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"][0]["name"] = "store"


def _nowhere(theirs: Manifest) -> None:
    """Nothing is mounted."""
    del theirs["spec"]["volumeClaimTemplates"]
    del theirs["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("holds", [_in_memory, _of_another_name, _nowhere])
async def test_where_our_volume_is_lacking_another_image_comes_and_what_is_mounted_stays(
    desk: Desk, holds: Any
) -> None:
    theirs = theirs_of(broker_of(desk))
    holds(theirs)
    before = await posted(desk, theirs)
    child = await desk.made(broker_of(desk))
    assert (child.problem, child.unchangeable) == (None, ("volumeClaimTemplates",))
    assert (await desk.live(theirs))["spec"] == before["spec"]

    for image in ("nats:2.11", "nats:2.12"):
        other = broker_of(desk, image=image)
        child = await desk.made(other)
        assert (child.problem, child.unchangeable) == (None, ("volumeClaimTemplates",))
        before["spec"]["template"]["spec"]["containers"][0]["image"] = image
        assert (await desk.live(other))["spec"] == before["spec"]
        await rests(desk, other)
    # Who removes the annotation gets no template that the API server would have to refuse.
    await desk.patched(theirs, {"metadata": {"annotations": {KEPT: None}}}, by="kubectl-annotate")
    assert (await desk.made(broker_of(desk, image="nats:2.12"))).problem is None
    assert (await desk.live(theirs))["spec"] == before["spec"]
    await rests(desk, broker_of(desk, image="nats:2.12"))


@pytest.mark.parametrize("calls", range(4))
async def test_who_dies_while_it_takes_over_is_followed_by_one_who_restarts_nothing_either(
    desk: Desk, broker: Manifest, calls: int
) -> None:
    """The second time, too, when the reference operator was back in between."""
    ours, alive = broker_of(desk), desk.lease
    for template in (broker["spec"]["template"], _with_sidecar(broker)):
        whole = theirs_of(ours)
        whole["spec"]["template"] = template
        before = await put(desk, whole)
        desk.lease = EndingLease(calls)  # type: ignore[assignment]
        with suppress(LeaseLost):
            await desk.make(ours)
        desk.lease = alive
        await desk.made(ours)
        after = await desk.live(ours)
        assert pods_of(after) == pods_of(before)
        assert managers(after) == {"weir"}
        await rests(desk, ours)


def _with_sidecar(broker: Manifest) -> Manifest:
    template: Manifest = deepcopy(broker["spec"]["template"])
    template["spec"]["containers"].append(a_container(name="sidecar"))
    return template


def _bare(live: Manifest, ours: Manifest) -> Manifest:
    """Return an object without any annotation, as who builds it anew puts it."""
    return {**live, "metadata": {**ours["metadata"], "annotations": {}}}


def _kept_whole(live: Manifest, ours: Manifest) -> Manifest:
    """Return an object as who reads it, and changes what is its own, puts it."""
    del ours
    return live


@pytest.mark.parametrize("puts", [_bare, _kept_whole])
@pytest.mark.parametrize("image", [RUNS, "nats:2.12"])
async def test_rolled_back_and_taken_over_again_nothing_restarts_and_what_is_removed_goes(
    desk: Desk, broker: Manifest, puts: Any, image: str
) -> None:
    ours = broker_of(desk, image=RUNS)
    await desk.made(ours)
    back = deepcopy(puts(await desk.live(ours), ours))
    back["metadata"].pop("managedFields", None)
    back["metadata"].setdefault("labels", {})["old"] = "2"
    back["spec"]["minReadySeconds"] = 7
    back["spec"]["template"]["spec"]["containers"][0]["image"] = image
    before = await put(desk, back)
    assert REFERENCE in managers(before)

    again = broker_of(desk, image=image)
    assert (await desk.made(again)).problem is None
    after = await desk.live(again)
    assert after["spec"]["template"] == before["spec"]["template"]
    await rests(desk, again)
    # What it wrote goes at the latest with the first edit that takes something away.
    other = broker_of(desk, image="nats:2.13")
    await desk.made(other)
    after = await desk.live(other)
    assert "minReadySeconds" not in after["spec"]
    assert "old" not in after["metadata"]["labels"]
    assert managers(after) == {"weir"}
    await rests(desk, other)
