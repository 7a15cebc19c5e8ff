"""The eyes of the state machine see what the product's own comparison leaves out, by design."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers import plan
from handlers.fields import MANAGER
from handlers.writes import FENCE
from tests.e2e.machine.compare import Theirs, differences, twins
from tests.e2e.machine.model import rendered
from tests.refused import resource

WANTED: Manifest = rendered(
    {**resource("ant"), "metadata": {"name": "ant", "namespace": "ns", "uid": "u-1"}}
)["Deployment/ant-worker"]


def owned(value: Any) -> Manifest:
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": owned(item) for key, item in value.items()}


def live(uid: str = "c-1") -> Manifest:
    """Return the child as a handler left it."""
    made = deepcopy(plan.marked(WANTED, 1))
    fields = owned({"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]})
    fields["f:metadata"] |= owned({"annotations": made["metadata"]["annotations"]})
    fields["f:metadata"]["f:ownerReferences"] = {'k:{"uid":"u-1"}': {}}
    made["metadata"]["uid"] = uid
    made["metadata"]["managedFields"] = [
        {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    ]
    return made


def seen(child: Manifest, theirs: Theirs | None = None) -> list[str]:
    return differences(child, WANTED, WANTED, theirs or Theirs())


def test_a_child_as_it_was_rendered_differs_in_nothing() -> None:
    child = live()
    child["metadata"]["labels"][FENCE] = "x"
    child["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "INJECTED"})
    assert seen(child) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), 7),
        (("spec", "template", "spec", "containers", 0, "image"), "other:1"),
        (("spec", "template", "spec", "nodeSelector"), {"left": "over"}),
        (("metadata", "labels", "infera.amd.com/service"), "other"),
        (("metadata", "labels", "left"), "over"),
        (("metadata", "ownerReferences"), None),
    ],
)
def test_a_wrong_value_is_seen_where_the_product_compares_none(
    path: tuple[str | int, ...], value: Any
) -> None:
    child = live()
    holder: Any = child
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    assert plan.matches(WANTED, child) is (path[-1] != "ownerReferences")
    assert any(str(path[-1]) in line for line in seen(child)), seen(child)


def test_what_others_gave_must_stay_and_their_replicas_until_the_resource_asks_anew() -> None:
    child, theirs = live(), Theirs()
    theirs.give("c-1", "labels", {"team": "blue"})
    theirs.replicas["c-1"] = (5, 1)
    assert any("team" in line for line in seen(child, theirs))
    child["metadata"]["labels"]["team"] = "blue"
    child["spec"]["replicas"] = 5
    assert seen(child, theirs) == []
    theirs.taken_back("c-1", WANTED)
    assert seen(child, theirs) == []
    theirs.taken_back("c-1", {**WANTED, "spec": {**WANTED["spec"], "replicas": 2}})
    assert seen(child, theirs) != []


def test_a_field_that_was_never_given_back_is_seen_beside_the_twin() -> None:
    child, twin = live(), live("c-2")
    assert twins(child, twin, Theirs()) == []
    child["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:paused"] = {}
    assert twins(child, twin, Theirs()) == ["is ours and not the twin's: spec.paused"]
