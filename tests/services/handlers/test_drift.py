"""What others do to a child: noticed and mended where it is ours, left where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from bridge.kube import MERGE_PATCH
from bridge.kube_errors import Refused
from crds.inferadeployment import MANAGED_BY_LABEL
from crds.kubernetes import Manifest
from handlers import plan
from handlers.fields import dotted
from tests.services.handlers.conftest import Desk
from tests.services.handlers.renderings import ODD, ORDINARY, Rendered, a_deployment

Steps = tuple[str | int, ...]


def _leaves(value: Any, at: Steps = ()) -> Iterator[Steps]:
    """Yield where a rendering says something: every scalar, every empty or whole container."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*at, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*at, index))
    elif value is not None:
        yield at


def _at(value: Any, steps: Steps) -> Any:
    for step in steps:
        is_there = step in value if isinstance(value, dict) else isinstance(value, list)
        if not is_there or (isinstance(step, int) and step >= len(value)):
            return None
        value = value[step]
    return value


def _edits(live: Manifest, steps: Steps) -> Iterator[Manifest]:
    """Yield the object with the value changed, with it removed, and with what holds it removed."""
    value = _at(live, steps)
    match value:
        case bool():
            changed: Any = not value
        case int():
            changed = value + 1
        case str():
            changed = f"{value}x"
        case _:
            changed = None
    if changed is not None:
        edited = deepcopy(live)
        _at(edited, steps[:-1])[steps[-1]] = changed
        yield edited
    for cut in (steps, steps[:-1]):
        if len(cut) > 1 and _at(live, cut) is not None:
            edited = deepcopy(live)
            del _at(edited, cut[:-1])[cut[-1]]
            yield edited


ROOTS = ("spec", "rules", "subjects", "automountServiceAccountToken", "metadata")


async def _unnoticed(desk: Desk, manifest: Manifest) -> tuple[int, list[str]]:
    """Return how many edits the server would take, and where they were not noticed."""
    child = await desk.made(manifest)
    assert child.problem is None
    live = await desk.live(manifest)
    del live["metadata"]["resourceVersion"]  # a controller may be writing, and does not matter
    said = {key: manifest[key] for key in ROOTS if key in manifest}
    said["metadata"] = {"labels": manifest["metadata"]["labels"]}
    edits = [(steps, edit) for steps in _leaves(said) for edit in _edits(live, steps)]
    limit = asyncio.Semaphore(8)

    async def after(edit: Manifest) -> Manifest | None:
        async with limit:
            try:
                return await desk.edited(edit, is_dry=True)
            except Refused:
                return None  # no such object can be

    taken, unnoticed = 0, []
    found = await asyncio.gather(*(after(edit) for _, edit in edits))
    for (steps, _), held in zip(edits, found, strict=True):
        if held is None or _at(held, steps) == _at(live, steps):
            continue  # or a default put it back
        taken += 1
        if plan.matches(manifest, held):
            unnoticed.append(dotted(tuple(map(str, steps))))
    return taken, unnoticed


TABLE = {**ORDINARY, **ODD}


async def test_an_edit_of_any_rendered_path_is_noticed(desk: Desk) -> None:
    await desk.made(ORDINARY["a role"](desk))
    total = 0
    found = {}
    for number, (title, rendered) in enumerate(TABLE.items()):
        manifest = rendered(desk)
        manifest["metadata"]["name"] = f"child-{number}"
        taken, unnoticed = await _unnoticed(desk, manifest)
        total += taken
        if unnoticed:
            found[title] = unnoticed
        # The same after an apply, whose set of fields is the rendering and not what is held.
        manifest["metadata"]["annotations"] = {"a": "b"}
        taken, unnoticed = await _unnoticed(desk, manifest)
        total += taken
        if unnoticed:
            found[f"{title}, applied"] = unnoticed
    assert found == {}
    assert total > 300


EDITS: dict[str, tuple[Rendered, Manifest]] = {
    "a scalar": (ORDINARY["a small deployment"], {"spec": {"replicas": 3}}),
    "a label": (ORDINARY["a service account"], {"metadata": {"labels": {MANAGED_BY_LABEL: None}}}),
    "a port": (ORDINARY["a service"], {"spec": {"ports": [{"port": 80, "name": "other"}]}}),
    "rules": (ORDINARY["a role"], {"rules": []}),
    "a volume": (
        ODD["an emptyDir of the default medium"],
        {"spec": {"template": {"spec": {"volumes": None}}}},
    ),
    "a value that was empty": (
        ODD["hostNetwork false"],
        {"spec": {"template": {"spec": {"hostNetwork": True}}}},
    ),
}


@pytest.mark.parametrize(
    "by", ["kubectl-edit", "kubectl-client-side-apply", "kubectl-patch", "somebody"]
)
async def test_drift_is_mended_by_one_apply_and_quiet_then(desk: Desk, by: str) -> None:
    await desk.made(ORDINARY["a role"](desk))
    for number, (rendered, patch) in enumerate(EDITS.values()):
        manifest = rendered(desk)
        manifest["metadata"]["name"] = f"child-{number}"
        await desk.made(manifest)
        before = await desk.live(manifest)
        edited = await desk.patched(manifest, patch, by=by)
        assert not plan.matches(manifest, edited), patch

        child = await desk.made(manifest)
        assert child.problem is None
        assert [what.split()[0] for what in desk.written] == ["apply"]
        after = await desk.live(manifest)
        for key in ROOTS[:-1]:
            assert after.get(key) == before.get(key)
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        await desk.made(manifest)
        assert desk.written == []


OTHER_VOLUME = {
    "spec": {"template": {"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]}}}
}


@pytest.mark.parametrize("medium", [{}, {"medium": ""}, {"medium": "Memory"}], ids=str)
async def test_another_choice_of_one_that_must_be_chosen_is_named_as_a_problem(
    desk: Desk, medium: Manifest
) -> None:
    manifest = a_deployment({"volumes": [{"name": "a", "emptyDir": medium}]})(desk)
    await desk.made(manifest)
    edited = await desk.patched(manifest, OTHER_VOLUME, by="another-operator")
    assert not plan.matches(manifest, edited)
    # Ours comes back beside theirs, which apply leaves alone, and the two exclude each other.
    child = await desk.made(manifest)
    assert child.problem is not None
    assert child.problem.reason == "Refused"
    assert "more than 1 volume type" in child.problem.message


async def test_what_others_add_stays_and_changes_nothing(desk: Desk) -> None:
    manifest = ORDINARY["a container with everything"](desk)
    await desk.made(manifest)
    await desk.patched(
        manifest, {"metadata": {"labels": {"team": "x"}, "annotations": {"a": "b"}}}, by="team"
    )
    await desk.patched(
        manifest,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {
                "template": {
                    "spec": {
                        "terminationGracePeriodSeconds": 99,
                        "containers": [
                            {
                                "name": "main",
                                "env": [{"name": "THEIRS", "value": "1"}],
                                "tty": True,
                            },
                            {"name": "sidecar", "image": "s"},
                        ],
                    }
                }
            },
        },
        by="injector",
        content_type="application/apply-patch+yaml",
    )
    await desk.made(manifest)
    assert desk.written == []

    manifest["spec"]["minReadySeconds"] = 7
    await desk.made(manifest)
    assert "apply Deployment/child" in desk.written
    live = await desk.live(manifest)
    assert live["metadata"]["labels"]["team"] == "x"
    assert live["metadata"]["annotations"]["a"] == "b"
    pod = live["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 99
    assert [container["name"] for container in pod["containers"]] == ["main", "sidecar"]
    assert pod["containers"][0]["tty"] is True
    assert {"name": "THEIRS", "value": "1"} in pod["containers"][0]["env"]


async def test_what_is_no_longer_rendered_goes(desk: Desk) -> None:
    manifest = ORDINARY["a container with everything"](desk)
    await desk.made(manifest)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    del container["env"][0], container["ports"][2], container["lifecycle"]
    del container["resources"]["limits"]["memory"]
    await desk.made(manifest)
    live = (await desk.live(manifest))["spec"]["template"]["spec"]["containers"][0]
    assert [item["name"] for item in live["env"]] == ["POD", "SECRET"]
    assert [item["name"] for item in live["ports"]] == ["http", "dns-tcp"]
    assert "lifecycle" not in live
    assert sorted(live["resources"]["limits"]) == ["amd.com/gpu", "cpu"]
    await desk.made(manifest)
    assert desk.written == []


@pytest.mark.parametrize("manager", ["infera-operator", "cgn-operator"])
async def test_what_a_predecessor_wrote_and_we_do_not_render_goes_when_it_is_taken_over(
    desk: Desk, manager: str
) -> None:
    """What pods are made from goes with an edit that was waiting for somebody to carry it out."""
    manifest = ORDINARY["a small deployment"](desk)
    desk.owner["status"] = {"observedGeneration": desk.owner["metadata"]["generation"] - 1}
    theirs = deepcopy(manifest)
    theirs["spec"]["minReadySeconds"] = 9
    theirs["metadata"]["labels"]["old"] = "1"
    theirs["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OLD", "value": "1"}]
    await desk.admin.request(
        "POST",
        desk.kind("Deployment").path(desk.namespace),
        query={"fieldManager": manager},
        body=msgspec.json.encode(theirs),
        content_type="application/json",
    )
    await desk.patched(manifest, {"metadata": {"labels": {"team": "x"}}}, by="team")

    child = await desk.made(manifest)
    assert child.problem is None
    live = await desk.live(manifest)
    assert "minReadySeconds" not in live["spec"]
    assert "env" not in live["spec"]["template"]["spec"]["containers"][0]
    assert "old" not in live["metadata"]["labels"]
    assert live["metadata"]["labels"]["team"] == "x"
    managers = {entry["manager"] for entry in live["metadata"]["managedFields"]}
    assert manager not in managers
    await desk.made(manifest)
    assert desk.written == []


async def test_a_scaler_keeps_its_replicas_until_the_resource_asks_for_another_number(
    desk: Desk,
) -> None:
    manifest = ORDINARY["a small deployment"](desk)
    manifest["spec"]["replicas"] = 1
    await desk.made(manifest)
    scale = desk.kind("Deployment").path(desk.namespace, "child", "scale")

    async def scaled(number: int, by: str) -> None:
        await desk.admin.request(
            "PATCH",
            scale,
            query={"fieldManager": by},
            body=b'{"spec":{"replicas":%d}}' % number,
            content_type=MERGE_PATCH,
        )

    await scaled(4, "kube-controller-manager")
    await desk.made(manifest)
    assert desk.written == []

    manifest["spec"]["minReadySeconds"] = 3
    await desk.made(manifest)
    assert (await desk.live(manifest))["spec"]["replicas"] == 4

    manifest["spec"]["replicas"] = 2
    await desk.made(manifest)
    assert (await desk.live(manifest))["spec"]["replicas"] == 2
    await desk.made(manifest)
    assert desk.written == []

    await scaled(7, "kubectl")
    await desk.made(manifest)
    assert (await desk.live(manifest))["spec"]["replicas"] == 2

    await scaled(0, "keda-operator")  # which leaves no name
    await desk.made(manifest)
    assert desk.written == []
    assert (await desk.live(manifest))["spec"]["replicas"] == 0
    manifest["spec"]["replicas"] = 1
    await desk.made(manifest)
    assert (await desk.live(manifest))["spec"]["replicas"] == 1
