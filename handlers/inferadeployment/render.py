"""
The children that an InferaDeployment asks for.

    discovery    ServiceAccount, Role, RoleBinding                  d-disc
    own NATS     Service, StatefulSet                               d-nats
    a gateway    Service, Deployment; InferencePool; HTTPRoute      d-epp; d-pool; d-route
    a server     Service, Deployment                                d-s
    a worker     Deployment, or LeaderWorkerSet of several nodes    d-s
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crds.inferadeployment import KIND, InferaDeployment, Service
from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, SERVICE, Manifest
from handlers.conditions import Reason
from handlers.handler import ChildName, Facts, Notice, Rendering
from handlers.inferadeployment import checks, discovery, gaie, nats
from handlers.inferadeployment.names import (
    PICKER,
    child_name,
    common_children,
    service_labels,
    successions,
    workload_kind,
    workload_name,
)
from handlers.inferadeployment.podspec import Template, added, port_of, template
from handlers.inferadeployment.quantities import with_canonical
from handlers.manifests import child

RENDERER = 1
"""Version of what is rendered. A bump may restart pods, and stands in the changelog."""


def render(resource: InferaDeployment, facts: Facts) -> Rendering:
    """
    Return the children in the order of their creation: what pods refer to comes first.

    Raises TerminalError where only an edit of the resource helps.
    """
    checks.refuse(resource)
    bus = nats.bus_of(resource, facts)
    notices = [
        *checks.names(resource, bus),
        *checks.ports(resource),
        *discovery.notices(resource),
        *nats.notices(bus),
    ]
    children = list(discovery.children(resource))
    if bus is not None and bus.source == "managed":
        children += nats.children(resource)
    gateway = gaie.gateway_of(resource)
    if gateway is not None:
        children += gaie.children(resource, gateway, bus)
    for name, service in sorted(resource.spec.services.items()):
        pods = template(resource, name, service, bus)
        children += _workload(resource, name, service, pods)
        notices += _notices(name, pods)
        notices += checks.ignored(resource, name, service, bus)
    return Rendering(
        children=tuple(children),
        notices=tuple(notices),
        spared=nats.spared(resource) if bus is not None and bus.source == "managed" else {},
        added=_added(resource),
        succeeds=_succeeds(resource, children),
        underlying=common_children(resource.metadata.name),
    )


def _added(resource: InferaDeployment) -> dict[ChildName, tuple[str, ...]]:
    """Return, of every workload, what its pods get although nobody asks for it."""
    deployment = resource.metadata.name
    found = {
        workload_name(deployment, name, service): tuple(added(resource, service))
        for name, service in resource.spec.services.items()
    }
    if gaie.gateway_of(resource) is not None:
        picker = ChildName(DEPLOYMENT.kind, child_name(deployment, PICKER))
        found[picker] = tuple(gaie.added(PICKER))
    return found


def _workload(
    resource: InferaDeployment, name: str, service: Service, pods: Template
) -> Iterator[Manifest]:
    """Yield the workload of a service, and the Service in front of a server."""
    deployment = resource.metadata.name
    labels = service_labels(deployment, name)
    owner = (KIND, resource.metadata)
    if service.component_type == "server":
        yield child(
            SERVICE,
            child_name(deployment, name),
            labels,
            of=owner,
            spec={
                "type": "ClusterIP",
                "selector": dict(labels),
                "ports": [
                    {"name": "http", "port": port_of(service), "targetPort": port_of(service)}
                ],
            },
        )
    kind = workload_kind(service)
    is_group = kind == LEADER_WORKER_SET
    yield child(
        kind,
        child_name(deployment, name),
        labels,
        of=owner,
        spec=_groups(service, pods) if is_group else _pods(service, pods, labels),
    )


def _pods(service: Service, pods: Template, labels: dict[str, str]) -> Manifest:
    spec: Manifest = {
        "replicas": service.replicas,
        "selector": {"matchLabels": dict(labels)},
        "template": pods.manifest,
    }
    if service.component_type == "worker":
        spec["strategy"] = {
            "type": "RollingUpdate",
            # A surge pod on a full GPU node would never be scheduled: deadlock.
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        }
    return spec


def _groups(service: Service, pods: Template) -> Manifest:
    """Return groups of pods; the rest are LeaderWorkerSet's defaults, which surge nothing."""
    template = {**pods.manifest, "spec": with_canonical(pods.manifest["spec"])}
    return {
        "replicas": service.replicas,
        "leaderWorkerTemplate": {"size": service.number_of_nodes, "workerTemplate": template},
    }


def _succeeds(
    resource: InferaDeployment, children: Iterable[Manifest]
) -> dict[ChildName, ChildName]:
    """
    Return, of every service, the workload of the other kind that the rendered one replaces.

    Of a service that is to have no pods none is: what there is goes, whatever is in its place.
    """
    rendered = {ChildName(child["kind"], child["metadata"]["name"]) for child in children}
    return {
        former: successor
        for name, service in resource.spec.services.items()
        if service.replicas
        for kind in (DEPLOYMENT.kind, LEADER_WORKER_SET.kind)
        for former, successor in successions(resource.metadata.name, name, kind).items()
        if successor in rendered
    }


def _notices(name: str, pods: Template) -> Iterator[Notice]:
    if pods.duplicates:
        yield Notice(
            reason=Reason.DUPLICATES,
            message=f"service {name} names {', '.join(pods.duplicates)} more than once: the last "
            f"one counts; remove the others",
            degraded=False,
        )
