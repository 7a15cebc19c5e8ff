"""Which pods are a workload's."""

from __future__ import annotations

import pytest

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


LABEL = "infera.amd.com/"
GROUP = "leaderworkerset.sigs.k8s.io/name"


@pytest.mark.parametrize(
    ("labels", "workload"),
    [
        ({f"{LABEL}service": "worker"}, ("Deployment", "demo-worker")),
        ({f"{LABEL}service": "epp"}, ("Deployment", "demo-epp")),
        (
            {f"{LABEL}service": "worker", GROUP: "demo-worker"},
            ("LeaderWorkerSet", "demo-worker"),
        ),
        ({f"{LABEL}component": "nats"}, ("StatefulSet", "demo-nats")),
        ({f"{LABEL}component": "another"}, None),
        ({}, None),
    ],
)
def test_a_pods_workload_is_told_by_its_labels(
    labels: dict[str, str], workload: tuple[str, str] | None
) -> None:
    assert HANDLER.workload_of(PLAIN, {"metadata": {"labels": labels}}) == workload
