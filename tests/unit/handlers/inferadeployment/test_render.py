"""The children of an InferaDeployment, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from crds.inferadeployment import InferaDeployment
from handlers.handler import ChildName, TerminalError
from tests.unit.handlers.inferadeployment.resources import (
    a_resource,
    a_server,
    a_worker,
    children,
    group,
    pod_spec,
    raw,
    read,
    rendered,
)


def test_the_children_come_in_the_order_in_which_they_need_each_other() -> None:
    made = [
        (child["kind"], child["metadata"]["name"])
        for child in rendered(a_resource(nats={})).children
    ]
    assert made == [
        ("ServiceAccount", "demo-disc"),
        ("Role", "demo-disc"),
        ("RoleBinding", "demo-disc"),
        ("Service", "demo-nats"),
        ("StatefulSet", "demo-nats"),
        ("Service", "demo-server"),
        ("Deployment", "demo-server"),
        ("Deployment", "demo-worker"),
    ]


def test_every_child_carries_the_identity_and_the_owner_in_the_owners_namespace() -> None:
    for child in rendered(a_resource(nats={})).children:
        labels = child["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "infera-operator"
        assert labels["infera.amd.com/deployment"] == "demo"
        assert child["metadata"]["namespace"] == "models"
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("uid-1", True)


def test_only_a_worker_gives_up_a_pod_before_it_makes_another() -> None:
    found = children(rendered(a_resource()))
    assert found["Deployment", "demo-worker"]["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }
    assert "strategy" not in found["Deployment", "demo-server"]["spec"]


def test_a_server_has_a_service_on_its_port() -> None:
    service = children(rendered(a_server(port=8080)))["Service", "demo-server"]
    assert service["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": 8080}]
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["selector"]["infera.amd.com/service"] == "server"


def test_the_pods_may_watch_pods_and_mark_their_own_deployment_only() -> None:
    found = children(rendered(a_resource()))
    assert found["Role", "demo-disc"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {
            "apiGroups": ["infera.amd.com"],
            "resources": ["inferadeployments"],
            "resourceNames": ["demo"],
            "verbs": ["get", "patch"],
        },
    ]
    (subject,) = found["RoleBinding", "demo-disc"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "demo-disc", "namespace": "models"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"services": {}}, "spec.services is empty"),
        ({"services": {"nats": {"componentType": "worker"}}}, "spec.services.nats: the name"),
        ({"services": {"route": {"componentType": "worker"}}}, "rename the service"),
        ({"services": {"No_": {"componentType": "worker"}}}, "spec.services.No_: .* DNS label"),
        (
            {"services": {"s": {"componentType": "server", "numberOfNodes": 2}}},
            "spec.services.s.numberOfNodes is for workers",
        ),
        ({"image": ""}, "spec.services.server has no image"),
        (
            {"services": {"w": {"componentType": "worker", "extraPodSpec": {"containers": []}}}},
            "spec.services.w.extraPodSpec has no containers",
        ),
        ({"discoveryBackend": "etcd"}, "needs spec.etcdEndpoint"),
        (
            {"discoveryBackend": "etcd", "etcdEndpoint": "http://root:x@e:2379"},
            "etcdEndpoint must not hold a user or password",
        ),
        ({"nats": {"deploy": True, "url": "nats://n"}}, "deploy true excludes"),
        ({"nats": {"deploy": True, "shared": True}}, "deploy true excludes"),
        ({"nats": {"shared": True, "url": "nats://n"}}, "shared true excludes"),
        ({"nats": {"url": "nats://u:p@n"}}, "credentialsSecretRef"),
        ({"gaie": {"enabled": True, "gatewayName": "g"}}, "tokenizerPath"),
        ({"gaie": {"enabled": True, "tokenizerPath": "t"}}, "gatewayName"),
    ],
)
def test_what_only_an_edit_can_mend_is_refused_by_field_and_remedy(
    spec: dict[str, Any], says: str
) -> None:
    with pytest.raises(TerminalError, match=says) as refusal:
        rendered(a_resource(**spec))
    assert refusal.value.reason == "InvalidSpec"


def test_a_refusal_names_every_fault_at_once_and_no_password() -> None:
    faulty = a_resource(
        image="", nats={"url": "nats://u:geheim@n"}, services={"epp": {"componentType": "worker"}}
    )
    with pytest.raises(TerminalError) as refusal:
        rendered(faulty)
    assert refusal.value.message.count(";") >= 2
    assert "geheim" not in refusal.value.message


def test_a_service_of_several_nodes_is_groups_of_pods_and_nothing_else() -> None:
    resource = a_resource(
        services={"big": {"componentType": "worker", "numberOfNodes": 4, "replicas": 3}}
    )
    found = children(rendered(resource))
    assert ("Deployment", "demo-big") not in found
    assert ("Service", "demo-big") not in found
    made = found["LeaderWorkerSet", "demo-big"]
    assert made["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
    assert made["metadata"]["labels"]["infera.amd.com/service"] == "big"
    assert set(made["spec"]) == {"replicas", "leaderWorkerTemplate"}
    assert set(made["spec"]["leaderWorkerTemplate"]) == {"size", "workerTemplate"}
    assert (made["spec"]["replicas"], made["spec"]["leaderWorkerTemplate"]["size"]) == (3, 4)


def test_the_pods_of_a_group_are_those_of_a_deployment_without_its_probe() -> None:
    def service(nodes: int) -> InferaDeployment:
        fields = {"args": ["--drain-timeout", "300"], "resources": {"gpu": 8}}
        return a_worker(numberOfNodes=nodes, **fields)

    alone = children(rendered(service(1)))["Deployment", "demo-worker"]["spec"]["template"]
    grouped = group(service(2))["leaderWorkerTemplate"]["workerTemplate"]
    assert "readinessProbe" in alone["spec"]["containers"][0]
    del alone["spec"]["containers"][0]["readinessProbe"]
    assert grouped == alone


def test_a_workload_succeeds_the_one_of_the_other_kind_of_its_name() -> None:
    assert rendered(a_resource()).succeeds == {
        ChildName("LeaderWorkerSet", f"demo-{service}"): ChildName("Deployment", f"demo-{service}")
        for service in ("server", "worker")
    }


def test_one_that_is_to_have_no_pods_waits_for_no_successor_and_none_for_it() -> None:
    none = a_resource(
        services={
            "idle": {"componentType": "worker", "replicas": 0, "numberOfNodes": 2},
            "worker": {"componentType": "worker", "replicas": 1, "numberOfNodes": 2},
        }
    )
    assert rendered(none).succeeds == {
        ChildName("Deployment", "demo-worker"): ChildName("LeaderWorkerSet", "demo-worker")
    }


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nats": {"deploy": False}},
        {"discoveryBackend": "etcd", "etcdEndpoint": "http://e:2379"},
    ],
)
def test_pods_run_on_the_broker_and_on_their_rights_asked_for_or_not(spec: dict[str, Any]) -> None:
    assert set(rendered(a_resource(**spec)).underlying) == {
        *(ChildName(kind, "demo-disc") for kind in ("ServiceAccount", "Role", "RoleBinding")),
        *(ChildName(kind, "demo-nats") for kind in ("Service", "StatefulSet")),
    }


@pytest.mark.parametrize(
    ("nats", "spared"),
    [
        ({}, {ChildName("StatefulSet", "demo-nats"): ""}),
        ({"image": "nats:2.11"}, {ChildName("StatefulSet", "demo-nats"): "nats:2.11"}),
        (None, {ChildName("StatefulSet", "demo-nats"): ""}),
        ({"deploy": False}, {}),
        ({"url": "nats://n:4222"}, {}),
    ],
)
def test_an_own_broker_is_spared_with_the_image_that_the_resource_names(
    nats: dict[str, Any] | None, spared: dict[ChildName, str]
) -> None:
    """Not with ours, which stands in for one that it does not name."""
    assert rendered(a_resource(nats=nats)).spared == spared


def test_an_own_probe_of_a_group_stays() -> None:
    probe = {"tcpSocket": {"port": 1}}
    own = {"containers": [{"name": "main", "readinessProbe": probe}]}
    (main,) = group(a_worker(numberOfNodes=2, extraPodSpec=own))["leaderWorkerTemplate"][
        "workerTemplate"
    ]["spec"]["containers"]
    assert main["readinessProbe"] == probe
    assert main["lifecycle"]["preStop"]


def test_quantities_of_a_group_are_written_as_kubernetes_does_since_nobody_else_will() -> None:
    own = {"containers": [{"name": "main", "resources": {"limits": {"amd.com/gpu": 1}}}]}
    (main,) = group(a_worker(numberOfNodes=2, extraPodSpec=own))["leaderWorkerTemplate"][
        "workerTemplate"
    ]["spec"]["containers"]
    assert main["resources"] == {"limits": {"amd.com/gpu": "1"}}
    (alone,) = pod_spec(a_worker(extraPodSpec=own))["containers"]
    assert alone["resources"] == {"limits": {"amd.com/gpu": 1}}


@pytest.mark.parametrize(("replicas", "length", "told"), [(1, 45, 0), (1, 46, 1), (11, 45, 1)])
def test_a_group_whose_pods_could_never_be_is_told_before_anybody_waits_for_it(
    replicas: int, length: int, told: int
) -> None:
    services = {"wide": {"componentType": "worker", "numberOfNodes": 2, "replicas": replicas}}
    notices = rendered(a_resource("d" * length, services=services)).notices
    assert [(n.reason, n.degraded) for n in notices] == [("InvalidName", True)] * told


def test_discovery_by_etcd_needs_no_account_and_carries_a_warning() -> None:
    rendering = rendered(a_resource(discoveryBackend="etcd", etcdEndpoint="e:2379"))
    assert list(children(rendering)) == [
        ("Service", "demo-server"),
        ("Deployment", "demo-server"),
        ("Deployment", "demo-worker"),
    ]
    (notice,) = rendering.notices
    assert (notice.reason, notice.degraded) == ("EtcdDiscovery", False)
    assert "does not see that a pod is being deleted" in notice.message
    assert "spec.discoveryBackend" in notice.message


def test_a_role_on_a_server_that_was_stored_before_our_schema_is_told_and_served() -> None:
    assert rendered(a_server(role="mixed")).notices == ()
    rendering = rendered(a_server(role="prefill"))
    assert ("Deployment", "demo-server") in children(rendering)
    (notice,) = rendering.notices
    assert (notice.reason, notice.degraded) == ("FieldsIgnored", False)


def test_names_that_no_service_may_have_are_told_and_the_rest_is_served() -> None:
    dotted = read({**raw("a.b"), "spec": raw()["spec"]})
    assert [notice.reason for notice in rendered(dotted).notices] == ["InvalidName"]
    long = a_resource("d" * 40, services={"w" * 30: {"componentType": "worker"}})
    (notice,) = rendered(long).notices
    assert "has 71 characters" in notice.message
    assert ("Deployment", f"{'d' * 40}-{'w' * 30}") in children(rendered(long))


def test_an_own_nats_whose_pod_could_never_be_is_told_before_anybody_waits_for_it() -> None:
    assert rendered(a_resource("d" * 47, nats={})).notices == ()
    (notice,) = rendered(a_resource("d" * 48, nats={})).notices
    assert (notice.reason, notice.degraded) == ("InvalidName", True)
    assert "spec.nats.url" in notice.message
    assert rendered(a_resource("d" * 48, nats={"deploy": False})).notices == ()


def test_a_resource_without_namespace_renders_as_kubectl_would_apply_it() -> None:
    offline = raw()
    del offline["metadata"]["namespace"]
    for child in rendered(read(offline)).children:
        assert "namespace" not in child["metadata"]
