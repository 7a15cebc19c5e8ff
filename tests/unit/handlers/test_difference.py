from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.difference import field_changes, pods_that_restart, restarts


def workload(replicas: int = 2, **pod: Any) -> Manifest:
    return {
        "kind": "Deployment",
        "metadata": {"name": "a", "resourceVersion": "1", "generation": 1, "managedFields": []},
        "spec": {"replicas": replicas, "template": {"spec": pod}},
        "status": {"replicas": 2},
    }


def containers(**named: Manifest) -> list[Manifest]:
    return [{"name": name, **fields} for name, fields in named.items()]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param({"hostIPC": True}, {}, [("hostIPC", True, None)], id="a field that goes"),
        pytest.param({}, {"hostIPC": True}, [("hostIPC", None, True)], id="a field that comes"),
        pytest.param(
            {"containers": containers(main={"image": "a"}, side={"image": "s"})},
            {"containers": containers(main={"image": "b"}, side={"image": "s"})},
            [('containers[name="main"].image', "a", "b")],
            id="an item by its name",
        ),
        pytest.param(
            {"containers": containers(main={}, side={})},
            {"containers": containers(side={}, main={})},
            [("containers (order)", ["main", "side"], ["side", "main"])],
            id="the order of items",
        ),
        pytest.param(
            {"containers": containers(main={})},
            {"containers": containers(main={}, side={"image": "s"})},
            [('containers[name="side"]', None, {"name": "side", "image": "s"})],
            id="one item more",
        ),
        pytest.param(
            {"args": ["a", "b"]}, {"args": ["a"]}, [("args", ["a", "b"], ["a"])], id="a plain list"
        ),
        pytest.param(
            {"nodeSelector": {"amd.com/gpu": "a"}},
            {"nodeSelector": {"amd.com/gpu": "b"}},
            [('nodeSelector["amd.com/gpu"]', "a", "b")],
            id="a key with dots",
        ),
    ],
)
def test_a_field_is_named_by_its_path_with_what_it_was_and_is(
    old: Manifest, new: Manifest, said: list[tuple[str, Any, Any]]
) -> None:
    before, after = workload(**old), workload(**new)
    changes = [(change.path, change.old, change.new) for change in field_changes(before, after)]
    assert changes == [(f"spec.template.spec.{path}", was, now) for path, was, now in said]
    assert restarts(before, after)
    assert pods_that_restart(before, after) == 2


def test_what_the_server_keeps_for_itself_is_no_difference() -> None:
    before, after = workload(), workload()
    after["metadata"] |= {"resourceVersion": "2", "generation": 2, "uid": "u", "managedFields": [1]}
    after["status"] = {}
    assert field_changes(before, after) == ()


def test_no_pod_restarts_over_a_number_of_replicas_and_all_end_with_their_workload() -> None:
    assert not restarts(workload(2), workload(3))
    assert pods_that_restart(workload(2), workload(3)) == 0
    assert not restarts(workload(2), None)
    assert pods_that_restart(workload(2), None) == 2
    assert pods_that_restart(None, workload(2)) == 0


def test_the_pods_of_a_group_restart_all_together() -> None:
    def groups(image: str) -> Manifest:
        template = {"size": 4, "workerTemplate": {"spec": {"image": image}}}
        return {**workload(), "spec": {"replicas": 2, "leaderWorkerTemplate": template}}

    assert restarts(groups("a"), groups("b"))
    assert pods_that_restart(groups("a"), groups("b")) == 8
    assert pods_that_restart(groups("a"), groups("a")) == 0


def test_our_own_marks_are_told_apart() -> None:
    before, after = workload(), workload()
    after["metadata"]["annotations"] = {"weir.dev/applied": "x", "example.com/a": "b"}
    marks = {change.path: change.is_mark for change in field_changes(before, after)}
    assert marks == {
        'metadata.annotations["weir.dev/applied"]': True,
        'metadata.annotations["example.com/a"]': False,
    }
