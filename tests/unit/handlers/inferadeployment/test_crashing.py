"""A crash loop is told once, whatever a look finds between two lives of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.conditions import transitions
from handlers.inferadeployment import HANDLER
from handlers.inferadeployment.names import service_labels
from tests.unit.handlers.inferadeployment.resources import (
    condition,
    observed,
    raw,
    read,
    rendered,
)

WAITING = {"demo-worker": {"readyReplicas": 0}}
CRASHED: Manifest = {
    "metadata": {"name": "demo-worker-1", "labels": service_labels("demo", "worker")},
    "status": {
        "containerStatuses": [
            {"name": "infera", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        ]
    },
}


def judged(manifest: Manifest, **seen: Any) -> Manifest:
    """Return the status of a resource as it was read."""
    resource = read(manifest)
    return HANDLER.status(resource, observed(rendered(resource), **seen))


def test_what_is_not_seen_between_two_lives_changes_nothing() -> None:
    crashed = judged(raw(), status=WAITING, pods=[CRASHED])
    assert condition(crashed, "Ready")["reason"] == "Crashing"
    between = judged(raw() | {"status": crashed}, status=WAITING, pods=[])
    assert between == crashed
    assert transitions(crashed, between) == []


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"status": {"demo-worker": {"readyReplicas": 0}, "demo-server": {"readyReplicas": 0}}}, 0),
        ({}, 1),
    ],
)
def test_what_comes_of_it_is_told(seen: dict[str, Any], reason: int) -> None:
    crashed = judged(raw(), status=WAITING, pods=[CRASHED])
    after = judged(raw() | {"status": crashed}, pods=[], **seen)
    assert condition(after, "Ready")["reason"] == ("WaitingForPods", "AllReady")[reason]


def test_an_edit_is_judged_anew() -> None:
    crashed = judged(raw(), status=WAITING, pods=[CRASHED])
    edited = raw() | {"status": crashed}
    edited["metadata"]["generation"] += 1
    assert condition(judged(edited, status=WAITING), "Ready")["reason"] == "WaitingForPods"


def test_another_trouble_is_told() -> None:
    crashed = judged(raw(), status=WAITING, pods=[CRASHED])
    state = {"waiting": {"reason": "ErrImagePull"}}
    pod = {**CRASHED, "status": {"containerStatuses": [{"name": "infera", "state": state}]}}
    after = judged(raw() | {"status": crashed}, status=WAITING, pods=[pod])
    assert condition(after, "Ready")["reason"] == "ImagePullFailed"
