from __future__ import annotations

import copy
from typing import Any

import pytest

from bridge.digest import digest
from tests.unit.bridge.objects import seen

FIELDS = ("readyReplicas", "conditions")


def a_deployment() -> dict[str, Any]:
    return {
        "metadata": {
            "name": "x",
            "uid": "u",
            "resourceVersion": "10",
            "generation": 2,
            "labels": {"a": "1", "b": "2"},
            "annotations": {"weir.dev/applied": "h", "other/x": "1"},
            "ownerReferences": [{"kind": "Engine", "name": "e", "uid": "o", "controller": True}],
            "managedFields": [{"manager": "weir"}],
        },
        "status": {"readyReplicas": 1, "observedGeneration": 2},
    }


def changed(path: str, value: object) -> dict[str, Any]:
    manifest = copy.deepcopy(a_deployment())
    *parents, last = path.split(".", 2)
    at = manifest
    for parent in parents:
        at = at[parent]
    at[last] = value
    return manifest


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.generation", 3),
        ("metadata.labels.a", "2"),
        ("metadata.labels", None),
        ("metadata.annotations", {"weir.dev/applied": "i"}),
        ("metadata.ownerReferences", []),
        ("metadata.ownerReferences", [{"kind": "Engine", "name": "f", "uid": "o"}]),
        ("metadata.deletionTimestamp", "2026-01-01T00:00:00Z"),
        ("status.readyReplicas", 2),
        ("status.conditions", [{"type": "Available"}]),
        ("status", {}),
    ],
)
def test_what_a_reconcile_must_see_changes_the_digest(path: str, value: object) -> None:
    assert digest(seen(changed(path, value), *FIELDS)) != digest(seen(a_deployment(), *FIELDS))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.resourceVersion", "11"),
        ("metadata.annotations", {"other/x": "2", "weir.dev/applied": "h"}),
        ("metadata.managedFields", []),
        ("metadata.labels", {"b": "2", "a": "1"}),
        ("status.observedGeneration", 1),
        ("spec", {"replicas": 3}),
    ],
)
def test_what_no_reconcile_needs_leaves_the_digest(path: str, value: object) -> None:
    assert digest(seen(changed(path, value), *FIELDS)) == digest(seen(a_deployment(), *FIELDS))


@pytest.mark.parametrize("generation", [None, 0])
def test_without_a_generation_any_new_version_matters(generation: int | None) -> None:
    one, two = changed("metadata.generation", generation), changed("metadata.generation", None)
    two["metadata"]["resourceVersion"] = "11"
    assert digest(seen(one)) != digest(seen(two))


def test_any_change_matters_where_it_is_asked_for() -> None:
    other = changed("metadata.resourceVersion", "11")
    assert digest(seen(a_deployment()), any_change=True) != digest(seen(other), any_change=True)


def test_a_digest_is_eight_bytes() -> None:
    assert 0 <= digest(seen(a_deployment())) < 2**64
