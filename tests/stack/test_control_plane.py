from __future__ import annotations

import json
from typing import Any

import pytest

from handlers.cli.devstack import access
from handlers.cli.devstack.cluster import Cluster
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from tests.stack.eventually import eventually
from tests.stack.fixtures import Kubectl


def a_pod(name: str, gpus: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [
                {"name": "main", "image": "none", "resources": {"limits": {"amd.com/gpu": gpus}}}
            ]
        },
    }


async def test_ten_gpu_nodes_are_ready_and_a_pod_that_asks_for_eight_gpus_runs(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    nodes = control_plane.get("/api/v1/nodes")["items"]
    ready = [
        node["metadata"]["name"]
        for node in nodes
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]
    assert len(ready) == 10
    assert {node["status"]["allocatable"]["amd.com/gpu"] for node in nodes} == {"8"}

    kubectl("create", "-n", namespace, "-f", "-", document=a_pod("eight", gpus=8))

    async def phase() -> bool:
        pod = control_plane.get(f"/api/v1/namespaces/{namespace}/pods/eight")
        assert pod["status"].get("phase") == "Running", pod["status"]
        return True

    await eventually(phase)


async def test_a_pod_that_asks_for_more_gpus_than_a_node_has_stays_pending(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    kubectl("create", "-n", namespace, "-f", "-", document=a_pod("nine", gpus=9))

    def reason() -> str:
        pod = control_plane.get(f"/api/v1/namespaces/{namespace}/pods/nine")
        assert pod["status"]["phase"] == "Pending"
        return next((c.get("reason", "") for c in pod["status"].get("conditions", ())), "")

    assert await eventually(reason) == "Unschedulable"


def test_the_api_server_restarts_on_the_same_port_and_keeps_its_data(
    fresh_control_plane: ControlPlane,
) -> None:
    plane = fresh_control_plane
    plane.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    before = plane.get("/api/v1/namespaces/default/configmaps/kept")
    authority = plane.authority()

    plane.restart_api_server()

    assert plane.get("/api/v1/namespaces/default/configmaps/kept") == before
    assert plane.authority() == authority


def test_paused_controllers_make_nothing_and_go_on_when_resumed(
    fresh_control_plane: ControlPlane,
) -> None:
    plane = fresh_control_plane
    replica_sets = "/apis/apps/v1/namespaces/default/replicasets"
    with plane.paused():
        plane.kubectl("create", "deployment", "late", "--image=none")
        plane.kubectl("get", "deployment", "late")
        assert plane.get(replica_sets)["items"] == []
    plane.kubectl("rollout", "status", "deployment/late", "--timeout=60s")
    assert len(plane.get(replica_sets)["items"]) == 1


async def test_a_deleted_owner_takes_its_children_along(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    kubectl("create", "-n", namespace, "deployment", "owner", "--image=none", "--replicas=2")
    kubectl("rollout", "-n", namespace, "status", "deployment/owner", "--timeout=60s")

    kubectl("delete", "-n", namespace, "deployment", "owner")

    def left() -> bool:
        pods = control_plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert not [pod["metadata"]["name"] for pod in pods]
        return True

    await eventually(left)


@pytest.mark.parametrize("user", [access.BRIDGE, access.HANDLERS])
@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "pods"),
        ("delete", "nodes"),
        ("create", "clusterroles"),
        ("delete", "inferadeployments.infera.amd.com"),
        ("escalate", "roles.rbac.authorization.k8s.io"),
    ],
)
def test_no_role_of_ours_reaches_beyond_its_work(
    control_plane: ControlPlane, user: str, verb: str, what: str
) -> None:
    answer = control_plane.kubectl("auth", "can-i", verb, what, user=user, check=False)

    assert answer.stdout.strip() == "no"


def test_the_bridge_may_look_and_nothing_else(control_plane: ControlPlane) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    answer = control_plane.kubectl(
        "create", "-o", "json", "-f", "-", document=review, user=access.BRIDGE
    )
    rules = json.loads(answer.stdout)["status"]["resourceRules"]
    verbs = {
        resource: set(rule["verbs"])
        for rule in rules
        for resource in rule["resources"]
        if not resource.startswith("selfsubject")  # everybody may ask what they may do
    }

    assert verbs["inferadeployments"] == {"list", "watch"}
    assert set().union(*verbs.values()) == {"list", "watch"}


def test_the_handlers_may_grant_what_a_discovery_role_needs_and_no_more(
    control_plane: ControlPlane, namespace: str
) -> None:
    def create_role(name: str, rules: list[dict[str, Any]]) -> str:
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": rules,
        }
        done = control_plane.kubectl(
            "create", "-f", "-", document=role, user=access.HANDLERS, check=False
        )
        return done.stderr

    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]}
    own = {
        "apiGroups": ["infera.amd.com"],
        "resources": ["inferadeployments"],
        "resourceNames": ["d"],
        "verbs": ["get", "patch"],
    }
    assert create_role("d-disc", [pods, own]) == ""

    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    assert "attempting to grant RBAC permissions not currently held" in create_role(
        "greedy", [secrets]
    )


def test_the_audit_log_tells_who_wrote_what(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    kubectl("create", "-n", namespace, "configmap", "witnessed", "--from-literal=a=b")

    lines = control_plane.audit_log.read_text().splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith("\n")]  # others write too
    [record] = [
        record
        for record in records
        if record.get("objectRef", {}).get("name") == "witnessed" and record["verb"] == "create"
    ]
    assert record["user"]["username"] == access.ADMIN
    assert record["userAgent"].startswith("kubectl/")
    assert record["responseStatus"]["code"] == 201
    assert record["requestObject"]["data"] == {"a": "b"}
    assert record["stage"] == "ResponseComplete"


async def test_two_control_planes_at_once_do_not_meet(
    control_plane: ControlPlane, fresh_control_plane: ControlPlane
) -> None:
    fresh_control_plane.kubectl("create", "namespace", "only-here")

    assert control_plane.port != fresh_control_plane.port
    assert control_plane.kubectl("get", "namespace", "only-here", check=False).returncode == 1


async def test_nats_keeps_its_stream_over_a_kill_and_loses_it_when_wiped(
    nats_server: NatsServer,
) -> None:
    import nats  # noqa: PLC0415
    from nats.js.errors import NotFoundError  # noqa: PLC0415

    client = await nats.connect(nats_server.url)
    await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await client.jetstream().publish("kept", b"x")
    await client.close()

    nats_server.restart()

    client = await nats.connect(nats_server.url)
    info = await client.jetstream().stream_info("KEPT")
    assert info.state.messages == 1
    await client.close()

    nats_server.wipe()

    client = await nats.connect(nats_server.url)
    with pytest.raises(NotFoundError):
        await client.jetstream().stream_info("KEPT")
    await client.close()


async def test_a_volume_claim_is_bound_so_that_stateful_sets_run(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    labels = {"app": "stateful"}
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "stateful"},
        "spec": {
            "serviceName": "stateful",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
            "volumeClaimTemplates": [claim],
        },
    }
    kubectl("create", "-n", namespace, "-f", "-", document=stateful_set)

    def ready_replicas() -> int:
        seen = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/stateful")
        return int(seen["status"].get("readyReplicas", 0))

    assert await eventually(ready_replicas) == 1


async def test_a_job_whose_pod_has_a_sidecar_completes(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    pod = {
        "restartPolicy": "Never",
        "initContainers": [{"name": "sidecar", "image": "none", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "image": "none"}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"template": {"spec": pod}},
    }
    kubectl("create", "-n", namespace, "-f", "-", document=job)

    def succeeded() -> int:
        seen = cluster.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/job")
        return int(seen["status"].get("succeeded", 0))

    assert await eventually(succeeded) == 1
