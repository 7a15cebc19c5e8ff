"""From what the API server holds to findings."""

from __future__ import annotations

from typing import Any

from crds.inferadeployment import CONTRACT, DEPLOYMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from crds.kubernetes import Manifest
from handlers.cli.why_findings import is_behind
from handlers.cli.why_objects import child, cluster_half, pod
from handlers.handler import ChildName

WORKER = ChildName("Deployment", "chat-worker")
OWNER: Manifest = {"metadata": {"name": "chat", "uid": "u-1"}}
OF = (OWNER, CONTRACT)
OURS = {MANAGED_BY_LABEL: MANAGED_BY, DEPLOYMENT_LABEL: "chat"}
T1, T2, T3 = (f"2026-11-30T12:00:0{second}Z" for second in (1, 2, 3))


def reference(uid: str, kind: str = CONTRACT.kind.kind, name: str = "chat") -> Manifest:
    api_version = CONTRACT.kind.api_version
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def workload(*references: Manifest, labels: Any = None, **status: Any) -> Manifest:
    return {
        "kind": WORKER.kind,
        "metadata": {
            "name": WORKER.name,
            "labels": labels or {},
            "ownerReferences": list(references),
        },
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": {}},
        "status": status,
    }


def test_whose_a_child_is_is_told_with_its_controller() -> None:
    lives = {
        "ours": workload(reference("u-1")),
        "predecessor": workload(reference("u-0")),
        "orphan": workload(labels=OURS),
        "foreign": workload(reference("u-9", "Rollout", "x")),
        "missing": None,
    }

    found = {name: child(WORKER, live, None, of=OF) for name, live in lives.items()}

    assert {name: one.standing for name, one in found.items()} == {name: name for name in lives}
    assert [found[name].owner for name in ("ours", "foreign", "orphan")] == [
        "InferaDeployment/chat",
        "Rollout/x",
        "",
    ]


def test_only_what_is_ours_can_be_behind_its_rendering() -> None:
    rendered = workload()
    lives = (workload(reference("u-1")), workload(labels=OURS), workload(reference("u-9", "X")))

    assert [is_behind(child(WORKER, live, rendered, of=OF)) for live in (*lives, None)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_workload_serves_when_all_its_pods_do_in_its_present_version() -> None:
    def lacks(**status: int) -> bool:
        return child(WORKER, workload(reference("u-1"), **status), None, of=OF).lacks_pods

    assert lacks()
    assert lacks(replicas=3, updatedReplicas=3, readyReplicas=2)
    assert lacks(replicas=4, updatedReplicas=3, readyReplicas=3)
    assert not lacks(replicas=3, updatedReplicas=3, readyReplicas=3)


def test_what_has_no_pods_lacks_none() -> None:
    service: Manifest = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}

    one = child(ChildName("Service", "s"), service, None, of=OF)

    assert (one.replicas, one.lacks_pods) == (None, False)


def test_that_pods_cannot_be_made_is_told_before_that_they_are_late() -> None:
    late = {"type": "Progressing", "status": "False", "message": "timed out"}
    refused = {
        "type": "ReplicaFailure",
        "status": "True",
        "message": "exceeded quota",
        "lastTransitionTime": T2,
    }

    def trouble(*conditions: Manifest) -> tuple[str, str]:
        one = child(WORKER, workload(conditions=list(conditions)), None, of=OF)
        return one.trouble, one.trouble_since

    assert trouble(late, refused) == ("exceeded quota", T2)
    assert trouble(late) == ("timed out", "")
    assert trouble({**refused, "status": "False"}, {**late, "status": "True"}) == ("", "")


def test_a_pod_is_of_the_workload_that_selects_it_and_says_since_when_it_is_not_scheduled() -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/1 nodes",
        "lastTransitionTime": T2,
    }
    manifest: Manifest = {
        "metadata": {"name": "p", "labels": {"app": "x", "more": "y"}, "creationTimestamp": T1},
        "status": {"phase": "Pending", "conditions": [scheduled]},
    }

    one = pod(manifest, [workload()])
    other = pod({"metadata": {"name": "q", "labels": {"app": "z"}}}, [workload()])

    assert (one.workload, one.reason, one.since) == ("Deployment chat-worker", "Unschedulable", T2)
    assert (one.is_scheduled, one.is_ready) == (False, False)
    assert (other.workload, other.reason, other.is_scheduled) == ("", "", None)


def test_a_group_has_pods_no_selector_and_conditions_that_mean_no_trouble() -> None:
    name = ChildName("LeaderWorkerSet", "chat-wide")
    live: Manifest = {
        "kind": name.kind,
        "metadata": {"name": name.name, "ownerReferences": [reference("u-1")]},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {}}},
        "status": {
            "replicas": 2,
            "readyReplicas": 1,
            "updatedReplicas": 1,
            "conditions": [{"type": "Progressing", "status": "False", "message": "no"}],
        },
    }
    labels = {"app": "x", "leaderworkerset.sigs.k8s.io/name": name.name}
    worker = {"name": "w", "labels": labels}

    one = child(name, live, None, of=OF)

    assert (one.replicas, one.ready_replicas, one.is_rolling_out) == (2, 1, True)
    assert one.trouble == ""
    assert pod({"metadata": worker}, [workload(), live]).workload == "LeaderWorkerSet chat-wide"
    assert pod({"metadata": worker}, [workload()]).workload == ""
    assert pod({"metadata": {"name": "q"}}, [live]).workload == ""


def test_a_resource_was_edited_when_somebody_last_wrote_more_than_its_status() -> None:
    metadata = {
        "uid": "u-1",
        "generation": 2,
        "creationTimestamp": T1,
        "managedFields": [
            {"manager": "kubectl", "time": T2},
            {"manager": "weir", "time": T3, "subresource": "status"},
        ],
    }

    half = cluster_half({"metadata": metadata, "status": {"conditions": [{"type": "Odd"}]}})

    assert (half.edited, half.conditions, half.is_observed) == (T2, (), False)
    assert cluster_half({"metadata": {"uid": "u", "creationTimestamp": T1}}).edited == T1
