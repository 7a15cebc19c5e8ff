"""What the status says of an Inference Gateway."""

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.handler import ChildName, Problem
from handlers.inferadeployment import HANDLER
from tests.unit.handlers.inferadeployment.resources import (
    a_resource,
    accepted,
    as_ready,
    condition,
    observed,
    raw,
    read,
    rendered,
)

GATED = a_resource(gaie={"enabled": True, "tokenizerPath": "t", "gatewayName": "gw"})
GATEWAY_PARTS = {
    "eppReplicas": 1,
    "eppReadyReplicas": 1,
    "inferencePoolName": "demo-pool",
    "inferencePoolReady": True,
    "httpRouteName": "demo-route",
    "httpRouteAccepted": True,
    "ready": True,
}
PARENT = {"name": "gw", "namespace": "models"}
UNRESOLVED = {"type": "ResolvedRefs", "status": "False", "message": "no such kind"}
LEADS_NOWHERE = {
    "parentRef": PARENT,
    "conditions": [{"type": "Accepted", "status": "True"}, UNRESOLVED],
}


def status(resource: Any = GATED, **seen: Any) -> Manifest:
    return HANDLER.status(resource, observed(rendered(resource), **seen))


def test_a_gateway_is_ready_when_its_parts_are_and_none_is_spoken_of_where_there_is_none() -> None:
    found = status(GATED)
    assert found["gaie"] == GATEWAY_PARTS
    assert condition(found, "Ready")["status"] == "True"
    assert "gaie" not in status(a_resource())
    off = a_resource(gaie={"enabled": False, "tokenizerPath": "t", "gatewayName": "gw"})
    assert "gaie" not in status(off)


@pytest.mark.parametrize(
    ("reported", "changed", "reason", "says"),
    [
        (
            {"demo-epp": {"readyReplicas": 0}},
            {"eppReadyReplicas": 0},
            "WaitingForPods",
            "the endpoint picker has 0 of 1 pods ready",
        ),
        (
            {"demo-pool": {"parents": [accepted(PARENT, "False", message="no such thing")]}},
            {"inferencePoolReady": False},
            "NotAccepted",
            "InferencePool demo-pool is not accepted by the Gateway models/gw: no such thing",
        ),
        (
            {"demo-route": {"parents": [LEADS_NOWHERE]}},
            {},
            "NotResolved",
            "HTTPRoute demo-route leads nowhere: the Gateway models/gw does not resolve",
        ),
        (
            {"demo-pool": {"parents": [LEADS_NOWHERE]}},
            {"inferencePoolReady": False},
            "NotResolved",
            "InferencePool demo-pool leads nowhere",
        ),
        (
            {"demo-route": {"parents": []}},
            {"httpRouteAccepted": False},
            "WaitingForGateway",
            "HTTPRoute demo-route is not accepted yet",
        ),
    ],
)
def test_what_a_gateway_lacks_keeps_the_resource_from_being_ready_and_not_its_state(
    reported: dict[str, Manifest], changed: Manifest, reason: str, says: str
) -> None:
    found = status(GATED, status=reported)
    assert found["state"] == "ready"
    assert found["gaie"] == {**GATEWAY_PARTS, **changed, "ready": False}
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert ready["message"].startswith(says)
    is_moving = reason not in ("NotAccepted", "NotResolved")
    assert (condition(found, "Progressing")["status"] == "True") is is_moving


def test_an_old_picker_serves_while_the_new_one_comes_and_the_resource_is_not_ready() -> None:
    found = status(GATED, status={"demo-epp": {"replicas": 2, "updatedReplicas": 1}})
    assert found["gaie"]["ready"] is True
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RollingOut")


def test_the_pods_of_a_picker_tell_what_keeps_them() -> None:
    crashing = {
        "name": "epp",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "demo",
        "infera.amd.com/service": "epp",
    }
    pod = {"metadata": {"name": "e", "labels": labels}}
    of_picker = {**pod, "status": {"containerStatuses": [crashing]}}
    found = status(GATED, status={"demo-epp": {"readyReplicas": 0}}, pods=[of_picker])
    assert condition(found, "Ready")["reason"] == "Crashing"


@pytest.mark.parametrize(
    ("kind", "name", "changed"),
    [
        ("InferencePool", "demo-pool", {"inferencePoolReady": False}),
        ("HTTPRoute", "demo-route", {"httpRouteAccepted": False}),
    ],
)
def test_a_gateways_kind_that_is_not_installed_is_told_once(
    kind: str, name: str, changed: Manifest
) -> None:
    child = ChildName(kind, name)
    problem = Problem(child=child, reason="KindNotInstalled", message="install its CRD")
    found = status(GATED, problems=[problem], without=[child])
    assert found["state"] == "ready"
    assert found["gaie"] == {**GATEWAY_PARTS, **changed, "ready": False}
    assert condition(found, "Ready")["message"] == f"{kind} {name}: install its CRD"


def test_at_birth_a_gateway_has_no_parts_and_its_names() -> None:
    nothing = [(c["kind"], c["metadata"]["name"]) for c in rendered(GATED).children]
    found = status(GATED, without=nothing)
    assert found["state"] == "initializing"
    parts = {"eppReplicas": 0, "eppReadyReplicas": 0, "ready": False}
    parts |= {"inferencePoolReady": False, "httpRouteAccepted": False}
    assert found["gaie"] == {**GATEWAY_PARTS, **parts}
    assert condition(found, "Ready")["message"].count("demo-route") == 1


def test_prune_looks_for_a_gateway_where_the_last_status_tells_of_one() -> None:
    found = HANDLER.recorded(read(raw() | {"status": {"gaie": {"eppReplicas": 1}}}))
    assert set(found[5:]) == {
        ChildName("Service", "demo-epp"),
        ChildName("Deployment", "demo-epp"),
        ChildName("InferencePool", "demo-pool"),
        ChildName("HTTPRoute", "demo-route"),
    }


PICKER = ChildName("Deployment", "demo-epp")


def test_an_endpoint_picker_serves_when_the_status_is_content_with_it() -> None:
    (picker,) = (
        as_ready(child)
        for child in rendered(GATED).children
        if (child["kind"], child["metadata"]["name"]) == PICKER
    )
    assert HANDLER.serves(GATED, PICKER, picker)
    former = {**picker, "status": {**picker["status"], "observedGeneration": 0}}
    assert not HANDLER.serves(GATED, PICKER, former)
    assert not HANDLER.serves(a_resource(), PICKER, picker)
