"""Why pods do not run, as scheduler and kubelet put it."""

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.pods import troubles

LABELS = {"app": "x"}


def pod(name: str = "p", **status: Any) -> Manifest:
    return {"metadata": {"name": name, "labels": {**LABELS, "more": "y"}}, "status": status}


def waiting(reason: str, **fields: Any) -> Manifest:
    state = {"waiting": {"reason": reason, "message": "m"}}
    return {"name": "main", "image": "i:1", "state": state, **fields}


@pytest.mark.parametrize(
    ("container", "reason", "says"),
    [
        (waiting("ImagePullBackOff"), "ImagePullFailed", "cannot pull i:1 (ImagePullBackOff)"),
        (waiting("InvalidImageName"), "ImagePullFailed", "mend the image's name"),
        (waiting("CreateContainerConfigError"), "ContainerNotStarted", "cannot start: m"),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 137}}),
            "Crashing",
            "container main of pod p ends with exit code 137; read its log",
        ),
        (waiting("CrashLoopBackOff"), "Crashing", "container main of pod p ends; read its log"),
        ({"name": "main", "state": {"terminated": {"exitCode": 1}}}, "Crashing", "exit code 1"),
    ],
)
def test_a_container_in_trouble_is_named_with_what_to_do(
    container: Manifest, reason: str, says: str
) -> None:
    for field in ("containerStatuses", "initContainerStatuses"):
        status: Manifest = {field: [container]}
        (trouble,) = troubles([{**pod(), "status": status}], LABELS)
        assert trouble.reason == reason
        assert says in trouble.message


@pytest.mark.parametrize(
    "container",
    [
        waiting("ContainerCreating"),
        waiting("PodInitializing"),
        {"name": "main", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}},
        {"name": "init", "state": {"terminated": {"exitCode": 0}}},
        {"name": "main", "state": None, "lastState": None},
    ],
)
def test_a_container_on_its_way_is_no_trouble(container: Manifest) -> None:
    assert troubles([pod(containerStatuses=[container])], LABELS) == []


def test_pods_of_one_trouble_are_counted_and_the_first_by_name_speaks() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    found = troubles([pod("c", conditions=[gated]), pod("a", conditions=[gated])], LABELS)
    (trouble,) = found
    assert trouble.message.startswith(
        "pod a is not scheduled: SchedulingGated (and 1 more like it)"
    )


def test_no_room_is_told_before_a_crash() -> None:
    crash = pod("a", containerStatuses=[waiting("CrashLoopBackOff")])
    no_room = pod("b", conditions=[{"type": "PodScheduled", "status": "False", "message": "full"}])
    assert [t.reason for t in troubles([crash, no_room], LABELS)] == ["Unschedulable", "Crashing"]


def test_pods_of_others_and_pods_on_their_way_out_say_nothing() -> None:
    failed = pod(phase="Failed", reason="Evicted")
    assert troubles([failed], LABELS)[0].message.startswith("pod p failed: Evicted")
    assert troubles([failed], {"app": "other"}) == []
    failed["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert troubles([failed], LABELS) == []


def test_a_running_pod_is_no_trouble() -> None:
    scheduled = {"type": "PodScheduled", "status": "True"}
    assert troubles([pod(phase="Running", conditions=[scheduled]), {}], LABELS) == []


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("0/1 nodes are available: 1 Insufficient amd.com/gpu.", "free or add nodes"),
        ("pod has unbound immediate PersistentVolumeClaims. not found", "kubectl get pvc"),
        ('persistentvolumeclaim "data" not found; PersistentVolumeClaim', "kubectl get pvc"),
    ],
)
def test_a_pod_without_a_node_is_told_what_it_lacks(words: str, remedy: str) -> None:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": words,
    }
    (trouble,) = troubles([pod(conditions=[unscheduled])], LABELS)
    assert trouble.reason == "Unschedulable"
    assert remedy in trouble.message
