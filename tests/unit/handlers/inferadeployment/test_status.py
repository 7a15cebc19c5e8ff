"""What the status says of children in every state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crds.kubernetes import Manifest
from handlers.handler import ChildName, Notice, Problem, TerminalError
from handlers.inferadeployment import HANDLER
from tests.unit.handlers.inferadeployment.resources import (
    LATER,
    NOW,
    a_resource,
    as_ready,
    condition,
    observed,
    raw,
    read,
    rendered,
)

PLAIN = a_resource()
BROKERED = a_resource(nats={})


def status(resource: Any = PLAIN, **seen: Any) -> Manifest:
    return HANDLER.status(resource, observed(rendered(resource), **seen))


def test_when_every_child_is_done_the_resource_is_ready() -> None:
    assert status() == {
        "state": "ready",
        "observedGeneration": 3,
        "services": {
            "server": {"kind": "Deployment", "replicas": 1, "readyReplicas": 1},
            "worker": {"kind": "Deployment", "replicas": 1, "readyReplicas": 1},
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "AllReady",
                "message": "everything asked for is ready",
                "lastTransitionTime": NOW,
                "observedGeneration": 3,
            },
            {
                "type": "Progressing",
                "status": "False",
                "reason": "AllReady",
                "message": "nothing is under way",
                "lastTransitionTime": NOW,
                "observedGeneration": 3,
            },
            {
                "type": "Degraded",
                "status": "False",
                "reason": "AsAsked",
                "message": "every child is as asked for",
                "lastTransitionTime": NOW,
                "observedGeneration": 3,
            },
        ],
    }


WAITING = {"replicas": 1, "readyReplicas": 0}
REPLACED = {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 1}
CRASHING_ROLLOUT = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 0}


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        (WAITING, "WaitingForPods"),
        ({"replicas": 0, "readyReplicas": 0, "updatedReplicas": 0}, "WaitingForPods"),
        ({"observedGeneration": 0}, "WaitingForPods"),
        (REPLACED, "RollingOut"),
        (CRASHING_ROLLOUT, "RollingOut"),
        (
            CRASHING_ROLLOUT | {"conditions": [{"type": "Progressing", "status": "False"}]},
            "Stalled",
        ),
        (
            CRASHING_ROLLOUT | {"conditions": [{"type": "Progressing", "status": "True"}]},
            "RollingOut",
        ),
    ],
)
def test_ready_pods_of_another_generation_or_revision_do_not_count(
    reported: Manifest, reason: str
) -> None:
    found = status(status={"demo-worker": reported})
    assert found["state"] == "pending"
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert ready["message"].startswith("service worker has")
    progressing = condition(found, "Progressing")["status"]
    assert progressing == ("False" if reason == "Stalled" else "True")


def test_a_service_of_no_replicas_is_satisfied_once_its_controller_knows() -> None:
    resource = a_resource(services={"worker": {"componentType": "worker", "replicas": 0}})
    assert status(resource)["state"] == "ready"
    stale = status(resource, status={"demo-worker": {"observedGeneration": 0}})
    assert stale["state"] == "pending"


def test_more_pods_than_wanted_are_enough() -> None:
    more = {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3}
    found = status(status={"demo-worker": more})
    assert found["state"] == "ready"
    assert found["services"]["worker"] == {
        "kind": "Deployment",
        "replicas": 3,
        "readyReplicas": 2,
    }


def autoscaled(manager: str, subresource: str = "scale") -> Manifest:
    observation = observed(rendered(PLAIN))
    live = observation.children[ChildName("Deployment", "demo-worker")]
    assert live is not None
    live["spec"]["replicas"] = 3
    live["metadata"]["managedFields"] = [
        {
            "manager": manager,
            "subresource": subresource,
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }
    ]
    return HANDLER.status(PLAIN, observation)


def test_an_autoscalers_number_is_what_is_wanted_and_a_kubectl_scale_is_not() -> None:
    assert autoscaled("kube-controller-manager")["state"] == "pending"
    assert autoscaled("kubectl")["state"] == "ready"
    assert autoscaled("kube-controller-manager", "status")["state"] == "ready"


def test_at_birth_the_state_is_initializing() -> None:
    nothing = [(c["kind"], c["metadata"]["name"]) for c in rendered(PLAIN).children]
    found = status(without=nothing)
    assert found["state"] == "initializing"
    assert condition(found, "Ready")["reason"] == "Creating"
    assert condition(found, "Degraded")["status"] == "False"
    half = status(without=[("Deployment", "demo-worker")])
    assert half["state"] == "pending"


def test_a_missing_child_that_is_no_workload_keeps_ready_false_and_the_state_ready() -> None:
    found = status(without=[("Role", "demo-disc")])
    assert found["state"] == "ready"
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Creating")
    assert "Role demo-disc" in ready["message"]


@pytest.mark.parametrize(
    "reported", [{"readyReplicas": 0}, {"updateRevision": "r2"}, {"observedGeneration": 0}]
)
def test_an_own_broker_counts_for_ready_and_not_for_the_state(reported: Manifest) -> None:
    assert condition(status(BROKERED), "Ready")["status"] == "True"
    found = status(BROKERED, status={"demo-nats": reported})
    assert found["state"] == "ready"
    ready = condition(found, "Ready")
    assert ready["status"] == "False"
    assert ready["message"].startswith("the own NATS has")


def test_a_problem_of_a_child_is_told_and_keeps_the_resource_from_being_ready() -> None:
    problem = Problem(
        child=ChildName("Service", "demo-server"),
        reason="ForeignObject",
        message="belongs to somebody else: rename the resource, or remove the Service",
    )
    found = status(problems=[problem], without=[("Service", "demo-server")])
    for type_, standing in (("Ready", "False"), ("Degraded", "True")):
        told = condition(found, type_)
        assert (told["status"], told["reason"]) == (standing, "ForeignObject")
        assert told["message"].startswith("Service demo-server: belongs to somebody else")
    assert condition(found, "Progressing")["status"] == "False"


def test_a_field_that_nobody_knows_degrades_and_does_not_stop_a_service() -> None:
    problem = Problem(
        child=ChildName("Deployment", "demo-worker"), reason="FieldNotKnown", message="spec.x"
    )
    found = status(problems=[problem])
    assert condition(found, "Ready")["status"] == "True"
    assert condition(found, "Degraded")["reason"] == "FieldNotKnown"


def test_what_waiting_cannot_mend_gives_the_reason_before_what_it_can() -> None:
    problem = Problem(child=ChildName("Deployment", "demo-x"), reason="Refused", message="quota")
    found = status(problems=[problem], status={"demo-worker": WAITING})
    assert condition(found, "Ready")["reason"] == "Refused"
    assert condition(found, "Ready")["message"].endswith("service worker has 0 of 1 pods ready")
    progressing = condition(found, "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "WaitingForPods")


WIDE = a_resource(
    services={
        "big": {"componentType": "worker", "numberOfNodes": 2, "replicas": 3},
        "server": {"componentType": "server"},
    }
)


def test_a_service_of_several_nodes_counts_its_groups() -> None:
    found = status(WIDE)
    assert found["state"] == "ready"
    assert found["services"]["big"] == {
        "kind": "LeaderWorkerSet",
        "replicas": 3,
        "readyReplicas": 3,
    }
    lacking = status(WIDE, status={"demo-big": {"readyReplicas": 2}})
    assert lacking["state"] == "pending"
    assert condition(lacking, "Ready")["message"] == "service big has 2 of 3 groups ready"


def test_a_kind_that_is_not_installed_is_named_and_waiting_does_not_help() -> None:
    child = ChildName("LeaderWorkerSet", "demo-big")
    problem = Problem(child=child, reason="KindNotInstalled", message="install its CRD")
    found = status(WIDE, problems=[problem], without=[child])
    assert found["state"] == "pending"
    assert found["services"]["server"]["readyReplicas"] == 1
    for type_ in ("Ready", "Degraded"):
        told = condition(found, type_)
        assert told["reason"] == "KindNotInstalled"
        assert told["message"] == "LeaderWorkerSet demo-big: install its CRD"
    assert condition(found, "Progressing")["status"] == "False"


def test_what_is_merely_worth_knowing_is_a_warning_that_goes_when_it_is_mended() -> None:
    notice = Notice(reason="FieldsIgnored", message="args", degraded=False)
    found = status(notices=[notice])
    assert condition(found, "Ready")["status"] == "True"
    assert condition(found, "Degraded")["status"] == "False"
    warning = condition(found, "Warning")
    assert (warning["status"], warning["reason"]) == ("True", "FieldsIgnored")
    mended = status(read(raw() | {"status": found}), notices=[])
    assert "Warning" not in [c["type"] for c in mended["conditions"]]


def pod(service: str = "worker", **fields: Any) -> Manifest:
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "demo",
        "infera.amd.com/service": service,
    }
    return {"metadata": {"name": "demo-w-1", "labels": labels}, "status": fields}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/10 nodes are available: 10 Insufficient amd.com/gpu.",
}


def test_the_schedulers_reason_reaches_the_condition_with_the_remedy() -> None:
    found = status(status={"demo-worker": WAITING}, pods=[pod(conditions=[UNSCHEDULABLE])])
    ready = condition(found, "Ready")
    assert ready["reason"] == "Unschedulable"
    assert ready["message"] == (
        "service worker has 0 of 1 pods ready: pod demo-w-1 is not scheduled: 0/10 nodes are"
        " available: 10 Insufficient amd.com/gpu.; free or add nodes, or lower what the service"
        " asks for"
    )
    assert condition(found, "Progressing")["status"] == "False"


def test_a_pod_of_another_service_says_nothing_of_this_one() -> None:
    other = pod("server", conditions=[UNSCHEDULABLE])
    found = status(status={"demo-worker": WAITING}, pods=[other])
    assert condition(found, "Ready")["reason"] == "WaitingForPods"


def test_pods_of_the_workload_that_a_service_had_say_nothing_of_the_one_it_has() -> None:
    """Both have the same labels, but for one of the group's controller."""
    of_pods, of_groups = pod("big", conditions=[UNSCHEDULABLE]), pod(conditions=[UNSCHEDULABLE])
    of_groups["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = "demo-worker"
    wide = status(WIDE, status={"demo-big": {"readyReplicas": 2}}, pods=[of_pods])
    narrow = status(status={"demo-worker": WAITING}, pods=[of_groups])
    for found in (wide, narrow):
        assert condition(found, "Ready")["reason"] == "WaitingForPods"

    of_pods["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = "demo-big"
    wide = status(WIDE, status={"demo-big": {"readyReplicas": 2}}, pods=[of_pods])
    assert condition(wide, "Ready")["reason"] == "Unschedulable"


def test_at_rest_the_same_children_give_the_same_bytes_whatever_the_time() -> None:
    for seen in ({}, {"status": {"demo-worker": WAITING}}, {"without": [("Role", "demo-disc")]}):
        first = status(**seen)
        again = status(read(raw() | {"status": first}), **seen, now=LATER)
        assert msgspec.json.encode(again) == msgspec.json.encode(first)


def test_the_time_of_a_condition_moves_with_its_status_alone() -> None:
    waiting = status(status={"demo-worker": WAITING})
    resource = read(raw() | {"status": waiting})
    rolling = status(resource, status={"demo-worker": REPLACED}, now=LATER)
    assert condition(rolling, "Ready")["lastTransitionTime"] == NOW
    ready = status(resource, now=LATER)
    assert condition(ready, "Ready")["lastTransitionTime"] == LATER


def test_conditions_that_others_set_stay() -> None:
    theirs = {"type": "Theirs", "status": "True", "reason": "X", "lastTransitionTime": NOW}
    found = status(read(raw() | {"status": {"conditions": [theirs]}}))
    assert condition(found, "Theirs") == {**theirs, "message": ""}


def test_a_refusal_keeps_what_is_known_of_the_services_that_go_on() -> None:
    before = status()
    refused = HANDLER.refused(
        raw(image="") | {"status": before}, TerminalError("InvalidSpec", "no image: set it"), LATER
    )
    assert refused["state"] == "failed"
    assert refused["services"] == before["services"]
    for type_, standing in (("Ready", "False"), ("Degraded", "True"), ("Progressing", "False")):
        told = condition(refused, type_)
        assert (told["status"], told["reason"]) == (standing, "InvalidSpec")
    assert condition(refused, "Ready")["message"] == "no image: set it"
    again = HANDLER.refused(
        raw(image="") | {"status": refused}, TerminalError("InvalidSpec", "no image: set it"), NOW
    )
    assert again == refused


@pytest.mark.parametrize("garbage", [{}, {"metadata": None}, {"status": {"conditions": "x"}}])
def test_even_what_cannot_be_read_can_be_refused(garbage: Manifest) -> None:
    refused = HANDLER.refused(garbage, TerminalError("InvalidSpec", "unreadable"), NOW)
    assert condition(refused, "Ready")["message"] == "unreadable"


def test_prune_looks_at_fixed_names_and_at_what_the_last_status_names() -> None:
    services = {"old": {"kind": "Deployment"}, "big": {"kind": "LeaderWorkerSet"}, "odd": {}}
    found = HANDLER.recorded(read(raw() | {"status": {"services": services}}))
    assert set(found) == {
        ChildName("ServiceAccount", "demo-disc"),
        ChildName("Role", "demo-disc"),
        ChildName("RoleBinding", "demo-disc"),
        ChildName("Service", "demo-nats"),
        ChildName("StatefulSet", "demo-nats"),
        ChildName("Deployment", "demo-old"),
        ChildName("Service", "demo-old"),
        ChildName("LeaderWorkerSet", "demo-big"),
        ChildName("Service", "demo-big"),
        ChildName("Deployment", "demo-odd"),
        ChildName("LeaderWorkerSet", "demo-odd"),
        ChildName("Service", "demo-odd"),
    }
    assert len(HANDLER.recorded(PLAIN)) == 5


def test_the_pods_of_a_resource_are_selected_by_its_identity() -> None:
    assert HANDLER.pod_selector(PLAIN) == (
        "app.kubernetes.io/managed-by=infera-operator,infera.amd.com/deployment=demo"
    )


def test_a_child_that_the_api_server_wrote_nulls_into_is_judged_all_the_same() -> None:
    observation = observed(rendered(PLAIN))
    bare = as_ready(rendered(PLAIN).children[-1]) | {"status": None}
    seen = {**observation.children, ChildName("Deployment", "demo-worker"): bare}
    found = HANDLER.status(PLAIN, msgspec.structs.replace(observation, children=seen))
    assert found["services"]["worker"]["readyReplicas"] == 0


WORKER = ChildName("Deployment", "demo-worker")


def test_a_workload_serves_when_the_status_is_content_with_it() -> None:
    ready = as_ready(rendered(PLAIN).children[-1])
    assert HANDLER.serves(PLAIN, WORKER, ready)
    for fields in (WAITING, REPLACED, CRASHING_ROLLOUT, {"observedGeneration": 0}):
        assert not HANDLER.serves(PLAIN, WORKER, {**ready, "status": ready["status"] | fields})
    assert not HANDLER.serves(PLAIN, WORKER, {**ready, "status": {}})
    assert not HANDLER.serves(PLAIN, ChildName("LeaderWorkerSet", "demo-worker"), ready)
    assert not HANDLER.serves(PLAIN, ChildName("Deployment", "demo-gone"), ready)


def test_a_workload_of_no_pods_serves_once_its_controller_has_seen_it() -> None:
    none = a_resource(services={"worker": {"componentType": "worker", "replicas": 0}})
    ready = as_ready(rendered(none).children[-1])
    assert HANDLER.serves(none, WORKER, ready)
    assert not HANDLER.serves(none, WORKER, {**ready, "status": {}})
