"""How router and workers of a deployment find each other: flags, variables, permissions."""

from __future__ import annotations

from collections.abc import Iterator

from crds.inferadeployment import KIND, InferaDeployment, Service
from crds.kubernetes import ROLE, ROLE_BINDING, SERVICE_ACCOUNT, Manifest
from handlers.conditions import Reason
from handlers.handler import Notice
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


def worker_flags(resource: InferaDeployment) -> list[str]:
    """Return the flags by which a worker lets itself be found."""
    if not uses_kubernetes(resource):
        return ["--etcd-endpoint", resource.spec.etcd_endpoint or ""]
    return ["--discovery-backend", "kubernetes"]


def router_flags(resource: InferaDeployment) -> list[str]:
    """Return the flags by which a server, a frontend or an endpoint picker finds workers."""
    chosen = worker_flags(resource)
    if uses_kubernetes(resource):
        chosen += ["--k8s-label-selector", router_selector(resource.metadata.name)]
    return chosen


def identity_variables() -> list[Manifest]:
    """Return the variables that tell a pod which one it is."""
    return [
        field_variable("POD_NAME", "metadata.name"),
        field_variable("POD_NAMESPACE", "metadata.namespace"),
    ]


def selector_variables(resource: InferaDeployment) -> list[Manifest]:
    """Return the variable by which a router finds its workers; none without kubernetes."""
    if not uses_kubernetes(resource):
        return []
    selector = router_selector(resource.metadata.name)
    return [{"name": "INFERA_K8S_LABEL_SELECTOR", "value": selector}]


def variables(resource: InferaDeployment, service: Service) -> list[Manifest]:
    """
    Return the environment by which a server or worker takes part in discovery.

    A worker listens on every address and registers POD_IP, through the API server or in etcd:
    without it no request arrives.
    """
    chosen = [*identity_variables(), field_variable("POD_IP", "status.podIP")]
    if service.component_type == "server":
        chosen += selector_variables(resource)
    return chosen


def notices(resource: InferaDeployment) -> Iterator[Notice]:
    """Yield what somebody has to know whose pods find each other through an etcd."""
    if not uses_kubernetes(resource):
        yield Notice(
            degraded=False,
            reason=Reason.ETCD_DISCOVERY,
            message="a router that finds its workers in an etcd does not see that a pod is being "
            "deleted: it goes on sending requests to workers that are about to end, at every "
            "rollout and scale-in; set spec.discoveryBackend to kubernetes where none may be lost",
        )


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
