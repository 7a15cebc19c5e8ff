"""
What about an InferaDeployment cannot be served, and what is worth telling.

Most of this the API server refuses. It is checked again for resources that were stored before our
CRD was, and for `weir render`, which asks no API server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crds.inferadeployment import (
    CHILD_NAME_LENGTH_MAX,
    RESERVED_SERVICE_NAMES,
    InferaDeployment,
    Nats,
    Service,
)
from crds.inferadeployment_gaie import Gaie
from handlers.conditions import Reason
from handlers.handler import Notice, TerminalError
from handlers.inferadeployment.gaie import FRONTEND, gateway_of
from handlers.inferadeployment.names import NATS, child_name
from handlers.inferadeployment.nats import Bus
from handlers.inferadeployment.podspec import port_of
from handlers.manifests import entries

STATEFUL_SET_NAME_LENGTH_MAX = 52
"""Its pods carry the name with a hyphen and a hash of ten as a label (measured on 1.36)."""
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def refuse(resource: InferaDeployment) -> None:
    """Raise TerminalError, with every fault and its remedy, where only an edit helps."""
    faults = [*_spec_faults(resource), *_nats_faults(resource.spec.nats)]
    for name, service in sorted(resource.spec.services.items()):
        faults += _service_faults(resource, name, service)
    if faults:
        raise TerminalError(Reason.INVALID_SPEC, "; ".join(faults))


def ignored(
    resource: InferaDeployment, name: str, service: Service, bus: Bus | None
) -> Iterator[Notice]:
    """Yield a notice for settings of a service that have no effect."""
    if service.component_type == "server" and service.role not in (None, "mixed"):
        yield _ignored(f"role of service {name} is for workers and has no effect: remove it")
    if service.extra_pod_spec is None:
        return
    fields = [
        field
        for field, value in (
            ("image", service.image),
            ("args", service.args),
            ("env", service.env),
            ("resources", service.resources),
            ("spec.envs", resource.spec.envs),
            ("spec.nats", resource.spec.nats and bus),
        )
        if value
    ]
    if fields:
        yield _ignored(
            f"service {name} has an extraPodSpec, which is used instead of {', '.join(fields)}: "
            f"put what it needs of them into the extraPodSpec"
        )


def names(resource: InferaDeployment, bus: Bus | None) -> Iterator[Notice]:
    """
    Yield a notice for names that no Service may have, or no pod of the own NATS or of a group.

    The former are warnings only: workers have no Service, and a child that is refused is a
    problem of its own. The latter are refused by nobody, and the pod never comes.
    """
    deployment = resource.metadata.name
    if "." in deployment:
        yield Notice(
            degraded=False,
            reason=Reason.INVALID_NAME,
            message=f"metadata.name {deployment} holds a dot, which no Service may have in its "
            f"name: make the resource anew with - instead",
        )
    for name in sorted(resource.spec.services):
        length = len(child_name(deployment, name))
        if length > CHILD_NAME_LENGTH_MAX:
            yield Notice(
                degraded=False,
                reason=Reason.INVALID_NAME,
                message=f"{child_name(deployment, name)} has {length} characters, more than the "
                f"{CHILD_NAME_LENGTH_MAX} that a Service may have: give service {name} or the "
                f"resource a shorter name",
            )

    own_nats = child_name(deployment, NATS)
    is_own = bus is not None and bus.source == "managed"
    if is_own and len(own_nats) > STATEFUL_SET_NAME_LENGTH_MAX:
        yield Notice(
            reason=Reason.INVALID_NAME,
            message=f"the own NATS {own_nats} has {len(own_nats)} characters, and its pod can have "
            f"no more than {STATEFUL_SET_NAME_LENGTH_MAX}: make the resource anew under a shorter "
            f"name, or set spec.nats.deploy to false or spec.nats.url",
        )

    for name, service in sorted(resource.spec.services.items()):
        # Each group of a LeaderWorkerSet is a StatefulSet that carries its number.
        longest = f"{child_name(deployment, name)}-{max(service.replicas - 1, 0)}"
        if service.number_of_nodes > 1 and len(longest) > STATEFUL_SET_NAME_LENGTH_MAX:
            yield Notice(
                reason=Reason.INVALID_NAME,
                message=f"the group {longest} of service {name} has {len(longest)} characters, and "
                f"its pods can have no more than {STATEFUL_SET_NAME_LENGTH_MAX}: give the service "
                f"or the resource a shorter name",
            )


def ports(resource: InferaDeployment) -> Iterator[Notice]:
    """Yield a notice for workers that listen where the frontend beside them does: one fails."""
    gateway = gateway_of(resource)
    if gateway is None:
        return
    for name, service in sorted(resource.spec.services.items()):
        is_built = service.component_type == "worker" and service.extra_pod_spec is None
        if is_built and port_of(service) == gateway.frontend_port:
            yield Notice(
                reason=Reason.INVALID_SPEC,
                message=f"service {name} and the frontend in its pods both listen on port "
                f"{gateway.frontend_port}, which only one of them can: set another port of the "
                f"service, or spec.gaie.frontendPort",
            )


def _ignored(message: str) -> Notice:
    return Notice(reason=Reason.FIELDS_IGNORED, message=message, degraded=False)


def _spec_faults(resource: InferaDeployment) -> Iterator[str]:
    spec = resource.spec
    if not spec.services:
        yield "spec.services is empty: add a server and at least one worker"
    if spec.discovery_backend == "etcd" and not spec.etcd_endpoint:
        yield (
            "spec.discoveryBackend etcd needs spec.etcdEndpoint: set it to host:port of an etcd, "
            "or set discoveryBackend to kubernetes"
        )
    if spec.etcd_endpoint and "@" in spec.etcd_endpoint:
        yield (
            "spec.etcdEndpoint must not hold a user or password, which every reader of a pod would "
            "see: set it to host:port of an etcd that takes the pods without, or set "
            "discoveryBackend to kubernetes"
        )
    gaie = spec.gaie or Gaie()
    if gaie.enabled and not gaie.tokenizer_path:
        yield "spec.gaie.tokenizerPath is missing: set it to the tokenizer of the workers' model"
    if gaie.enabled and not gaie.gateway_name:
        yield "spec.gaie.gatewayName is missing: set it to the Gateway that takes the route"
    if gaie.enabled and not gaie.epp_image and not spec.image:
        yield "spec.gaie has no image for the endpoint picker: set spec.gaie.eppImage or spec.image"


def _nats_faults(given: Nats | None) -> Iterator[str]:
    nats = given or Nats()
    if nats.url and "@" in nats.url:
        yield (
            "spec.nats.url must not hold a user, password or token: put the whole URL into a "
            "Secret and name that in spec.nats.credentialsSecretRef"
        )
    outside = nats.url or nats.credentials_secret_ref
    if nats.deploy and (outside or nats.shared):
        yield (
            "spec.nats.deploy true excludes url, shared and credentialsSecretRef: remove deploy, "
            "or the others"
        )
    if nats.shared and outside:
        yield (
            "spec.nats.shared true excludes url and credentialsSecretRef: remove shared, or the "
            "others"
        )


def _service_faults(resource: InferaDeployment, name: str, service: Service) -> Iterator[str]:
    where = f"spec.services.{name}"
    if name in RESERVED_SERVICE_NAMES:
        yield (
            f"{where}: the name is taken by another child: rename the service; reserved are "
            f"{', '.join(RESERVED_SERVICE_NAMES)}"
        )
    if not _DNS_LABEL.fullmatch(name):
        yield (
            f"{where}: the name is no DNS label: use lower-case letters, digits and -, and begin "
            f"and end with a letter or digit"
        )
    if service.component_type == "server" and service.number_of_nodes > 1:
        yield (
            f"{where}.numberOfNodes is for workers, and this is a server: remove it and raise "
            f"replicas instead"
        )
    if service.extra_pod_spec is None:
        if not service.image and not resource.spec.image:
            yield f"{where} has no image: set its image, or spec.image"
    elif not entries(service.extra_pod_spec, "containers"):
        yield f"{where}.extraPodSpec has no containers: add one, or remove extraPodSpec"
    elif service.component_type == "worker" and gateway_of(resource) is not None:
        taken = (
            container.get("name")
            for field in ("initContainers", "containers")
            for container in entries(service.extra_pod_spec, field)
        )
        if FRONTEND in taken:
            yield (
                f"{where}.extraPodSpec has a container {FRONTEND}, which spec.gaie adds to every "
                f"worker pod: rename it, or remove spec.gaie"
            )
