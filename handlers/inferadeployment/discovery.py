"""How router and workers of a deployment find each other: flags, variables, permissions."""

from __future__ import annotations

from collections.abc import Iterator

from crds.inferadeployment import KIND, InferaDeployment, Service
from crds.kubernetes import ROLE, ROLE_BINDING, SERVICE_ACCOUNT, Manifest
from handlers.inferadeployment.names import (
    DISCOVERY,
    child_name,
    router_selector,
    service_labels,
)
from handlers.manifests import child, field_variable


def uses_kubernetes(resource: InferaDeployment) -> bool:
    """Say whether pods find each other through the API server."""
    return resource.spec.discovery_backend == "kubernetes"


def service_account(resource: InferaDeployment) -> str | None:
    """Return the service account of the pods, None where they need none."""
    if not uses_kubernetes(resource):
        return None
    return child_name(resource.metadata.name, DISCOVERY)


def flags(resource: InferaDeployment, service: Service) -> list[str]:
    """Return the flags by which a server or worker takes part in discovery."""
    if not uses_kubernetes(resource):
        return ["--etcd-endpoint", resource.spec.etcd_endpoint or ""]
    chosen = ["--discovery-backend", "kubernetes"]
    if service.component_type == "server":
        chosen += ["--k8s-label-selector", router_selector(resource.metadata.name)]
    return chosen


def variables(resource: InferaDeployment, service: Service) -> list[Manifest]:
    """
    Return the environment by which a server or worker takes part in discovery.

    A worker listens on every address and registers POD_IP: without it no request arrives.
    """
    if not uses_kubernetes(resource):
        return []
    chosen = [
        field_variable("POD_NAME", "metadata.name"),
        field_variable("POD_NAMESPACE", "metadata.namespace"),
        field_variable("POD_IP", "status.podIP"),
    ]
    if service.component_type == "server":
        selector = router_selector(resource.metadata.name)
        chosen.append({"name": "INFERA_K8S_LABEL_SELECTOR", "value": selector})
    return chosen


def children(resource: InferaDeployment) -> Iterator[Manifest]:
    """Yield the service account of the pods and what it may do; nothing without discovery."""
    if not uses_kubernetes(resource):
        return
    deployment = resource.metadata.name
    name = child_name(deployment, DISCOVERY)
    labels = service_labels(deployment, DISCOVERY)
    owner = (KIND, resource.metadata)
    yield child(SERVICE_ACCOUNT, name, labels, of=owner)
    yield child(
        ROLE,
        name,
        labels,
        of=owner,
        rules=[
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
            {
                "apiGroups": [KIND.group],
                "resources": [KIND.plural],
                "resourceNames": [deployment],
                "verbs": ["get", "patch"],
            },
        ],
    )
    subject = {"kind": SERVICE_ACCOUNT.kind, "name": name}
    if resource.metadata.namespace:
        subject["namespace"] = resource.metadata.namespace
    yield child(
        ROLE_BINDING,
        name,
        labels,
        of=owner,
        roleRef={"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name},
        subjects=[subject],
    )
