"""Whether two states of a workload differ in what somebody asked for."""

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.asked import is_asked_for

ADDED = (
    'spec.containers[name="main"].env[name="POD_IP"]',
    'spec.containers[name="main"].readinessProbe',
    'spec.containers[name="main"].lifecycle.preStop',
    'spec.volumes[name="boot"]',
    "spec.serviceAccountName",
)
POD_IP = {"name": "POD_IP", "valueFrom": {}}
MINE = {"name": "MINE", "value": "1"}


def a_workload(pod: dict[str, Any] | None = None, **container: Any) -> Manifest:
    spec = {"containers": [{"name": "main", "image": "x:1", **container}], **(pod or {})}
    return {"spec": {"template": {"spec": spec}}}


ALIKE: dict[str, tuple[Manifest, Manifest]] = {
    "nothing": (a_workload(), a_workload()),
    "a variable": (a_workload(env=[MINE]), a_workload(env=[MINE, POD_IP])),
    "the only variable": (a_workload(), a_workload(env=[POD_IP])),
    "a value of it": (a_workload(env=[{**POD_IP, "value": "x"}]), a_workload(env=[POD_IP])),
    "a probe": (a_workload(readinessProbe={"a": 1}), a_workload(readinessProbe={"b": 1})),
    "a field below another": (a_workload(), a_workload(lifecycle={"preStop": {"a": 1}})),
    "fields of the pod": (
        a_workload({"volumes": [{"name": "boot", "a": 1}]}),
        a_workload({"serviceAccountName": "x"}),
    ),
    "what stands twice": (
        a_workload(env=[{"name": "MINE", "value": "0"}, MINE]),
        a_workload(env=[MINE]),
    ),
}
ASKED: dict[str, tuple[Manifest, Manifest]] = {
    "an image": (a_workload(), a_workload(image="x:2")),
    "a variable": (a_workload(env=[MINE]), a_workload(env=[{**MINE, "value": "2"}])),
    "a variable less": (a_workload(env=[MINE]), a_workload()),
    "a field beside one that is added": (
        a_workload(),
        a_workload(lifecycle={"preStop": {"a": 1}, "postStart": {"a": 1}}),
    ),
    "the last value of what stands twice": (
        a_workload(env=[{"name": "MINE", "value": "2"}, MINE]),
        a_workload(env=[{**MINE, "value": "2"}]),
    ),
    "the same of a container beside": (
        a_workload(),
        a_workload({"containers": [{"name": "side", "readinessProbe": {"a": 1}}]}),
    ),
    "labels": (a_workload(), {"spec": {"template": {**a_workload()["spec"]["template"], "x": 1}}}),
}


@pytest.mark.parametrize(("live", "ours"), ALIKE.values(), ids=ALIKE)
def test_what_is_added_is_not_asked_for(live: Manifest, ours: Manifest) -> None:
    assert not is_asked_for(live, ours, ADDED)
    assert not is_asked_for(ours, live, ADDED)


@pytest.mark.parametrize(("live", "ours"), ASKED.values(), ids=ASKED)
def test_all_else_is(live: Manifest, ours: Manifest) -> None:
    assert is_asked_for(live, ours, ADDED)


def a_group(size: int, **container: Any) -> Manifest:
    template = a_workload(**container)["spec"]["template"]
    return {"spec": {"leaderWorkerTemplate": {"size": size, "workerTemplate": template}}}


def test_of_a_group_its_size_is_asked_for_too() -> None:
    assert not is_asked_for(a_group(2), a_group(2, env=[POD_IP]), ADDED)
    assert is_asked_for(a_group(2), a_group(3), ADDED)
    assert is_asked_for(a_group(2), a_group(2, image="x:2"), ADDED)
