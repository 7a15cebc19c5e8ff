"""The Inference Gateway: frontends, endpoint picker, pool, route."""
# ruff: noqa: S104 - an address inside a pod

from __future__ import annotations

from typing import Any

import pytest

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Manifest
from handlers.handler import TerminalError
from tests.unit.handlers.inferadeployment.resources import (
    a_resource,
    children,
    group,
    pod_spec,
    raw,
    read,
    rendered,
)

GAIE: dict[str, Any] = {"enabled": True, "tokenizerPath": "org/t", "gatewayName": "gw"}
URL = "nats://n:4222"


def gated(gaie: dict[str, Any] | None = None, **spec: Any) -> InferaDeployment:
    return a_resource(gaie={**GAIE, **(gaie or {})}, **spec)


def frontend(resource: InferaDeployment, service: str = "worker") -> Manifest:
    last: Manifest = pod_spec(resource, service)["containers"][-1]
    return last


def picker(resource: InferaDeployment) -> Manifest:
    (container,) = pod_spec(resource, "epp")["containers"]
    found: Manifest = container
    return found


def names(items: list[Manifest]) -> list[str]:
    return [item["name"] for item in items]


def test_a_gateway_has_four_children_between_what_pods_refer_to_and_the_services() -> None:
    made = [(child["kind"], child["metadata"]["name"]) for child in rendered(gated()).children]
    assert made[3:7] == [
        ("Service", "demo-epp"),
        ("Deployment", "demo-epp"),
        ("InferencePool", "demo-pool"),
        ("HTTPRoute", "demo-route"),
    ]
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "demo",
        "infera.amd.com/service": "epp",
    }
    assert all(c["metadata"]["labels"] == labels for c in rendered(gated()).children[3:7])


@pytest.mark.parametrize("gaie", [None, {}, {"enabled": False}, {**GAIE, "enabled": False}])
def test_without_a_gateway_nothing_speaks_of_it(gaie: dict[str, Any] | None) -> None:
    assert rendered(a_resource(gaie=gaie)).children == rendered(a_resource()).children


def test_every_worker_pod_has_a_frontend_last_and_a_server_has_none() -> None:
    resource = gated(
        services={
            "own": {
                "componentType": "worker",
                "extraPodSpec": {"containers": [{"name": "a"}, {"name": "main"}, {"name": "b"}]},
            },
            "server": {"componentType": "server"},
            "wide": {"componentType": "worker", "numberOfNodes": 2},
            "worker": {"componentType": "worker"},
        }
    )
    assert names(pod_spec(resource)["containers"]) == ["infera", "infera-frontend"]
    own = pod_spec(resource, "own")
    assert names(own["containers"]) == ["a", "main", "b", "infera-frontend"]
    assert [c["name"] for c in own["containers"] if "lifecycle" in c] == ["main"]
    wide = group(resource, "wide")["leaderWorkerTemplate"]["workerTemplate"]
    assert names(wide["spec"]["containers"]) == ["infera", "infera-frontend"]
    assert wide["spec"]["containers"][-1] == frontend(resource)
    assert wide["metadata"]["labels"]["infera.amd.com/gaie-frontend"] == "true"
    assert names(pod_spec(resource, "server")["containers"]) == ["infera"]


def test_the_label_of_a_frontend_is_the_pools_and_in_no_workloads_selector() -> None:
    found = children(rendered(gated(services={"w": {"componentType": "worker"}})))
    worker = found["Deployment", "demo-w"]
    mark = "infera.amd.com/gaie-frontend"
    assert worker["spec"]["template"]["metadata"]["labels"][mark] == "true"
    assert mark not in worker["spec"]["selector"]["matchLabels"]
    assert mark not in worker["metadata"]["labels"]
    assert found["InferencePool", "demo-pool"]["spec"]["selector"]["matchLabels"] == {
        "infera.amd.com/deployment": "demo",
        mark: "true",
    }
    server = children(rendered(gated()))["Deployment", "demo-server"]
    assert mark not in server["spec"]["template"]["metadata"]["labels"]


def test_nobody_takes_a_frontend_off_the_pool_by_a_label_of_his_own() -> None:
    labels = {"infera.amd.com/gaie-frontend": "false"}
    worker = {"componentType": "worker", "podLabels": labels}
    template = children(rendered(gated(services={"w": worker})))["Deployment", "demo-w"]["spec"]
    found = template["template"]["metadata"]["labels"]
    assert found["infera.amd.com/gaie-frontend"] == "true"


@pytest.mark.parametrize(
    ("nats", "flags"),
    [
        ({"deploy": False}, ["--request-transport", "http"]),
        (
            {"url": URL},
            [
                *("--kv-event-transport", "nats", "--nats-server", URL),
                *("--request-transport", "nats"),
            ],
        ),
        (
            {"credentialsSecretRef": {"name": "s"}},
            [
                *("--kv-event-transport", "nats", "--nats-server", "$(NATS_SERVER)"),
                *("--request-transport", "nats"),
            ],
        ),
    ],
)
def test_a_frontend_is_a_direct_router_on_the_nats_of_its_deployment(
    nats: dict[str, Any], flags: list[str]
) -> None:
    found = frontend(gated({"frontendPort": 8100}, nats=nats))
    assert found["command"] == [
        *("python3", "-m", "infera.server", "--router-mode", "direct"),
        *("--host", "0.0.0.0", "--port", "8100", "--router-tokenizer-path", "org/t"),
        *("--discovery-backend", "kubernetes"),
        *("--k8s-label-selector", "infera.amd.com/deployment=demo"),
        *flags,
    ]
    assert found["ports"] == [{"name": "frontend", "containerPort": 8100}]
    assert found["readinessProbe"] == {
        "httpGet": {"path": "/v1/models", "port": 8100},
        "initialDelaySeconds": 5,
        "periodSeconds": 10,
    }
    assert "volumeMounts" not in found
    assert "args" not in found


def test_a_frontend_knows_itself_and_whom_to_select_and_no_address_or_common_variable() -> None:
    known = gated(nats={"url": URL}, envs=[{"name": "ALL", "value": "1"}])
    assert names(frontend(known)["env"]) == [
        *("NATS_SERVER", "POD_NAME", "POD_NAMESPACE", "INFERA_K8S_LABEL_SELECTOR"),
    ]
    assert names(picker(known)["env"]) == ["NATS_SERVER", "POD_NAME", "POD_NAMESPACE"]
    assert names(frontend(gated())["env"])[0] == "POD_NAME"


@pytest.mark.parametrize(
    ("images", "image"),
    [
        ({"image": "engine:1"}, "engine:1"),
        ({"image": "engine:1", "gaie": {"eppImage": "epp:2"}}, "epp:2"),
        ({"image": "engine:1", "gaie": {"eppImage": ""}}, "engine:1"),
    ],
)
def test_picker_and_frontend_have_one_image(images: dict[str, Any], image: str) -> None:
    resource = gated(images.get("gaie"), image=images["image"])
    assert frontend(resource)["image"] == picker(resource)["image"] == image


def test_a_picker_is_one_pod_that_the_gateway_asks_by_grpc() -> None:
    found = children(rendered(gated(nats={"url": URL})))
    deployment, service = found["Deployment", "demo-epp"], found["Service", "demo-epp"]
    assert deployment["spec"]["replicas"] == 1
    assert "strategy" not in deployment["spec"]
    spec = deployment["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "demo-disc"
    assert set(spec) == {"containers", "serviceAccountName"}
    container = picker(gated(nats={"url": URL}))
    assert container["name"] == "epp"
    assert container["command"] == [
        *("python3", "-m", "infera.gaie", "--router-tokenizer-path", "org/t"),
        *("--grpc-port", "9002", "--grpc-health-port", "9003"),
        *("--discovery-backend", "kubernetes"),
        *("--k8s-label-selector", "infera.amd.com/deployment=demo"),
        *("--kv-event-transport", "nats", "--nats-server", URL),
    ]
    assert container["ports"] == [
        {"name": "grpc", "containerPort": 9002},
        {"name": "grpc-health", "containerPort": 9003},
    ]
    assert container["readinessProbe"]["tcpSocket"] == {"port": 9002}
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": deployment["spec"]["selector"]["matchLabels"],
        "ports": [{"name": "grpc-ext-proc", "port": 9002, "targetPort": 9002}],
    }
    assert "--nats-server" not in picker(gated())["command"]


def test_the_pool_asks_the_picker_and_sends_to_the_frontends() -> None:
    spec = children(rendered(gated({"frontendPort": 8100})))["InferencePool", "demo-pool"]["spec"]
    assert spec["targetPorts"] == [{"number": 8100}]
    assert spec["endpointPickerRef"] == {
        "kind": "Service",
        "name": "demo-epp",
        "port": {"number": 9002},
    }


@pytest.mark.parametrize(
    ("gaie", "parent", "hostnames"),
    [
        ({}, {"name": "gw", "namespace": "models"}, None),
        ({"gatewayNamespace": "infra"}, {"name": "gw", "namespace": "infra"}, None),
        ({"hostnames": []}, {"name": "gw", "namespace": "models"}, None),
        ({"hostnames": ["b", "a"]}, {"name": "gw", "namespace": "models"}, ["b", "a"]),
    ],
)
def test_the_route_leads_from_the_gateway_to_the_pool(
    gaie: dict[str, Any], parent: Manifest, hostnames: list[str] | None
) -> None:
    route = children(rendered(gated({"frontendPort": 8100, **gaie})))["HTTPRoute", "demo-route"]
    assert route["spec"]["parentRefs"] == [parent]
    assert route["spec"].get("hostnames") == hostnames
    assert route["spec"]["rules"] == [
        {
            "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            "backendRefs": [
                {
                    "group": "inference.networking.k8s.io",
                    "kind": "InferencePool",
                    "name": "demo-pool",
                    "port": 8100,
                    "weight": 1,
                }
            ],
        }
    ]


def test_the_name_of_the_model_is_used_nowhere() -> None:
    named, unnamed = rendered(gated({"modelName": "m"})), rendered(gated())
    assert named.children == unnamed.children


def test_with_an_etcd_picker_and_frontend_look_there_and_need_no_account() -> None:
    resource = gated(discoveryBackend="etcd", etcdEndpoint="e:2379")
    for container in (frontend(resource), picker(resource)):
        command = container["command"]
        assert command[command.index("--etcd-endpoint") + 1] == "e:2379"
        assert "--k8s-label-selector" not in command
        assert names(container["env"]) == ["POD_NAME", "POD_NAMESPACE"]
    assert "serviceAccountName" not in pod_spec(resource, "epp")


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_name_that_the_frontend_needs_is_refused_where_there_is_one(where: str) -> None:
    own: dict[str, Any] = {"containers": [{"name": "main"}]}
    own[where] = [*own.get(where, []), {"name": "infera-frontend"}]
    for component, is_refused in (("worker", True), ("server", False)):
        services = {"w": {"componentType": component, "extraPodSpec": own}}
        assert rendered(a_resource(services=services)).children
        if is_refused:
            with pytest.raises(TerminalError, match=r"spec\.services\.w\.extraPodSpec has a con"):
                rendered(gated(services=services))
        else:
            assert rendered(gated(services=services)).children


def test_a_worker_that_listens_where_its_frontend_does_is_told_before_it_crashes() -> None:
    def notices(gaie: dict[str, Any], **service: Any) -> list[tuple[str, bool]]:
        services = {"w": {"componentType": "worker", **service}}
        found = rendered(gated(gaie, services=services)).notices
        return [(notice.reason, notice.degraded) for notice in found]

    assert notices({}, port=8000) == [("InvalidSpec", True)]
    assert notices({"frontendPort": 30000}) == [("InvalidSpec", True)]
    assert notices({}) == notices({}, port=8001) == []
    own = {"containers": [{"name": "main"}]}
    assert notices({}, port=8000, extraPodSpec=own) == []
    assert rendered(gated(services={"s": {"componentType": "server"}})).notices == ()


def test_offline_and_without_a_namespace_the_gateway_is_where_kubectl_would_apply_it() -> None:
    offline = raw(gaie=GAIE)
    del offline["metadata"]["namespace"]
    route = children(rendered(read(offline)))["HTTPRoute", "demo-route"]
    assert route["spec"]["parentRefs"] == [{"name": "gw"}]
