"""
The pod template of a service: built from its fields, or the user's own PodSpec completed.

Templates are frozen: a change of what comes out of here restarts pods, so it bumps the renderer's
version and stands in the changelog.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from crds.inferadeployment import FRONTEND_LABEL, InferaDeployment, Resources, Service
from crds.kubernetes import Manifest
from handlers.inferadeployment import discovery, gaie
from handlers.inferadeployment.drain import PRE_STOP_SECONDS, grace_seconds
from handlers.inferadeployment.names import service_labels
from handlers.inferadeployment.nats import Bus
from handlers.manifests import deduplicated, entries, item_path, names_of, without_nulls

CONTAINER = "infera"
PRIMARY_NAMES = ("main", CONTAINER)
BOOT = "boot-config"
"""The volume of the host's /boot."""
SERVER_PORT = 8000
WORKER_PORT = 30000


class Template(Struct, frozen=True, kw_only=True):
    """A pod template, and the entries that it lost because a later one has their key."""

    manifest: Manifest
    duplicates: tuple[str, ...] = ()


def port_of(service: Service) -> int:
    """Return the port that a service listens on."""
    if service.port is not None:
        return service.port
    return SERVER_PORT if service.component_type == "server" else WORKER_PORT


def template(resource: InferaDeployment, name: str, service: Service, bus: Bus | None) -> Template:
    """Return the pod template of a service."""
    if service.extra_pod_spec is None:
        spec = _built(resource, service, bus)
    else:
        spec = _completed(resource, service)
    labels = {**(service.pod_labels or {}), **service_labels(resource.metadata.name, name)}
    if service.component_type == "worker":
        _ready_to_drain(spec, service)
        gateway = gaie.gateway_of(resource)
        if gateway is not None:
            spec["containers"].append(gaie.frontend(resource, gateway, bus))
            labels[FRONTEND_LABEL] = "true"
    tidy, duplicates = deduplicated(spec)
    return Template(manifest={"metadata": {"labels": labels}, "spec": tidy}, duplicates=duplicates)


def added(resource: InferaDeployment, service: Service) -> Iterator[str]:
    """Yield what pods of a service get although nobody asks for it: dotted paths in a template."""
    own: Manifest = without_nulls(service.extra_pod_spec or {})
    is_built = service.extra_pod_spec is None
    primary = {"name": CONTAINER} if is_built else primary_of(own)
    if not isinstance(primary.get("name"), str):
        return  # the API server refuses it, by its name
    container = item_path("spec.containers", primary["name"])
    given = without_nulls(service.env or []) if is_built else entries(primary, "env")
    names = names_of(given)
    for variable in discovery.variables(resource, service):
        if variable["name"] not in names:
            yield item_path(f"{container}.env", variable["name"])
    if is_built:
        yield item_path("spec.volumes", BOOT)
        yield item_path(f"{container}.volumeMounts", BOOT)
    if discovery.service_account(resource) and not own.get("serviceAccountName"):
        yield from ("spec.serviceAccountName", "spec.serviceAccount")
    if service.component_type != "worker":
        return
    yield "spec.terminationGracePeriodSeconds"
    lifecycle: Any = primary.get("lifecycle", {})
    if isinstance(lifecycle, dict) and "preStop" not in lifecycle:
        yield f"{container}.lifecycle.preStop"
    if "readinessProbe" not in primary and _is_probed(service):
        yield f"{container}.readinessProbe"
    if gaie.gateway_of(resource) is not None:
        yield from gaie.added(gaie.FRONTEND)


def primary_of(spec: Manifest) -> Manifest:
    """Return the container that serves: the first named main or infera, else the first."""
    containers = entries(spec, "containers")
    named = (item for item in containers if item.get("name") in PRIMARY_NAMES)
    return next(named, containers[0])


def _built(resource: InferaDeployment, service: Service, bus: Bus | None) -> Manifest:
    container: Manifest = {
        "name": CONTAINER,
        "image": service.image or resource.spec.image,
        "command": _command(resource, service, bus),
        "ports": [{"containerPort": port_of(service)}],
    }
    env = [
        *without_nulls(resource.spec.envs or []),
        *([bus.variable] if bus is not None else []),
        *discovery.variables(resource, service),
        *without_nulls(service.env or []),
    ]
    if env:
        container["env"] = env
    wanted = service.resources or Resources()
    if resources := _resources(wanted):
        container["resources"] = resources
    volumes, mounts = _volumes(wanted)
    container["volumeMounts"] = mounts
    spec: Manifest = {"containers": [container], "volumes": volumes}
    if account := discovery.service_account(resource):
        spec["serviceAccountName"] = account
    return spec


def _command(resource: InferaDeployment, service: Service, bus: Bus | None) -> list[str]:
    """Return the whole command: the module, its address, discovery, role, NATS, the user's args."""
    is_server = service.component_type == "server"
    module = "server" if is_server else f"engine.{resource.spec.backend_framework}"
    command = ["python3", "-m", f"infera.{module}"]
    command += ["--host", "0.0.0.0", "--port", str(port_of(service))]  # noqa: S104 - in a pod
    flags = discovery.router_flags if is_server else discovery.worker_flags
    command += flags(resource)
    if not is_server and service.role in ("prefill", "decode"):
        command += ["--disaggregation-mode", service.role]
    if bus is not None:
        command += bus.flags
    return command + list(service.args or [])


def _resources(wanted: Resources) -> Manifest:
    requests: Manifest = {}
    if wanted.cpu is not None:
        requests["cpu"] = str(wanted.cpu)
    if wanted.memory is not None:
        requests["memory"] = str(wanted.memory)
    if not wanted.gpu:
        return {"requests": requests} if requests else {}
    gpu = {wanted.gpu_type: str(wanted.gpu)}
    return {"requests": {**requests, **gpu}, "limits": gpu}


def _volumes(wanted: Resources) -> tuple[list[Manifest], list[Manifest]]:
    """Return volumes and mounts: shared memory where asked for, and the host's /boot always."""
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    if wanted.shared_memory is not None:
        memory = {"medium": "Memory", "sizeLimit": str(wanted.shared_memory)}
        volumes.append({"name": "dshm", "emptyDir": memory})
        mounts.append({"name": "dshm", "mountPath": "/dev/shm"})  # noqa: S108 - shared memory
    volumes.append({"name": BOOT, "hostPath": {"path": "/boot", "type": "Directory"}})
    mounts.append({"name": BOOT, "mountPath": "/boot", "readOnly": True})
    return volumes, mounts


def _completed(resource: InferaDeployment, service: Service) -> Manifest:
    """Return the user's PodSpec with port, discovery variables and service account added."""
    spec: Manifest = without_nulls(service.extra_pod_spec)
    primary = primary_of(spec)
    port = port_of(service)
    if all(item.get("containerPort") != port for item in entries(primary, "ports")):
        _append(primary, "ports", {"containerPort": port})
    present = names_of(entries(primary, "env"))
    for variable in discovery.variables(resource, service):
        if variable["name"] not in present:
            _append(primary, "env", variable)
    account = discovery.service_account(resource)
    if account and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = account
    return spec


def _append(holder: Manifest, field: str, item: Manifest) -> None:
    """Append to a list; what is no list stays, for the API server to refuse by its name."""
    found: Any = holder.setdefault(field, [])
    if isinstance(found, list):
        found.append(item)


def _ready_to_drain(spec: Manifest, service: Service) -> None:
    """Give a worker's pod its readiness probe, preStop hook and grace, where it has none."""
    primary = primary_of(spec)
    if _is_probed(service):
        primary.setdefault("readinessProbe", _readiness_probe(port_of(service)))
    lifecycle = primary.setdefault("lifecycle", {})
    if isinstance(lifecycle, dict):
        command = ["/bin/sh", "-c", f"sleep {PRE_STOP_SECONDS}"]
        lifecycle.setdefault("preStop", {"exec": {"command": command}})
    needed = grace_seconds(service.args or (), without_nulls(service.env or []), primary)
    given = spec.get("terminationGracePeriodSeconds", 0)
    if isinstance(given, int) and given < needed:
        spec["terminationGracePeriodSeconds"] = needed


def _is_probed(service: Service) -> bool:
    return service.number_of_nodes == 1 and not service.skip_readiness_probe


def _readiness_probe(port: int) -> Manifest:
    return {
        "httpGet": {"path": "/health", "port": port},
        "initialDelaySeconds": 15,
        "periodSeconds": 15,
        "timeoutSeconds": 10,
        "failureThreshold": 6,
    }
