"""
Taking over pods that ours differ from in what nobody edited, at a real API server.

They hold an entry twice, which no apply can say; or an edit is under way, and what differs beside
it is what another version of that operator adds.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Manifest
from handlers import plan
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from handlers.kept import KEPT
from tests.services.handlers.conftest import Desk
from tests.services.handlers.renderings import a_container, a_deployment, in_container
from tests.services.handlers.taken_over import managers, pods_of, posted, put, rests

# ------------------------------------------------------------------------- what stands twice

A1 = {"name": "A", "value": "1"}
A2 = {"name": "A", "value": "2"}
B = {"name": "B", "value": "b"}
TWICE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a variable": ({"env": [A1, B, A2]}, {"env": [B, A2]}),
    "nothing but a variable": ({"env": [A1, A2]}, {"env": [A2]}),
    "a variable of one value": ({"env": [A1, A1, B]}, {"env": [A1, B]}),
    "a port": (
        {"ports": [{"containerPort": 80}, {"containerPort": 80, "name": "x"}]},
        {"ports": [{"containerPort": 80, "name": "x"}]},
    ),
}


@pytest.mark.parametrize(("theirs", "ours"), TWICE.values(), ids=TWICE)
async def test_what_stands_twice_is_left_as_it_is_until_an_edit_and_then_carried_out(
    desk: Desk, theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    rendered = a_deployment({"containers": [a_container(**ours)]}, minReadySeconds=3)(desk)
    made = await posted(desk, in_container(**theirs)(desk))
    before = await put(desk, await desk.live(made))
    assert len(before["spec"]["template"]["spec"]["containers"][0][next(iter(theirs))]) >= 2

    assert not (await desk.foretell(rendered)).foretold[-1].restarts
    assert (await desk.made(rendered)).problem is None
    after = await desk.live(rendered)
    assert pods_of(after) == pods_of(before)
    assert managers(after) == {"weir"}
    assert KEPT in after["metadata"]["annotations"]
    await rests(desk, rendered)

    # Edits of something else, one of which takes a path away, and one by a person, which is drift.
    scaled = in_container(**ours)(desk)
    scaled["spec"]["revisionHistoryLimit"] = 2
    assert (await desk.made(scaled)).problem is None
    drifted = await desk.live(scaled)
    assert pods_of(drifted) == pods_of(before)
    assert "minReadySeconds" not in drifted["spec"]
    drifted["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/mine:1"
    await put(desk, drifted, by="kubectl-edit")
    assert (await desk.made(scaled)).problem is None
    assert pods_of(await desk.live(scaled)) == pods_of(before)
    await rests(desk, scaled)


@pytest.mark.parametrize(
    "env", [[{"name": "A", "value": "3"}, B], [B], []], ids=["changed", "removed", "none"]
)
async def test_an_edit_of_what_stands_twice_reaches_the_workload(
    desk: Desk, env: list[dict[str, str]]
) -> None:
    await posted(desk, in_container(env=[A1, B, A2])(desk))
    await desk.made(in_container(env=[B, A2])(desk))
    edited = in_container(**({"env": env} if env else {}))(desk)
    assert (await desk.made(edited)).problem is None
    after = await desk.live(edited)
    (container,) = after["spec"]["template"]["spec"]["containers"]
    assert sorted(container.get("env", []), key=str) == env
    assert KEPT not in after["metadata"]["annotations"]
    await rests(desk, edited)


# ------------------------------------------------------------------------- an edit is under way

WORKER: dict[str, Any] = {
    "componentType": "worker",
    "replicas": 0,
    "image": "registry.example/engine:1",
    "args": ["--model", "m"],
    "env": [{"name": "LEVEL", "value": "1"}, {"name": "EXTRA", "value": "1"}],
    "resources": {"cpu": "2", "sharedMemory": "1Gi"},
    "podLabels": {"team": "a"},
}


def the_worker(desk: Desk, **edit: Any) -> Manifest:
    """Return the worker as it is rendered once the resource was edited so."""
    services = {"worker": {key: item for key, item in (WORKER | edit).items() if item is not None}}
    owner = deepcopy(desk.owner)
    owner["spec"] = {"services": services, "nats": {"deploy": False}}
    rendering = HANDLER.render(msgspec.convert(owner, InferaDeployment), Facts())
    desk.added = dict(rendering.added)
    (found,) = (one for one in rendering.children if one["kind"] == "Deployment")
    return found


def by_an_older_operator(worker: Manifest) -> Manifest:
    """Return it as a version makes it that adds less, and waits less long."""
    theirs = deepcopy(worker)
    pod = theirs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["env"] = [one for one in container["env"] if one["name"] != "POD_IP"]
    container["readinessProbe"]["periodSeconds"] = 5
    del container["lifecycle"], pod["terminationGracePeriodSeconds"]
    return theirs


def observed(desk: Desk, generation: int | None) -> None:
    """The resource's second generation is there, and the reference saw that one last."""
    desk.owner = {**desk.owner, "metadata": {**desk.owner["metadata"], "generation": 2}}
    status = {"state": "ready", "observedGeneration": generation}
    desk.owner["status"] = {key: item for key, item in status.items() if item is not None}


PODS: dict[str, dict[str, Any]] = {
    "an image": {"image": "registry.example/engine:2"},
    "an argument less": {"args": ["--model"]},
    "a variable": {"env": [{"name": "LEVEL", "value": "2"}, {"name": "EXTRA", "value": "1"}]},
    "a variable less": {"env": [{"name": "LEVEL", "value": "1"}]},
    "an address of its own": {"env": [*WORKER["env"], {"name": "POD_IP", "value": "10.0.0.1"}]},
    "no shared memory": {"resources": {"cpu": "2"}},
    "labels": {"podLabels": None},
    "a whole pod": {"extraPodSpec": {"containers": [{"name": "main", "image": "x:1"}]}},
}


@pytest.mark.parametrize(
    ("edit", "generation"),
    [({"replicas": 1}, 1), ({}, 1), ({}, 2), ({"replicas": 1}, None)],
    ids=["of replicas", "of another service", "none", "nobody knows of which"],
)
async def test_an_edit_that_asks_for_no_other_pods_restarts_none(
    desk: Desk, edit: dict[str, Any], generation: int | None
) -> None:
    await posted(desk, by_an_older_operator(the_worker(desk)))
    before = await put(desk, await desk.live(the_worker(desk)))
    observed(desk, generation)
    edited = the_worker(desk, **edit)
    assert (await desk.made(edited)).problem is None
    after = await desk.live(edited)
    assert pods_of(after) == pods_of(before)
    assert after["spec"]["replicas"] == edited["spec"]["replicas"]
    assert (managers(after), KEPT in after["metadata"]["annotations"]) == ({"weir"}, True)
    await rests(desk, edited)

    # Once it is carried out: scaled, it is the same pods; with another image they are ours.
    observed(desk, 2)
    again = the_worker(desk, replicas=0)
    await desk.made(again)
    assert pods_of(await desk.live(again)) == pods_of(before)
    other = the_worker(desk, **PODS["an image"])
    await desk.made(other)
    await _is_ours(desk, other)


@pytest.mark.parametrize("edit", PODS.values(), ids=PODS)
async def test_one_that_asks_for_other_pods_is_carried_out(
    desk: Desk, edit: dict[str, Any]
) -> None:
    await posted(desk, by_an_older_operator(the_worker(desk)))
    observed(desk, 1)
    edited = the_worker(desk, **edit)
    assert (await desk.made(edited)).problem is None
    await _is_ours(desk, edited)
    await rests(desk, edited)


async def _is_ours(desk: Desk, rendered: Manifest) -> None:
    """The pods are made from our template, as the API server would hold it of a new workload."""
    live = await desk.live(rendered)
    assert KEPT not in live["metadata"]["annotations"]
    assert plan.annotation(live, plan.APPLIED) == plan.rendering_hash(rendered)
    template = live["spec"]["template"]
    held = {one["name"]: one for one in template["spec"]["containers"]}
    for container in rendered["spec"]["template"]["spec"]["containers"]:
        fresh = held[container["name"]]
        assert (fresh["image"], fresh.get("command")) == (
            container["image"],
            container.get("command"),
        )
        assert [one["name"] for one in fresh["env"]] == [one["name"] for one in container["env"]]
        assert fresh.get("readinessProbe", {}).keys() >= container.get("readinessProbe", {}).keys()
    assert template["metadata"]["labels"] == rendered["spec"]["template"]["metadata"]["labels"]
