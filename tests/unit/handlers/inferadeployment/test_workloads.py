"""What a workload still lacks, in words that hold while its numbers fall, too."""

from __future__ import annotations

import pytest

from crds.kubernetes import Manifest
from handlers import silent
from handlers.inferadeployment.workloads import (
    deployment,
    leader_worker_set,
    pods_due,
    stateful_set,
)
from handlers.plan import APPLIED


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


SILENT = {**GROUPS, "conditions": [{"type": "Available", "status": "True"}]}
"""A status of a release that reports no generation."""


def a_set(
    image: str, status: Manifest, *, replicas: int = 2, applied: str | None = None
) -> Manifest:
    """Return a set; what was *applied* is told by its image, unless it was never ours."""
    template = {"spec": {"containers": [{"name": "infera", "image": image}]}}
    groups = {"size": 3, "workerTemplate": template}
    return {
        "metadata": {
            "generation": 7,
            "annotations": {APPLIED: image if applied is None else applied},
        },
        "spec": {"replicas": replicas, "leaderWorkerTemplate": groups},
        "status": status,
    }


def applied_over(before: Manifest, after: Manifest) -> Manifest:
    """Return what became of a set that was applied."""
    metadata = after["metadata"]
    annotations = {**metadata["annotations"], **silent.remembered(before)}
    return {**after, "metadata": {**metadata, "annotations": annotations}}


def test_a_release_that_reports_no_generation_is_believed_once_it_reports_anything() -> None:
    assert not leader_worker_set(a_set("i:1", GROUPS), 2).is_satisfied
    assert leader_worker_set(a_set("i:1", SILENT), 2).is_satisfied
    assert not leader_worker_set({"metadata": {"generation": 1}}, 0).is_satisfied


def test_but_after_an_edit_only_once_it_has_met_it() -> None:
    edited = applied_over(a_set("i:1", SILENT), a_set("i:2", SILENT))
    found = leader_worker_set(edited, 2)
    assert (found.is_satisfied, found.reason) == (False, "RollingOut")
    assert found.lacks == (
        "has a status of a former version: its controller has not met the present one yet"
    )
    assert pods_due(edited) == 0
    rolled = {**SILENT, "conditions": [{"type": "Available", "status": "True", "message": "m"}]}
    assert leader_worker_set({**edited, "status": rolled}, 2).is_satisfied
    assert pods_due({**edited, "status": rolled}) == 6


def test_nor_is_it_after_a_second_edit_that_it_has_not_met_either() -> None:
    edited = applied_over(a_set("i:1", SILENT), a_set("i:2", SILENT))
    again = applied_over(edited, a_set("i:3", SILENT))
    assert not leader_worker_set(again, 2).is_satisfied


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([("i:2", "b", 2), ("i:1", "a", 2)], id="it was undone"),
        pytest.param([("i:1", "b", 2)], id="only its labels were written"),
        pytest.param([("i:1", "b", 3)], id="its pods stay as they are"),
    ],
)
def test_it_is_where_there_is_nothing_to_meet(edits: list[tuple[str, str, int]]) -> None:
    """As by a take-over, where nothing was applied before."""
    for before in ("", "a"):
        live = a_set("i:1", SILENT, applied=before)
        for image, applied, replicas in edits:
            live = applied_over(live, a_set(image, SILENT, replicas=replicas, applied=applied))
        assert leader_worker_set(live, 2).is_satisfied


def test_so_it_is_where_others_had_changed_pods_that_were_set_right() -> None:
    meddled = a_set("theirs", SILENT, applied="x")
    assert leader_worker_set(
        applied_over(meddled, a_set("i:1", SILENT, applied="x")), 2
    ).is_satisfied


def test_one_without_groups_has_none_of_before() -> None:
    none = {**SILENT, "replicas": 0, "readyReplicas": 0, "updatedReplicas": 0}
    edited = applied_over(a_set("i:1", none), a_set("i:2", none))
    assert leader_worker_set(edited, 0).is_satisfied
    assert not leader_worker_set(edited, 1).is_satisfied


def test_who_reports_generations_needs_nothing_remembered() -> None:
    assert silent.remembered(a_set("i:1", {**SILENT, "observedGeneration": 7})) == {}
    assert silent.remembered(a_set("i:1", {})) == {}


def test_pods_are_due_of_the_present_generation_and_not_before_their_leaders() -> None:
    seen = a_set("i:1", {**SILENT, "observedGeneration": 7})
    assert pods_due(seen) == 6
    assert pods_due({**seen, "status": {**SILENT, "observedGeneration": 6}}) == 0
    assert pods_due({**seen, "spec": {**seen["spec"], "startupPolicy": "LeaderReady"}}) == 2
    pods = live(1, replicas=0)
    assert pods_due({**pods, "spec": {"replicas": 3}}) == 3
    assert pods_due({"metadata": {"generation": 1}, "spec": {"replicas": 3}}) == 0
