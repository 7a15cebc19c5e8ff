"""The policies, in force on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crds.kubernetes import DEPLOYMENT, Manifest
from handlers.cli.devstack.control_plane import ControlPlane
from tests.faults import policies
from tests.stack.eventually import eventually
from tests.stack.fixtures import Kubectl


def _deployment(namespace: str) -> Manifest:
    labels = {"app": "a"}
    containers = [
        {"name": "main", "image": "one", "env": [{"name": "A", "value": "1"}]},
        {"name": "side", "image": "two"},
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


@pytest.fixture
def in_force(kubectl: Kubectl) -> Iterator[Any]:
    """Creates manifests now, and deletes them after the test: policies live outside namespaces."""
    created: list[Manifest] = []

    def create(*manifests: Manifest) -> None:
        created.extend(manifests)
        kubectl("create", "-f", "-", document=list(manifests))

    yield create
    kubectl("delete", "--wait=false", "-f", "-", document=created, check=False)


async def _as_stored(cluster: ControlPlane, kubectl: Kubectl, namespace: str) -> Manifest:
    """Write the Deployment anew, and return it as the API server keeps it."""
    kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", document=_deployment(namespace)
    )
    stored: Manifest = cluster.get(DEPLOYMENT.path(namespace, "a"))
    return stored


async def test_a_label_is_rewritten(
    cluster: ControlPlane, kubectl: Kubectl, namespace: str, in_force: Any
) -> None:
    in_force(*policies.rewriting_label(namespace, "team.example/name", "a"))

    async def rewritten() -> bool:
        stored = await _as_stored(cluster, kubectl, namespace)
        labels: dict[str, str] = stored["metadata"].get("labels", {})
        return labels == {"team.example/name": "a"}

    await eventually(rewritten)


async def test_images_of_every_container_are_rewritten(
    cluster: ControlPlane, kubectl: Kubectl, namespace: str, in_force: Any
) -> None:
    in_force(*policies.rewriting_image(namespace, "mirror.example/x:1"))

    async def rewritten() -> bool:
        stored = await _as_stored(cluster, kubectl, namespace)
        containers = stored["spec"]["template"]["spec"]["containers"]
        return {container["image"] for container in containers} == {"mirror.example/x:1"}

    await eventually(rewritten)


async def test_an_environment_variable_is_set_beside_the_others(
    cluster: ControlPlane, kubectl: Kubectl, namespace: str, in_force: Any
) -> None:
    in_force(*policies.rewriting_env(namespace, "PROXY", "http://proxy.example"))

    async def rewritten() -> bool:
        stored = await _as_stored(cluster, kubectl, namespace)
        main, side = stored["spec"]["template"]["spec"]["containers"]
        names = [[variable["name"] for variable in c.get("env", ())] for c in (main, side)]
        return names == [["A", "PROXY"], ["PROXY"]]

    await eventually(rewritten)


async def test_one_object_is_refused_with_the_message(
    kubectl: Kubectl, namespace: str, in_force: Any
) -> None:
    in_force(*policies.refusing(namespace, "deployments", "a", message="no GPUs for you"))

    def refused() -> bool:
        done = kubectl(
            "create", "--dry-run=server", "-f", "-", document=_deployment(namespace), check=False
        )
        return done.returncode != 0 and "no GPUs for you" in done.stderr

    await eventually(refused)
    other = _deployment(namespace)
    other["metadata"]["name"] = "b"
    kubectl("create", "-f", "-", document=other)


async def test_a_quota_refuses_what_exceeds_it(kubectl: Kubectl, namespace: str) -> None:
    document = policies.quota(namespace, **{"count/deployments.apps": 0})
    kubectl("create", "-f", "-", document=document)

    def refused() -> bool:
        done = kubectl(
            "create", "--dry-run=server", "-f", "-", document=_deployment(namespace), check=False
        )
        return "exceeded quota" in done.stderr

    await eventually(refused)
