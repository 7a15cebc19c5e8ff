"""The stand-in CRDs, accepted by a real API server and filling in what the real ones do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers.cli.devstack.control_plane import ControlPlane
from tests.faults.stand_ins import INFERENCE_POOL_CRD, LEADER_WORKER_SET_CRD
from tests.stack.fixtures import Kubectl


@pytest.fixture
def installed(kubectl: Kubectl) -> Iterator[Any]:
    """Installs a stand-in until the end of the test."""
    files: list[Path] = []

    def install(file: Path) -> None:
        files.append(file)
        kubectl("create", "-f", str(file))
        kubectl("wait", "-f", str(file), "--for=condition=Established", "--timeout=30s")

    yield install
    for file in files:
        kubectl("delete", "-f", str(file))


def test_a_leader_worker_set_gets_the_defaults_of_the_real_webhook(
    cluster: ControlPlane, kubectl: Kubectl, namespace: str, installed: Any
) -> None:
    installed(LEADER_WORKER_SET_CRD)
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x"}], "new": 1}}
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": pod}},
    }

    kubectl("create", "-f", "-", document=document)
    kubectl("scale", "-n", namespace, "lws/a", "--replicas=4")

    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}/leaderworkersets/a"
    assert cluster.get(path)["spec"] == {
        "replicas": 4,
        "leaderWorkerTemplate": {
            "size": 3,
            "workerTemplate": pod,
            "restartPolicy": "RecreateGroupOnPodRestart",
        },
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"partition": 0, "maxUnavailable": 1, "maxSurge": 0},
        },
        "startupPolicy": "LeaderCreated",
        "networkConfig": {"subdomainPolicy": "Shared"},
    }


def test_an_inference_pool_gets_the_defaults_of_the_real_one(
    cluster: ControlPlane, kubectl: Kubectl, namespace: str, installed: Any
) -> None:
    installed(INFERENCE_POOL_CRD)
    document: dict[str, Any] = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {
            "targetPorts": [{"number": 8000}],
            "selector": {"matchLabels": {"a": "b"}},
            "endpointPickerRef": {"name": "a-epp", "port": {"number": 9002}},
        },
    }

    kubectl("create", "-f", "-", document=document)

    path = f"/apis/inference.networking.k8s.io/v1/namespaces/{namespace}/inferencepools/a"
    assert cluster.get(path)["spec"] == {
        "targetPorts": [{"number": 8000}],
        "selector": {"matchLabels": {"a": "b"}},
        "appProtocol": "http",
        "endpointPickerRef": {
            "group": "",
            "kind": "Service",
            "name": "a-epp",
            "port": {"number": 9002},
            "failureMode": "FailClose",
        },
    }
    document["spec"]["targetPorts"] = []
    document["metadata"]["name"] = "b"
    assert kubectl("create", "-f", "-", document=document, check=False).returncode
