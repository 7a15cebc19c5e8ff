"""The pod template of a service."""
# ruff: noqa: S104, S108 - addresses and paths inside a pod

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from tests.unit.handlers.inferadeployment.resources import (
    a_resource,
    a_server,
    a_worker,
    children,
    container,
    pod_spec,
    rendered,
)


def names(items: list[Manifest]) -> list[str]:
    return [item["name"] for item in items]


def test_a_server_is_one_command_with_its_discovery_and_the_users_arguments_last() -> None:
    server = container(a_server(args=["--router-mode", "kv"]), "server")
    assert server["command"] == [
        *("python3", "-m", "infera.server", "--host", "0.0.0.0", "--port", "8000"),
        *("--discovery-backend", "kubernetes"),
        *("--k8s-label-selector", "infera.amd.com/deployment=demo"),
        *("--router-mode", "kv"),
    ]
    assert "args" not in server
    assert server["ports"] == [{"containerPort": 8000}]


@pytest.mark.parametrize(
    ("role", "flags"),
    [
        (None, []),
        ("mixed", []),
        ("prefill", ["--disaggregation-mode", "prefill"]),
        ("decode", ["--disaggregation-mode", "decode"]),
    ],
)
def test_a_worker_is_told_its_half_of_disaggregated_serving(role: str, flags: list[str]) -> None:
    resource = a_resource(
        backendFramework="vllm",
        services={"worker": {"componentType": "worker", "role": role, "port": 31000}},
    )
    assert container(resource)["command"] == [
        *("python3", "-m", "infera.engine.vllm", "--host", "0.0.0.0", "--port", "31000"),
        *("--discovery-backend", "kubernetes"),
        *flags,
    ]


def test_flags_of_nats_stand_before_the_users_arguments() -> None:
    resource = a_resource(
        nats={"url": "nats://n:4222"},
        services={"worker": {"componentType": "worker", "role": "decode", "args": ["--x"]}},
    )
    assert container(resource)["command"][-7:] == [
        *("--disaggregation-mode", "decode"),
        *("--kv-event-transport", "nats", "--nats-server", "nats://n:4222"),
        "--x",
    ]


def test_the_environment_has_its_order_and_the_services_own_is_last() -> None:
    resource = a_resource(
        nats={"url": "nats://n:4222"},
        envs=[{"name": "ALL"}],
        services={"server": {"componentType": "server", "env": [{"name": "OWN"}]}},
    )
    assert names(container(resource, "server")["env"]) == [
        *("ALL", "NATS_SERVER", "POD_NAME", "POD_NAMESPACE", "POD_IP"),
        *("INFERA_K8S_LABEL_SELECTOR", "OWN"),
    ]


def test_a_variable_of_the_service_replaces_one_of_the_same_name() -> None:
    resource = a_resource(
        envs=[{"name": "A", "value": "1"}],
        services={"worker": {"componentType": "worker", "env": [{"name": "A", "value": "2"}]}},
    )
    found = [e for e in container(resource)["env"] if e["name"] == "A"]
    assert found == [{"name": "A", "value": "2"}]
    (notice,) = rendered(resource).notices
    assert (notice.reason, notice.degraded) == ("Duplicates", False)
    assert "env A of container infera" in notice.message


def test_cpu_and_memory_are_requests_and_gpus_are_limits_too() -> None:
    worker = a_worker(resources={"cpu": 4, "memory": "64Gi", "gpu": 2, "gpuType": "nvidia.com/gpu"})
    assert container(worker)["resources"] == {
        "requests": {"cpu": "4", "memory": "64Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }
    assert "resources" not in container(a_worker(resources={"gpu": 0}))
    assert "limits" not in container(a_worker(resources={"cpu": "1"}))["resources"]


def test_shared_memory_is_mounted_where_asked_for_and_boot_always() -> None:
    with_memory = pod_spec(a_worker(resources={"sharedMemory": "32Gi"}))
    assert with_memory["volumes"] == [
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Gi"}},
        {"name": "boot-config", "hostPath": {"path": "/boot", "type": "Directory"}},
    ]
    assert with_memory["containers"][0]["volumeMounts"] == [
        {"name": "dshm", "mountPath": "/dev/shm"},
        {"name": "boot-config", "mountPath": "/boot", "readOnly": True},
    ]
    assert names(pod_spec(a_server(), "server")["volumes"]) == ["boot-config"]


def test_a_worker_is_probed_and_drained_and_a_server_is_not() -> None:
    worker, server = pod_spec(a_worker(port=31000)), pod_spec(a_server(), "server")
    assert worker["containers"][0]["readinessProbe"] == {
        "httpGet": {"path": "/health", "port": 31000},
        "initialDelaySeconds": 15,
        "periodSeconds": 15,
        "timeoutSeconds": 10,
        "failureThreshold": 6,
    }
    assert worker["containers"][0]["lifecycle"] == {
        "preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 15"]}}
    }
    assert worker["terminationGracePeriodSeconds"] == 120
    assert "terminationGracePeriodSeconds" not in server
    assert not {"readinessProbe", "lifecycle"} & set(server["containers"][0])


def test_a_skipped_probe_is_left_out_and_the_drain_is_not() -> None:
    worker = container(a_worker(skipReadinessProbe=True))
    assert "readinessProbe" not in worker
    assert "lifecycle" in worker


def test_our_labels_win_over_the_users_and_no_annotation_stands_on_a_template() -> None:
    worker = a_worker(podLabels={"team": "search", "infera.amd.com/service": "hijack"})
    deployment = children(rendered(worker))["Deployment", "demo-worker"]
    assert deployment["spec"]["template"]["metadata"] == {
        "labels": {
            "team": "search",
            "infera.amd.com/service": "worker",
            "app.kubernetes.io/managed-by": "infera-operator",
            "infera.amd.com/deployment": "demo",
        }
    }
    assert "team" not in deployment["metadata"]["labels"]
    assert "team" not in deployment["spec"]["selector"]["matchLabels"]


OWN: dict[str, Any] = {
    "containers": [
        {"name": "side", "image": "s"},
        {"name": "main", "image": "m", "env": [{"name": "POD_IP", "value": "mine"}]},
        {"name": "infera", "image": "i"},
    ]
}


def own(containers: list[Manifest] | None = None, **fields: Any) -> Manifest:
    return {**OWN, **({"containers": containers} if containers else {}), **fields}


def test_the_primary_container_of_an_own_pod_gains_what_it_has_not() -> None:
    spec = pod_spec(a_worker(extraPodSpec=own()))
    side, main, infera = spec["containers"]
    assert (side, infera) == ({"name": "side", "image": "s"}, {"name": "infera", "image": "i"})
    assert main["ports"] == [{"containerPort": 30000}]
    assert names(main["env"]) == ["POD_IP", "POD_NAME", "POD_NAMESPACE"]
    assert main["env"][0]["value"] == "mine"
    assert main["readinessProbe"]["httpGet"]["port"] == 30000
    assert spec["serviceAccountName"] == "demo-disc"
    assert set(spec) == {"containers", "serviceAccountName", "terminationGracePeriodSeconds"}


@pytest.mark.parametrize(
    ("listed", "primary"),
    [(["a", "b"], "a"), (["a", "infera"], "infera"), (["infera", "main"], "infera")],
)
def test_the_primary_is_the_first_named_main_or_infera_else_the_first(
    listed: list[str], primary: str
) -> None:
    spec = pod_spec(a_worker(extraPodSpec={"containers": [{"name": name} for name in listed]}))
    assert [c["name"] for c in spec["containers"] if "ports" in c] == [primary]


def test_what_an_own_pod_says_stays() -> None:
    probe, hook = {"tcpSocket": {"port": 1}}, {"exec": {"command": ["true"]}}
    main = {
        "name": "main",
        "ports": [{"name": "web", "containerPort": 30000, "protocol": "UDP"}],
        "readinessProbe": probe,
        "lifecycle": {"preStop": hook, "postStart": hook},
    }
    given = own([main], serviceAccountName="mine", futureField={"deep": [1]})
    spec = pod_spec(a_worker(extraPodSpec=given))
    (kept,) = spec["containers"]
    assert kept["ports"] == main["ports"]
    assert kept["readinessProbe"] == probe
    assert kept["lifecycle"] == main["lifecycle"]
    assert spec["serviceAccountName"] == "mine"
    assert spec["futureField"] == {"deep": [1]}


def test_a_hook_of_another_kind_does_not_stand_in_for_the_drain() -> None:
    main = {"name": "main", "lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}
    (kept,) = pod_spec(a_worker(extraPodSpec=own([main])))["containers"]
    assert set(kept["lifecycle"]) == {"postStart", "preStop"}


def test_no_flat_field_reaches_an_own_pod_and_the_status_can_say_so() -> None:
    resource = a_resource(
        envs=[{"name": "ALL"}],
        nats={"url": "nats://n:4222"},
        services={
            "worker": {
                "componentType": "worker",
                "extraPodSpec": {"containers": [{"name": "main", "image": "m"}]},
                "image": "other",
                "args": ["--x"],
                "env": [{"name": "OWN"}],
                "resources": {"gpu": 1, "sharedMemory": "1Gi"},
            }
        },
    )
    spec = pod_spec(resource)
    (main,) = spec["containers"]
    assert main["image"] == "m"
    assert names(main["env"]) == ["POD_NAME", "POD_NAMESPACE", "POD_IP"]
    assert not {"command", "args", "resources", "volumeMounts"} & set(main)
    assert "volumes" not in spec
    (notice,) = rendered(resource).notices
    assert (notice.reason, notice.degraded) == ("FieldsIgnored", False)
    assert "image, args, env, resources, spec.envs, spec.nats" in notice.message


def test_an_own_server_learns_what_to_select_and_keeps_a_fast_shutdown() -> None:
    spec = pod_spec(a_server(extraPodSpec=own([{"name": "main"}])), "server")
    (main,) = spec["containers"]
    assert main["env"][-1] == {
        "name": "INFERA_K8S_LABEL_SELECTOR",
        "value": "infera.amd.com/deployment=demo",
    }
    assert set(main) == {"name", "ports", "env"}
    assert set(spec) == {"containers", "serviceAccountName"}


def test_nulls_and_duplicates_of_an_own_pod_go_and_the_status_can_say_which() -> None:
    main = {
        "name": "main",
        "resources": None,
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2", "valueFrom": None}],
    }
    resource = a_worker(extraPodSpec=own([main], volumes=None))
    spec = pod_spec(resource)
    assert spec["containers"][0]["env"][0] == {"name": "A", "value": "2"}
    assert "resources" not in spec["containers"][0]
    assert "volumes" not in spec
    assert [notice.reason for notice in rendered(resource).notices] == ["Duplicates"]


@pytest.mark.parametrize(
    "nonsense",
    [
        {"env": "x"},
        {"ports": 3},
        {"lifecycle": "x"},
        {"readinessProbe": 1},
        {"args": {"a": 1}},
        {"env": [None, 7, {"value": "x"}, {"name": 3}]},
    ],
)
def test_nonsense_in_an_own_pod_reaches_the_api_server_for_it_to_refuse(nonsense: Any) -> None:
    ((field, value),) = nonsense.items()
    spec = pod_spec(a_worker(extraPodSpec=own([{"name": "main", **nonsense}])))
    kept = spec["containers"][0][field]
    assert kept == value or kept[: len(value)] == value


def test_a_resource_is_not_changed_by_being_rendered() -> None:
    given = own()
    resource = a_worker(extraPodSpec=given)
    first, second = rendered(resource), rendered(resource)
    assert first == second
    assert resource.spec.services["worker"].extra_pod_spec == OWN


ETCD = {"discoveryBackend": "etcd", "etcdEndpoint": "etcd.infra:2379"}


def test_with_an_etcd_the_endpoint_is_all_that_a_command_says_of_discovery() -> None:
    resource = a_resource(**ETCD)
    for service, module in (("server", "server"), ("worker", "engine.sglang")):
        assert container(resource, service)["command"] == [
            *("python3", "-m", f"infera.{module}", "--host", "0.0.0.0"),
            *("--port", "8000" if service == "server" else "30000"),
            *("--etcd-endpoint", "etcd.infra:2379"),
        ]
        assert "serviceAccountName" not in pod_spec(resource, service)


def test_with_an_etcd_a_pod_knows_the_address_that_it_registers_and_no_selector() -> None:
    own = {"containers": [{"name": "main", "env": [{"name": "POD_IP", "value": "mine"}]}]}
    resource = a_resource(
        **ETCD,
        services={
            "server": {"componentType": "server"},
            "worker": {"componentType": "worker"},
            "own": {"componentType": "worker", "extraPodSpec": own},
        },
    )
    for service in ("server", "worker"):
        env = container(resource, service)["env"]
        assert names(env) == ["POD_NAME", "POD_NAMESPACE", "POD_IP"]
    assert names(container(resource, "own")["env"]) == ["POD_IP", "POD_NAME", "POD_NAMESPACE"]
    assert "serviceAccountName" not in pod_spec(resource, "own")
