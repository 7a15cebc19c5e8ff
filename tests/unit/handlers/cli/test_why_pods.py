"""What a resource waits for in its pods, over a table of situations."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from handlers.cli.why_pods import shortage
from tests.unit.handlers.cli.why_situations import (
    GPUS,
    LACKING,
    NOT_READY,
    POD,
    QUEUE,
    Situation,
    ago,
    check,
    child,
    cluster,
    condition,
    no_room,
    queue,
)

SITUATIONS = {
    "a quota keeps a workload from its pods": Situation(
        cluster(
            conditions=NOT_READY,
            children=(child(ready_replicas=0, trouble="pods are forbidden: exceeded quota"),),
        ),
        QUEUE,
        ["Stalled"],
        "the pods of Deployment chat-worker: pods are forbidden: exceeded quota",
        "kubectl describe quota -n team-a",
    ),
    "no node has enough GPUs": Situation(
        cluster(
            conditions=NOT_READY,
            children=(child(ready_replicas=0, trouble="has timed out progressing"),),
            pods=(no_room("p-1", GPUS), no_room("p-2", GPUS)),
        ),
        queue(timer_due=ago(-7)),
        ["Unschedulable"],
        "room for 2 pods of Deployment chat-worker: no node has enough amd.com/gpu left, for 60s",
        "kubectl describe pod p-1 -n team-a",
    ),
    "the scheduler is silent": Situation(
        cluster(conditions=NOT_READY, children=LACKING, pods=(POD,)),
        QUEUE,
        ["SchedulerSilent"],
        "the scheduler, which has said nothing of 1 pod of Deployment chat-worker",
        "component=kube-scheduler",
    ),
    "an image cannot be pulled": Situation(
        cluster(
            conditions=NOT_READY,
            children=LACKING,
            pods=(replace(POD, reason="ImagePullFailed", message="cannot pull i:1"),),
        ),
        QUEUE,
        ["ImagePullFailed"],
        "an image for 1 pod of Deployment chat-worker: cannot pull i:1",
        "kubectl edit idep chat -n team-a",
    ),
    "a container refers to what is not there": Situation(
        cluster(
            conditions=NOT_READY,
            children=LACKING,
            pods=(replace(POD, reason="ContainerNotStarted", message="secret x not found"),),
        ),
        QUEUE,
        ["ContainerNotStarted"],
        "1 pod of Deployment chat-worker to start: secret x not found",
        "kubectl describe pod chat-worker-1 -n team-a",
    ),
    "a container crashes": Situation(
        cluster(
            conditions=NOT_READY,
            children=LACKING,
            pods=(replace(POD, reason="Crashing", message="main ends with exit code 1"),),
        ),
        QUEUE,
        ["Crashing"],
        "1 pod of Deployment chat-worker to stop crashing: main ends with exit code 1",
        "kubectl logs chat-worker-1 --all-containers --previous -n team-a",
    ),
    "pods start": Situation(
        cluster(
            conditions=NOT_READY,
            children=LACKING,
            pods=(replace(POD, phase="Running", node="n", is_scheduled=True, since=ago(10)),),
        ),
        QUEUE,
        ["WaitingForPods"],
        "1 of 2 pods of Deployment chat-worker to become ready, for 10s",
        "wait",
    ),
    "pods have been starting for long": Situation(
        cluster(
            conditions=NOT_READY,
            children=LACKING,
            pods=(replace(POD, phase="Running", node="n", is_scheduled=True, since=ago(600)),),
        ),
        QUEUE,
        ["WaitingForPods"],
        "1 of 2 pods of Deployment chat-worker to become ready, for 10m",
        "kubectl logs chat-worker-1 --all-containers -n team-a",
    ),
    "pods of a former version are replaced": Situation(
        cluster(
            conditions=(condition("False", "RollingOut"),),
            children=(child(is_rolling_out=True),),
        ),
        QUEUE,
        ["RollingOut"],
        "Deployment chat-worker to replace its pods of a former version",
        "kubectl describe deployment chat-worker -n team-a",
    ),
    "groups start, beside pods of the workload that they succeed": Situation(
        cluster(
            conditions=NOT_READY,
            children=(
                child(kind="LeaderWorkerSet", ready_replicas=1),
                child(is_wanted=False, ready_replicas=1),
            ),
            pods=(
                replace(POD, reason="Crashing", message="main ends with exit code 1"),
                replace(
                    POD,
                    name="chat-worker-0",
                    workload="LeaderWorkerSet chat-worker",
                    phase="Running",
                    is_scheduled=True,
                    since=ago(10),
                ),
            ),
        ),
        QUEUE,
        ["WaitingForPods"],
        "1 of 2 groups of LeaderWorkerSet chat-worker to become ready, for 10s",
        "wait",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_pods_wait_for_is_told_with_what_to_do(name: str) -> None:
    check(SITUATIONS[name])


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (GPUS, "no node has enough amd.com/gpu left"),
        (
            (
                "0/10 nodes are available: 3 Insufficient cpu, 7 node(s) didn't match Pod's node "
                "affinity/selector. preemption: 0/10 nodes are available: 10 Insufficient memory."
            ),
            "no node has the labels that the pod asks for",
        ),
        (
            (
                "0/4 nodes are available: 1 node(s) were unschedulable, 3 node(s) had untolerated "
                "taint {gpu: true}. no new claims to deallocate"
            ),
            "the nodes have taints that the pod does not tolerate",
        ),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", "the nodes are cordoned"),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "a volume claim is not there, not bound, or bound elsewhere",
        ),
        ("no nodes available to schedule pods", "the cluster has no node"),
        ("something that no version said before", "something that no version said before"),
    ],
)
def test_the_schedulers_words_are_told_by_what_most_nodes_lack(said: str, means: str) -> None:
    assert shortage(f"pod p is not scheduled: {said}")[0] == means
