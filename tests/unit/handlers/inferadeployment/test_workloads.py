"""What a workload still lacks, in words that hold while its numbers fall, too."""

from __future__ import annotations

import pytest

from crds.kubernetes import Manifest
from handlers.inferadeployment.workloads import deployment, leader_worker_set, stateful_set


def live(generation: int = 1, **status: int) -> Manifest:
    return {"metadata": {"generation": generation}, "status": {"observedGeneration": 1, **status}}


@pytest.mark.parametrize(
    ("seen", "lacks"),
    [
        ((5, 5, 5), "has 5 pods ready, 2 wanted"),
        ((1, 1, 1), "has 1 of 2 pods ready"),
        ((5, 1, 5), "has 1 of 2 pods of its present version, 5 ready in all"),
        ((5, 4, 5), "has 5 pods, 2 wanted, 4 of its present version"),
    ],
)
def test_more_pods_than_wanted_are_no_fraction(seen: tuple[int, int, int], lacks: str) -> None:
    replicas, updated, ready = seen
    found = live(2, replicas=replicas, updatedReplicas=updated, readyReplicas=ready)
    assert deployment(found, 2).lacks == lacks
    assert not deployment(found, 2).is_satisfied


def test_so_it_is_with_the_own_nats() -> None:
    assert stateful_set(live(2, readyReplicas=3), 1).lacks == "has 3 pods ready, 1 wanted"


GROUPS = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2}


@pytest.mark.parametrize(
    ("changed", "generation", "wanted", "satisfied"),
    [
        ({}, 1, 2, True),
        ({}, 2, 2, False),
        ({"readyReplicas": 1}, 1, 2, False),
        ({"updatedReplicas": 1}, 1, 2, False),
        ({"replicas": 3, "updatedReplicas": 3}, 1, 2, True),
        ({"replicas": 3}, 1, 2, False),
        ({}, 1, 3, False),
        ({"replicas": 0, "readyReplicas": 0, "updatedReplicas": 0}, 1, 0, True),
        ({"replicas": 0, "readyReplicas": 0, "updatedReplicas": 0}, 2, 0, False),
    ],
)
def test_groups_count_in_their_present_generation_and_revision_only(
    changed: dict[str, int], generation: int, wanted: int, satisfied: bool
) -> None:
    found = leader_worker_set(live(generation, **{**GROUPS, **changed}), wanted)
    assert found.is_satisfied is satisfied


def test_a_group_is_said_to_lack_groups_and_to_roll_out() -> None:
    waiting = leader_worker_set(live(**{**GROUPS, "readyReplicas": 1}), 2)
    assert (waiting.reason, waiting.lacks) == ("WaitingForPods", "has 1 of 2 groups ready")
    rolling = leader_worker_set(live(**{**GROUPS, "updatedReplicas": 1}), 2)
    assert rolling.reason == "RollingOut"
    assert rolling.lacks == "has 1 of 2 groups of its present version, 2 ready in all"
    assert leader_worker_set(None, 2).reason == "Creating"


def test_a_group_that_is_well_says_that_it_does_not_progress_and_is_not_stalled() -> None:
    found = live(**{**GROUPS, "readyReplicas": 1})
    found["status"]["conditions"] = [{"type": "Progressing", "status": "False"}]
    assert leader_worker_set(found, 2).reason == "WaitingForPods"
    assert deployment(found, 2).reason == "Stalled"


@pytest.mark.parametrize(
    ("conditions", "reason", "words"),
    [
        ([("ReplicaFailure", "True")], "Stalled", "its pods cannot be made: exceeded quota: gpus"),
        (
            [("Progressing", "False"), ("ReplicaFailure", "True")],
            "Stalled",
            "its pods cannot be made: exceeded quota: gpus",
        ),
        ([("Progressing", "False")], "Stalled", "no progress within its deadline"),
        ([("ReplicaFailure", "False"), ("Progressing", "True")], "WaitingForPods", "0 of 2 pods"),
    ],
)
def test_what_keeps_a_deployment_from_its_pods_is_said_in_its_words(
    conditions: list[tuple[str, str]], reason: str, words: str
) -> None:
    found = live()
    found["status"]["conditions"] = [
        {"type": type_, "status": value, "message": "exceeded quota: gpus"}
        for type_, value in conditions
    ]
    judged = deployment(found, 2)
    assert judged.reason == reason
    assert words in judged.lacks


def test_a_release_that_reports_no_generation_is_believed_once_it_reports_anything() -> None:
    old = live(7, **GROUPS)
    del old["status"]["observedGeneration"]
    assert not leader_worker_set(old, 2).is_satisfied
    old["status"]["conditions"] = [{"type": "Available", "status": "True"}]
    assert leader_worker_set(old, 2).is_satisfied
    assert not leader_worker_set({"metadata": {"generation": 1}}, 0).is_satisfied
