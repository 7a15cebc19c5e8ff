"""Which NATS carries a deployment's KV-cache events, and the broker that is its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from crds.inferadeployment import KIND, InferaDeployment, Nats
from crds.kubernetes import SERVICE, STATEFUL_SET, Manifest
from handlers import plan
from handlers.conditions import Reason
from handlers.handler import ChildName, Facts, Notice, TerminalError
from handlers.inferadeployment.names import NATS, child_name, nats_labels, workload_name
from handlers.manifests import child, entries

IMAGE = "nats:2.14.0"
"""Image of an own broker that names none; a change restarts brokers and bumps the renderer."""
STORAGE_SIZE = "4Gi"
CLIENT_PORT = 4222
MONITOR_PORT = 8222
VARIABLE = "NATS_SERVER"

Source = Literal["managed", "external", "shared"]


class Bus(Struct, frozen=True, kw_only=True):
    """The NATS that a deployment's pods use."""

    source: Source
    url: str
    """What the flag says: a URL, or a reference to the variable."""
    variable: Manifest
    """The variable NATS_SERVER."""

    @property
    def flags(self) -> list[str]:
        """Flags of a server or worker."""
        return ["--kv-event-transport", "nats", "--nats-server", self.url]


def bus_of(resource: InferaDeployment, facts: Facts) -> Bus | None:
    """
    Return the NATS of a deployment, None where it is to have none.

    A deployment that does not say takes the install's default when its pods are made, and stays
    with what they use: no broker is deleted, and no engine moved, because of a default.

    Raises TerminalError where the shared NATS is to be used and the install names none.
    """
    wanted = resource.spec.nats or Nats()
    if wanted.credentials_secret_ref is not None:
        reference = wanted.credentials_secret_ref
        key = {"name": reference.name, "key": reference.key}
        variable = {"name": VARIABLE, "valueFrom": {"secretKeyRef": key}}
        return Bus(source="external", url=f"$({VARIABLE})", variable=variable)
    if wanted.url:
        is_shared = wanted.url == facts.nats_engine_url
        return _plain("shared" if is_shared else "external", wanted.url)
    if wanted.shared or _is_shared_by_default(resource, facts):
        return _shared(facts, is_asked_for=bool(wanted.shared))
    if wanted.deploy is False:
        return None
    return _plain("managed", _own_url(resource))


def depends_on(resource: InferaDeployment, facts: Facts) -> tuple[ChildName, ...]:
    """Return the children that decide which NATS it is, where the resource does not say."""
    if resource.spec.nats is not None:
        return ()
    broker = _broker(resource) if facts.nats_default == "shared" else ()
    return broker if facts.is_birth else (*broker, *_workloads(resource))


def notices(bus: Bus | None) -> Iterator[Notice]:
    """Yield what somebody who shares a NATS has to know."""
    if bus is not None and bus.source == "shared":
        yield Notice(
            degraded=False,
            reason=Reason.SHARED_BUS,
            message="its engines use the NATS of this platform, where Infera keeps one stream of "
            "256 MiB for all deployments (INFERA_KV_EVENTS): routers read each other's KV-cache "
            "events, and what one writes evicts what others have; where that matters, give it a "
            "NATS of its own: spec.nats.deploy true, or spec.nats.url",
        )


def _is_shared_by_default(resource: InferaDeployment, facts: Facts) -> bool:
    """
    Return whether a resource that does not say is on the shared NATS.

    What it has decides: any part of a broker, and what its pods use. So a broker that somebody
    deleted is made anew where its engines look for it.
    """
    if resource.spec.nats is not None or any(name in facts.existing for name in _broker(resource)):
        return False
    used = {url for name in _workloads(resource) for url in _used(facts.existing.get(name))}
    if _own_url(resource) in used:
        return False
    return facts.nats_default == "shared" or facts.nats_engine_url in used


def _workloads(resource: InferaDeployment) -> tuple[ChildName, ...]:
    """Return the workloads of the services, as the spec has them and as the last status had."""
    deployment = resource.metadata.name
    asked = {
        workload_name(deployment, name, service) for name, service in resource.spec.services.items()
    }
    # Those of a service that an edit gives another kind, or another name, know where it was.
    known = (resource.status.services if resource.status else None) or {}
    was = {
        ChildName(reported.kind, child_name(deployment, name)) for name, reported in known.items()
    }
    return tuple(sorted(asked | was))


def _used(live: Manifest | None) -> Iterator[str]:
    """Yield the URL of the NATS that a workload's pods use."""
    template = plan.pod_template(live or {}) or {}
    for container in entries(template.get("spec") or {}, "containers"):
        for variable in entries(container, "env"):
            if variable.get("name") == VARIABLE and variable.get("value"):
                yield str(variable["value"])


def _broker(resource: InferaDeployment) -> tuple[ChildName, ...]:
    name = child_name(resource.metadata.name, NATS)
    return ChildName(STATEFUL_SET.kind, name), ChildName(SERVICE.kind, name)


def _own_url(resource: InferaDeployment) -> str:
    return f"nats://{child_name(resource.metadata.name, NATS)}:{CLIENT_PORT}"


def _shared(facts: Facts, *, is_asked_for: bool) -> Bus:
    if "@" in facts.nats_engine_url:
        raise TerminalError(
            Reason.INVALID_SPEC,
            "WEIR_NATS_ENGINE_URL of the handlers holds a user, password or token, which every "
            "reader of a pod would see: let that NATS take engines without (no_auth_user), or put "
            "the whole URL into a Secret and name that in spec.nats.credentialsSecretRef",
        )
    if facts.nats_engine_url:
        return _plain("shared", facts.nats_engine_url)
    by = "spec.nats.shared" if is_asked_for else "this install's default (WEIR_NATS_DEFAULT)"
    raise TerminalError(
        Reason.INVALID_SPEC,
        f"{by} asks for the NATS of this platform, and this install names none for engines: set "
        f"WEIR_NATS_ENGINE_URL for the handlers (the next resync sees it, or that of a bridge that "
        f"is restarted), or use spec.nats.deploy or spec.nats.url",
    )


def children(resource: InferaDeployment) -> Iterator[Manifest]:
    """Yield the own broker: a headless Service and one pod with a volume."""
    deployment = resource.metadata.name
    name, labels = child_name(deployment, NATS), nats_labels(deployment)
    owner = (KIND, resource.metadata)
    yield child(
        SERVICE,
        name,
        labels,
        of=owner,
        spec={
            "clusterIP": "None",
            "selector": dict(labels),
            "ports": [
                {"name": "client", "port": CLIENT_PORT, "targetPort": CLIENT_PORT},
                {"name": "monitor", "port": MONITOR_PORT, "targetPort": MONITOR_PORT},
            ],
        },
    )
    wanted = resource.spec.nats or Nats()
    yield child(
        STATEFUL_SET,
        name,
        labels,
        of=owner,
        spec={
            "serviceName": name,
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {"containers": [_container(wanted)]},
            },
            "volumeClaimTemplates": [_claim(wanted)],
        },
    )


def spared(resource: InferaDeployment) -> dict[ChildName, str]:
    """Return the own broker, and the image that the resource names for it, if any."""
    wanted = resource.spec.nats or Nats()
    name = child_name(resource.metadata.name, NATS)
    return {ChildName(STATEFUL_SET.kind, name): wanted.image or ""}


def _plain(source: Source, url: str) -> Bus:
    return Bus(source=source, url=url, variable={"name": VARIABLE, "value": url})


def _container(wanted: Nats) -> Manifest:
    """
    Return the broker's container.

    Readiness asks for JetStream, liveness for the process alone: a broker that replays a large
    stream must not be killed for it (source: NATS documentation, "Monitoring", /healthz).
    """
    return {
        "name": "nats",
        "image": wanted.image or IMAGE,
        "args": ["-js", "-sd", "$(NATS_STORE_DIR)", "-m", str(MONITOR_PORT)],
        "env": [{"name": "NATS_STORE_DIR", "value": "/data/jetstream"}],
        "ports": [
            {"name": "client", "containerPort": CLIENT_PORT},
            {"name": "monitor", "containerPort": MONITOR_PORT},
        ],
        "readinessProbe": _health("?js-server-only=true", period=5, failures=3),
        "livenessProbe": _health("?js-enabled-only=true", period=10, failures=6),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def _health(query: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": f"/healthz{query}", "port": MONITOR_PORT},
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _claim(wanted: Nats) -> Manifest:
    size = STORAGE_SIZE if wanted.storage_size is None else str(wanted.storage_size)
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if wanted.storage_class_name is not None:
        spec["storageClassName"] = wanted.storage_class_name
    return {"metadata": {"name": "data"}, "spec": spec}
