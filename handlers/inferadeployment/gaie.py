"""
The Inference Gateway in front of the workers: Gateway API Inference Extension (GAIE).

Every worker pod gets a frontend, which the pool selects by label. The Gateway asks the endpoint
picker which of the pool's pods a request goes to; the route leads from the Gateway to the pool.
"""

from __future__ import annotations

from collections.abc import Iterator

from crds.inferadeployment import (
    DEPLOYMENT_LABEL,
    FRONTEND_LABEL,
    KIND,
    InferaDeployment,
)
from crds.inferadeployment_gaie import Gaie
from crds.kubernetes import DEPLOYMENT, HTTP_ROUTE, INFERENCE_POOL, SERVICE, Manifest
from handlers.inferadeployment import discovery
from handlers.inferadeployment.names import PICKER, POOL, ROUTE, child_name, service_labels
from handlers.inferadeployment.nats import Bus
from handlers.manifests import child, item_path

FRONTEND = "infera-frontend"
"""Name of the container in every worker pod that speaks HTTP to the Gateway."""
GRPC_PORT = 9002
HEALTH_PORT = 9003
_PROBE = {"initialDelaySeconds": 5, "periodSeconds": 10}


def gateway_of(resource: InferaDeployment) -> Gaie | None:
    """Return the settings of the Inference Gateway, None where there is to be none."""
    gaie = resource.spec.gaie
    return gaie if gaie is not None and gaie.enabled else None


def gateway_namespace(resource: InferaDeployment, gaie: Gaie) -> str | None:
    """Return where the Gateway is; None where nobody knows the resource's own namespace."""
    return gaie.gateway_namespace or resource.metadata.namespace


def frontend(resource: InferaDeployment, gaie: Gaie, bus: Bus | None) -> Manifest:
    """Return the container that every worker pod has last."""
    port = gaie.frontend_port
    command = ["python3", "-m", "infera.server", "--router-mode", "direct"]
    command += ["--host", "0.0.0.0", "--port", str(port)]  # noqa: S104 - in a pod
    command += ["--router-tokenizer-path", gaie.tokenizer_path or ""]
    command += discovery.router_flags(resource)
    transport = "http"
    if bus is not None:
        transport = "nats"
        command += bus.flags
    command += ["--request-transport", transport]
    return {
        "name": FRONTEND,
        "image": _image(resource, gaie),
        "command": command,
        "env": [*_variables(bus), *discovery.selector_variables(resource)],
        "ports": [{"name": "frontend", "containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/v1/models", "port": port}, **_PROBE},
    }


def added(container: str) -> Iterator[str]:
    """Yield what the frontend's or the picker's container gets though nobody asks for it: paths."""
    path = item_path("spec.containers", container)
    for variable in discovery.identity_variables():
        yield item_path(f"{path}.env", variable["name"])
    yield f"{path}.readinessProbe"


def children(resource: InferaDeployment, gaie: Gaie, bus: Bus | None) -> Iterator[Manifest]:
    """Yield the endpoint picker with its Service, the pool that it picks from, and the route."""
    deployment = resource.metadata.name
    labels = service_labels(deployment, PICKER)
    picker, pool = child_name(deployment, PICKER), child_name(deployment, POOL)
    owner = (KIND, resource.metadata)
    yield child(
        SERVICE,
        picker,
        labels,
        of=owner,
        spec={
            "type": "ClusterIP",
            "selector": dict(labels),
            "ports": [{"name": "grpc-ext-proc", "port": GRPC_PORT, "targetPort": GRPC_PORT}],
        },
    )
    yield child(
        DEPLOYMENT,
        picker,
        labels,
        of=owner,
        spec={
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": _picker_pod(resource, gaie, bus),
            },
        },
    )
    yield child(
        INFERENCE_POOL,
        pool,
        labels,
        of=owner,
        spec={
            "targetPorts": [{"number": gaie.frontend_port}],
            "selector": {"matchLabels": {DEPLOYMENT_LABEL: deployment, FRONTEND_LABEL: "true"}},
            "endpointPickerRef": {
                "kind": SERVICE.kind,
                "name": picker,
                "port": {"number": GRPC_PORT},
            },
        },
    )
    yield child(
        HTTP_ROUTE,
        child_name(deployment, ROUTE),
        labels,
        of=owner,
        spec=_route(resource, gaie, pool),
    )


def _picker_pod(resource: InferaDeployment, gaie: Gaie, bus: Bus | None) -> Manifest:
    command = ["python3", "-m", "infera.gaie"]
    command += ["--router-tokenizer-path", gaie.tokenizer_path or ""]
    command += ["--grpc-port", str(GRPC_PORT), "--grpc-health-port", str(HEALTH_PORT)]
    command += discovery.router_flags(resource)
    if bus is not None:
        command += bus.flags
    container = {
        "name": PICKER,
        "image": _image(resource, gaie),
        "command": command,
        "env": _variables(bus),
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT},
            {"name": "grpc-health", "containerPort": HEALTH_PORT},
        ],
        "readinessProbe": {"tcpSocket": {"port": GRPC_PORT}, **_PROBE},
    }
    spec: Manifest = {"containers": [container]}
    if account := discovery.service_account(resource):
        spec["serviceAccountName"] = account
    return spec


def _route(resource: InferaDeployment, gaie: Gaie, pool: str) -> Manifest:
    """Return the spec of the route: everything that reaches the Gateway's host names."""
    parent: Manifest = {"name": gaie.gateway_name}
    if namespace := gateway_namespace(resource, gaie):
        parent["namespace"] = namespace
    backend = {
        "group": INFERENCE_POOL.group,
        "kind": INFERENCE_POOL.kind,
        "name": pool,
        "port": gaie.frontend_port,
        "weight": 1,
    }
    matches = [{"path": {"type": "PathPrefix", "value": "/"}}]
    spec: Manifest = {
        "parentRefs": [parent],
        "rules": [{"matches": matches, "backendRefs": [backend]}],
    }
    if gaie.hostnames:
        spec["hostnames"] = list(gaie.hostnames)
    return spec


def _variables(bus: Bus | None) -> list[Manifest]:
    """Return what picker and frontend know of NATS and of themselves: they register no address."""
    return [*([bus.variable] if bus is not None else []), *discovery.identity_variables()]


def _image(resource: InferaDeployment, gaie: Gaie) -> str | None:
    return gaie.epp_image or resource.spec.image
