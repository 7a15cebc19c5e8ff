"""What a workload still lacks, in words that hold while its numbers fall, too."""

from __future__ import annotations

import pytest

from crds.kubernetes import Manifest
from handlers.inferadeployment.workloads import deployment, stateful_set


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
