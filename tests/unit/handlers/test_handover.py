"""Until when a workload of the former kind serves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.handover import (
    is_out_of_quota,
    is_pod_of,
    is_short_of,
    was_made_since,
)
from handlers.pod_reads import PODS_MAX
from handlers.pods import lacks_room


def a_pod(*conditions: Manifest, **metadata: Any) -> Manifest:
    return {"metadata": {"name": "p", **metadata}, "status": {"conditions": list(conditions)}}


def scheduled(status: str, reason: str = "", message: str = "") -> Manifest:
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": message}


def no_node(*words: str, beyond_help: int = 0) -> Manifest:
    """Return what the scheduler says of eight nodes, so many of which no pod's end would help."""
    victims = [f"{8 - beyond_help} No preemption victims found for incoming pod"]
    counts = (victims if beyond_help < 8 else []) + (
        [f"{beyond_help} Preemption is not helpful for scheduling"] if beyond_help else []
    )
    said = f"0/8 nodes are available: {', '.join(words)}. preemption: 0/8 nodes are available: "
    return scheduled("False", "Unschedulable", f"{said}{', '.join(counts)}.")


NO_NODE = scheduled("False", "Unschedulable")
FULL = no_node("8 Insufficient amd.com/gpu")
HALF_CORDONED = no_node("4 Insufficient amd.com/gpu", "4 node(s) were unschedulable", beyond_help=4)
NO_SUCH_NODE = no_node("8 node(s) didn't match Pod's node affinity/selector", beyond_help=8)
TOO_GREEDY = no_node("8 Insufficient amd.com/gpu", beyond_help=8)
CLAIMED = no_node("8 cannot allocate all claims", beyond_help=8)
PODS: dict[str, tuple[Manifest, bool]] = {
    "no node takes it": (a_pod(NO_NODE), True),
    "every node is full": (a_pod(FULL), True),
    "every node is full or cordoned": (a_pod(HALF_CORDONED), True),
    "every device is claimed": (a_pod(CLAIMED), True),
    "no node has its label": (a_pod(NO_SUCH_NODE), False),
    "no node has so many GPUs": (a_pod(TOO_GREEDY), False),
    "it was never looked at": (a_pod(), False),
    "it has a node": (a_pod(scheduled("True")), False),
    "it waits for a gate": (a_pod(scheduled("False", "SchedulingGated")), False),
    "it does not run for another reason": (
        a_pod({"type": "Ready", "status": "False", "reason": "Unschedulable"}),
        False,
    ),
    "it is on its way out": (a_pod(NO_NODE, deletionTimestamp="2026-12-01T12:00:00Z"), False),
}


@pytest.mark.parametrize(("pod", "lacks"), PODS.values(), ids=PODS)
def test_a_pod_lacks_room_where_the_end_of_others_may_give_it_a_node(
    pod: Manifest, *, lacks: bool
) -> None:
    assert lacks_room(pod) is lacks


BEGUN = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("pod", "is_so"),
    [
        (a_pod(creationTimestamp="2026-12-01T11:59:59Z"), False),
        (a_pod(creationTimestamp="2026-12-01T12:00:00Z"), False),
        (a_pod(creationTimestamp="2026-12-01T12:00:01Z"), True),
        (
            a_pod(scheduled("False", "SchedulingGated"), creationTimestamp="2026-12-01T12:00:01Z"),
            False,
        ),
        (
            a_pod(
                creationTimestamp="2026-12-01T11:59:59Z", deletionTimestamp="2026-12-01T12:00:09Z"
            ),
            True,
        ),
    ],
)
def test_a_controller_that_makes_or_ends_pods_is_kept_from_none(
    pod: Manifest, *, is_so: bool
) -> None:
    assert was_made_since(pod, BEGUN) is is_so


@pytest.mark.parametrize(
    ("created", "is_its"),
    [
        ("2026-12-01T12:00:00Z", True),
        ("2026-12-01T12:00:09Z", True),
        ("2026-12-01T11:59:59Z", False),
    ],
)
def test_a_pod_that_is_older_is_of_a_former_workload_of_the_name(
    created: str, *, is_its: bool
) -> None:
    workload = {"metadata": {"creationTimestamp": "2026-12-01T12:00:00Z"}}
    assert is_pod_of(a_pod(creationTimestamp=created), workload) is is_its
    assert not is_pod_of(a_pod(creationTimestamp=created), {"metadata": {}})


@pytest.mark.parametrize(
    ("condition", "is_so"),
    [
        ({"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}, True),
        ({"type": "ReplicaFailure", "status": "False", "message": "exceeded quota: gpus"}, False),
        ({"type": "ReplicaFailure", "status": "True", "message": "a webhook refused it"}, False),
        ({"type": "Progressing", "status": "True", "message": "exceeded quota: gpus"}, False),
    ],
)
def test_a_quota_keeps_pods_from_being_made_where_their_controller_says_so(
    condition: Manifest, *, is_so: bool
) -> None:
    assert is_out_of_quota({"status": {"conditions": [condition]}}) is is_so
    assert not is_out_of_quota({})


GATED = a_pod(scheduled("False", "SchedulingGated"))
GOING = a_pod(scheduled("True"), deletionTimestamp="2026-12-01T12:00:00Z")
RUNS = a_pod(scheduled("True"))


@pytest.mark.parametrize(
    ("pods", "due", "is_short"),
    [
        ([], 2, True),
        ([RUNS], 2, True),
        ([RUNS, a_pod()], 2, False),
        ([RUNS, GATED], 2, True),
        ([GATED, GATED], 2, True),
        ([RUNS, GOING], 2, False),
        ([RUNS, RUNS, GATED], 2, False),
        ([], 0, False),
        ([RUNS] * PODS_MAX, PODS_MAX + 1, False),
    ],
)
def test_a_successor_lacks_pods_that_are_not_made_or_wait_for_a_gate(
    pods: list[Manifest], due: int, *, is_short: bool
) -> None:
    assert is_short_of(pods, due) is is_short
