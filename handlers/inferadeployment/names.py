"""What the children of an InferaDeployment are called, and the labels that they carry."""

from __future__ import annotations

from collections.abc import Mapping

from crds.inferadeployment import (
    COMPONENT_LABEL,
    DEPLOYMENT_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    SERVICE_LABEL,
    Service,
)
from crds.kind import Kind
from crds.kubernetes import (
    DEPLOYMENT,
    GROUP_LABEL,
    HTTP_ROUTE,
    INFERENCE_POOL,
    LEADER_WORKER_SET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
from handlers.handler import ChildName

DISCOVERY = "disc"
NATS = "nats"
PICKER = "epp"
POOL = "pool"
ROUTE = "route"


def child_name(deployment: str, suffix: str) -> str:
    """Return the name of a service's workload, or of a part of the deployment."""
    return f"{deployment}-{suffix}"


def workload_kind(service: Service) -> Kind:
    """Return the kind of a service's workload."""
    return DEPLOYMENT if service.number_of_nodes == 1 else LEADER_WORKER_SET


def workload_name(deployment: str, name: str, service: Service) -> ChildName:
    """Return the workload of a service, as the spec has it."""
    return ChildName(workload_kind(service).kind, child_name(deployment, name))


def service_labels(deployment: str, service: str) -> dict[str, str]:
    """
    Return the identity of a service (or of discovery, or of the endpoint picker).

    Its labels, and the selector of its workload.

    Selectors are immutable and these are the reference operator's, so they stay to the letter.
    """
    return {
        MANAGED_BY_LABEL: MANAGED_BY,
        DEPLOYMENT_LABEL: deployment,
        SERVICE_LABEL: service,
    }


def nats_labels(deployment: str) -> dict[str, str]:
    """Return the identity of the own NATS: labels, selector, pod labels."""
    return {
        MANAGED_BY_LABEL: MANAGED_BY,
        DEPLOYMENT_LABEL: deployment,
        COMPONENT_LABEL: NATS,
    }


def pod_selector(deployment: str) -> str:
    """Return the label selector of all pods of a deployment."""
    return f"{MANAGED_BY_LABEL}={MANAGED_BY},{DEPLOYMENT_LABEL}={deployment}"


def pods_of(deployment: str, child: ChildName) -> str:
    """
    Return the label selector of one workload's pods.

    A Deployment and a LeaderWorkerSet of one service have the same selector; a label that the
    latter's controller adds tells their pods apart.
    """
    selector = pod_selector(deployment)
    if child.kind == LEADER_WORKER_SET.kind:
        return f"{selector},{GROUP_LABEL}={child.name}"
    service = child.name.removeprefix(f"{deployment}-")
    return f"{selector},{SERVICE_LABEL}={service},!{GROUP_LABEL}"


def workload_of(deployment: str, labels: Mapping[str, str]) -> ChildName | None:
    """Return the workload that a pod with these labels is of; None of one that is of no such."""
    if group := labels.get(GROUP_LABEL):
        return ChildName(LEADER_WORKER_SET.kind, group)
    if service := labels.get(SERVICE_LABEL):
        return ChildName(DEPLOYMENT.kind, child_name(deployment, service))
    if labels.get(COMPONENT_LABEL) == NATS:
        return ChildName(STATEFUL_SET.kind, child_name(deployment, NATS))
    return None


def successions(deployment: str, service: str, kind: str) -> dict[ChildName, ChildName]:
    """Return which workload of a service goes for the one of this kind."""
    name = child_name(deployment, service)
    return {
        ChildName(former.kind, name): ChildName(kind, name)
        for former in (DEPLOYMENT, LEADER_WORKER_SET)
        if former.kind != kind
    }


def router_selector(deployment: str) -> str:
    """Return the selector by which the router finds its workers."""
    return f"{DEPLOYMENT_LABEL}={deployment}"


def service_children(deployment: str, service: str) -> tuple[ChildName, ...]:
    """Return every child that a service may have or have had."""
    name = child_name(deployment, service)
    kinds = (DEPLOYMENT, LEADER_WORKER_SET, SERVICE)
    return tuple(ChildName(kind.kind, name) for kind in kinds)


def common_children(deployment: str) -> tuple[ChildName, ...]:
    """Return every child that belongs to no service."""
    discovery, nats = child_name(deployment, DISCOVERY), child_name(deployment, NATS)
    return (
        *(ChildName(kind.kind, discovery) for kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING)),
        *(ChildName(kind.kind, nats) for kind in (SERVICE, STATEFUL_SET)),
    )


def gateway_children(deployment: str) -> tuple[ChildName, ...]:
    """Return every child of the Inference Gateway."""
    picker = child_name(deployment, PICKER)
    return (
        *(ChildName(kind.kind, picker) for kind in (SERVICE, DEPLOYMENT)),
        ChildName(INFERENCE_POOL.kind, child_name(deployment, POOL)),
        ChildName(HTTP_ROUTE.kind, child_name(deployment, ROUTE)),
    )
