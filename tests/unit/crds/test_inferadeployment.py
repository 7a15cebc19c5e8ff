"""Reading what users wrote, and what the bridge is told of the kind."""

from __future__ import annotations

import msgspec
import pytest

from crds import BY_QUEUE_NAME, KINDS, contract_of
from crds.inferadeployment import CONTRACT, InferaDeployment
from crds.kubernetes import HTTP_ROUTE, INFERENCE_POOL, LEADER_WORKER_SET, Manifest, ObjectMeta


def read(spec: Manifest, status: Manifest | None = None) -> InferaDeployment:
    raw = {"metadata": {"name": "d"}, "spec": spec, "status": status}
    return msgspec.json.decode(msgspec.json.encode(raw), type=InferaDeployment)


WORKER = {"w": {"componentType": "worker"}}


def test_what_is_left_out_has_its_default() -> None:
    spec = read({"services": WORKER}).spec
    assert (spec.backend_framework, spec.discovery_backend) == ("sglang", "kubernetes")
    assert (spec.services["w"].replicas, spec.services["w"].number_of_nodes) == (1, 1)
    assert spec.nats is None


def test_lists_maps_and_objects_may_be_null_as_go_writes_them() -> None:
    nulls = dict.fromkeys(
        ("image", "port", "args", "env", "resources", "extraPodSpec", "podLabels", "role")
    )
    resource = read(
        {
            "services": {"w": {"componentType": "worker", **nulls}},
            **dict.fromkeys(("nats", "gaie", "envs", "etcdEndpoint")),
        },
        status={"conditions": None, "services": None, "gaie": None},
    )
    assert resource.spec.services["w"].args is None
    assert resource.status is not None
    assert resource.status.conditions is None


def test_fields_of_a_later_version_are_passed_over() -> None:
    resource = read(
        {"services": {"w": {"componentType": "worker", "later": 1}}, "later": {}},
        status={"later": [], "services": {"w": {"later": 2}}},
    )
    assert set(resource.spec.services) == {"w"}


def test_a_pod_spec_keeps_what_nobody_knows() -> None:
    own = {"containers": [{"name": "m", "later": {"a": [1]}}], "later": None}
    resource = read({"services": {"w": {"componentType": "worker", "extraPodSpec": own}}})
    assert resource.spec.services["w"].extra_pod_spec == own


def test_bounds_that_only_spare_the_api_server_are_not_enforced_on_what_is_stored() -> None:
    many = {"args": ["x"] * 5000, "image": "i" * 5000}
    resource = read({"services": {"w": {"componentType": "worker", **many}}})
    assert len(resource.spec.services["w"].args or ()) == 5000


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ({}, "componentType"),
        ({"componentType": "other"}, "componentType"),
        ({"componentType": "worker", "replicas": -1}, "replicas"),
        ({"componentType": "worker", "replicas": "2"}, "replicas"),
        ({"componentType": "worker", "port": 70000}, "port"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_field(service: Manifest, says: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=says):
        read({"services": {"w": service}})


@pytest.mark.parametrize(
    "word",
    [
        *("idep", "inferadeployment", "InferaDeployment", "inferadeployments"),
        *("inferadeployments.infera.amd.com", "inferadeployments.v1alpha1.infera.amd.com"),
    ],
)
def test_a_kind_is_found_by_every_word_that_kubectl_takes(word: str) -> None:
    assert contract_of(word) is CONTRACT


@pytest.mark.parametrize("word", ["", "pods", "inferadeployments.other.group"])
def test_other_words_name_no_kind(word: str) -> None:
    assert contract_of(word) is None


def test_every_kind_has_a_place_of_its_own_in_the_queue() -> None:
    assert {*BY_QUEUE_NAME} == {contract.kind.kind.lower() for contract in KINDS}


def test_children_name_their_owner_by_label() -> None:
    assert CONTRACT.owner_name({"infera.amd.com/deployment": "d"}) == "d"
    assert CONTRACT.owner_name({"app.kubernetes.io/managed-by": "infera-operator"}) is None


def test_the_arrival_of_an_optional_kind_touches_every_resource_and_other_crds_none() -> None:
    (reference,) = CONTRACT.refers
    resource = ObjectMeta(name="d", namespace="n")
    for kind in (LEADER_WORKER_SET, INFERENCE_POOL, HTTP_ROUTE):
        assert reference.touches(ObjectMeta(name=kind.crd_name), resource)
    assert not reference.touches(ObjectMeta(name="widgets.example.com"), resource)


def test_only_the_kinds_of_others_may_be_absent() -> None:
    optional = [child.kind.kind for child in CONTRACT.owns if child.optional]
    assert optional == ["LeaderWorkerSet", "InferencePool", "HTTPRoute"]
