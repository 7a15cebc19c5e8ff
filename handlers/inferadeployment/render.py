"""
The children that an InferaDeployment asks for.

    discovery   ServiceAccount, Role, RoleBinding    d-disc
    own NATS    Service, StatefulSet                 d-nats
    a server    Service, Deployment                  d-s
    a worker    Deployment                           d-s
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crds.inferadeployment import KIND, InferaDeployment, Service
from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, SERVICE, Manifest
from handlers.conditions import Reason
from handlers.handler import ChildName, Facts, Notice, Rendering
from handlers.inferadeployment import checks, discovery, nats
from handlers.inferadeployment.names import (
    child_name,
    common_children,
    service_children,
    service_labels,
    successions,
)
from handlers.inferadeployment.podspec import Template, port_of, template
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
    notices = [*checks.names(resource, bus), *_not_served(resource, facts, bus)]
    children = list(discovery.children(resource))
    if bus is not None and bus.source == "managed":
        children += nats.children(resource)
    for name, service in sorted(resource.spec.services.items()):
        if not is_served(resource, service):
            continue
        pods = template(resource, name, service, bus)
        children += _workload(resource, name, service, pods)
        notices += _notices(name, pods)
        notices += checks.ignored(resource, name, service, bus)
    return Rendering(
        children=tuple(children),
        notices=tuple(notices),
        keep=tuple(_kept(resource)),
        spared=nats.spared(resource) if bus is not None and bus.source == "managed" else {},
        succeeds=_succeeds(resource, children),
    )


def is_served(resource: InferaDeployment, service: Service) -> bool:
    """Say whether this version makes the workload of a service."""
    return service.number_of_nodes == 1 and _is_served_at_all(resource)


def _is_served_at_all(resource: InferaDeployment) -> bool:
    """Say whether what concerns every service alike is served by this version."""
    shares_nats = bool(resource.spec.nats and resource.spec.nats.shared)
    return discovery.uses_kubernetes(resource) and not shares_nats


def _workload(
    resource: InferaDeployment, name: str, service: Service, pods: Template
) -> Iterator[Manifest]:
    """Yield the Deployment of a service, and the Service in front of a server."""
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
    yield child(DEPLOYMENT, child_name(deployment, name), labels, of=owner, spec=spec)


def _not_served(resource: InferaDeployment, facts: Facts, bus: nats.Bus | None) -> Iterator[Notice]:
    """Yield a notice for every part of the contract that this version leaves out."""
    spec = resource.spec
    if not discovery.uses_kubernetes(resource):
        yield _later(
            "spec.discoveryBackend etcd is not served by this version yet, and no service of this "
            "resource is: set it to kubernetes, or wait for a later version"
        )
    if bus is not None and bus.source == "shared":
        yield _later(
            "spec.nats.shared is not served by this version yet, and no service of this resource "
            "is: use spec.nats.deploy or spec.nats.url, or wait for a later version"
        )
    if spec.gaie is not None and spec.gaie.enabled:
        yield _later(
            "spec.gaie is not served by this version yet, so the workers get no frontend and no "
            "route: send requests to a server, or wait for a later version"
        )
    for name, service in sorted(spec.services.items()):
        if service.number_of_nodes > 1:
            yield _later(
                f"numberOfNodes {service.number_of_nodes} of service {name} is not served by this "
                f"version yet: set it to 1, or wait for a later version"
            )
    if facts.nats_default == "shared" and spec.nats is None:
        yield Notice(
            reason=Reason.NOT_SERVED_YET,
            message="the default of this install, the shared NATS, is not served by this version "
            "yet, so this resource has a NATS of its own",
            degraded=False,
        )


def _kept(resource: InferaDeployment) -> Iterator[ChildName]:
    """Yield the children that go on as they are because their successor is not served yet."""
    for name, service in sorted(resource.spec.services.items()):
        if not is_served(resource, service):
            yield from service_children(resource.metadata.name, name)
    if not _is_served_at_all(resource):
        yield from common_children(resource.metadata.name)


def _succeeds(
    resource: InferaDeployment, children: Iterable[Manifest]
) -> dict[ChildName, ChildName]:
    """Return, of every service, the workload of the other kind that the rendered one replaces."""
    rendered = {ChildName(child["kind"], child["metadata"]["name"]) for child in children}
    return {
        former: successor
        for name in resource.spec.services
        for kind in (DEPLOYMENT.kind, LEADER_WORKER_SET.kind)
        for former, successor in successions(resource.metadata.name, name, kind).items()
        if successor in rendered
    }


def _later(message: str) -> Notice:
    return Notice(reason=Reason.NOT_SERVED_YET, message=message)


def _notices(name: str, pods: Template) -> Iterator[Notice]:
    if pods.duplicates:
        yield Notice(
            reason=Reason.DUPLICATES,
            message=f"service {name} names {', '.join(pods.duplicates)} more than once: the last "
            f"one counts; remove the others",
            degraded=False,
        )
