"""Which pods are a workload's."""

from __future__ import annotations

from handlers.handler import ChildName
from handlers.inferadeployment import HANDLER
from tests.unit.handlers.inferadeployment.resources import a_resource

PLAIN = a_resource()
WORKER = ChildName("Deployment", "demo-worker")


def test_the_pods_of_a_deployment_and_of_a_group_of_its_name_are_told_apart() -> None:
    """By a label of the group's controller: the selectors of both are the same."""
    of_both = f"{HANDLER.pod_selector(PLAIN)},"
    group = "leaderworkerset.sigs.k8s.io/name"
    assert HANDLER.pods_of(PLAIN, WORKER) == (f"{of_both}infera.amd.com/service=worker,!{group}")
    assert HANDLER.pods_of(PLAIN, ChildName("LeaderWorkerSet", "demo-worker")) == (
        f"{of_both}{group}=demo-worker"
    )
