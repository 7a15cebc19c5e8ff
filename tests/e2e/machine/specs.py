"""
Specs of InferaDeployments: those that are served, and those that somebody has to refuse.

A valid one is what the CRD's schema and rules allow. What the API server must refuse is made from a
valid one and the schema itself (another type, a value beyond a bound), or is a case of
`tests/refused.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from crds.schema import structural
from tests.e2e.machine.pods import ARGS, ENV, IMAGES, a_changed_pod_spec, a_pod_spec, some_of
from tests.refused import BY_A_BOUND, BY_A_RULE

SERVERS = ("server", "second")
WORKERS = ("worker", "decode", "prefill")
GATEWAY_NAME = "entry"
GATEWAY_NAMESPACE = "default"
SHARED_NATS: Manifest = {"shared": True}
"""What only the handler refuses: the install under test names no NATS for engines."""

_RESOURCES = st.sampled_from(
    (
        {"gpu": 1},
        {"gpu": 1, "gpuType": "nvidia.com/gpu"},
        {"cpu": "1000m", "memory": "1024Mi"},
        {"cpu": 1, "sharedMemory": "16Gi"},
        {"gpu": 0},
    )
)
_SERVICE: Mapping[str, st.SearchStrategy[Any]] = {
    "replicas": st.integers(0, 3),
    "image": st.sampled_from(IMAGES),
    "port": st.sampled_from((8000, 8001, 30000)),
    "args": ARGS,
    "env": ENV,
    "resources": _RESOURCES,
    "podLabels": st.sampled_from(({}, {"team": "blue"}, {"team": "red", "infera.amd.com/x": "y"})),
    "skipReadinessProbe": st.booleans(),
    "extraPodSpec": a_pod_spec(),
}
_NATS = st.sampled_from(
    (
        None,
        {"deploy": True},
        {"deploy": True, "image": "nats:2.15.1"},
        {"deploy": True, "storageSize": "8Gi"},
        {"deploy": False},
        {"url": "nats://bus.example:4222"},
        {"credentialsSecretRef": {"name": "bus", "key": "url"}},
    )
)
_DISCOVERY: st.SearchStrategy[Manifest] = st.sampled_from(
    (
        {"discoveryBackend": None, "etcdEndpoint": None},
        {"discoveryBackend": "kubernetes", "etcdEndpoint": None},
        {"discoveryBackend": "etcd", "etcdEndpoint": "etcd.example:2379"},
        {"discoveryBackend": "etcd", "etcdEndpoint": "other.example:2379"},
    )
)
_GAIE: Mapping[str, st.SearchStrategy[Any]] = {
    "hostnames": st.sampled_from(
        (["a.example"], ["b.example", "a.example"], ["*.c.example"], [], ["No Host"])
    ),
    "frontendPort": st.sampled_from((8000, 8080)),
    "eppImage": st.sampled_from(IMAGES),
    "modelName": st.just("m"),
}
"""`No Host` is what the API server takes in a resource, and refuses in its route."""
_NODES = st.sampled_from((1, 2, 2, 3))
_NOT_OF_A_GROUP = ("restartPolicy", "dnsPolicy", "hostNetwork", "terminationGracePeriodSeconds")
"""
Fields of a PodSpec by which its pods may be refused.

A Deployment is refused then; a LeaderWorkerSet is taken, and its pods never come.
"""
_TOP: Mapping[str, st.SearchStrategy[Any]] = {
    "backendFramework": st.sampled_from(("sglang", "vllm")),
    "envs": ENV,
    "nats": _NATS,
}


@st.composite
def a_service(draw: st.DrawFn, name: str) -> Manifest:
    """Draw a service; its name says what it is, most of the time."""
    is_server = (name in SERVERS) != (draw(st.integers(0, 7)) == 0)
    built: Manifest = {"componentType": "server" if is_server else "worker"}
    built |= some_of(draw, _SERVICE, most=4)
    if not is_server:
        if draw(st.integers(0, 2)) == 0:
            built["role"] = draw(st.sampled_from(("mixed", "prefill", "decode")))
        if draw(st.integers(0, 3)) == 0:
            built["numberOfNodes"] = draw(_NODES)
    return built


@st.composite
def a_gateway(draw: st.DrawFn) -> Manifest | None:
    """Draw what `gaie` says: that there is to be a gateway, most of the time."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((None, {"enabled": False}, {"tokenizerPath": "/t"})))
    needed = {
        "enabled": True,
        "tokenizerPath": "/models/m",
        "gatewayName": GATEWAY_NAME,
        "gatewayNamespace": GATEWAY_NAMESPACE,
    }
    return {**needed, **some_of(draw, _GAIE, most=3)}


@st.composite
def a_spec(draw: st.DrawFn) -> Manifest:
    """Draw a spec of one to four services."""
    names = draw(
        st.lists(st.sampled_from((*SERVERS, *WORKERS)), min_size=1, max_size=4, unique=True)
    )
    built: Manifest = {"image": draw(st.sampled_from(IMAGES)), "nats": draw(_NATS)}
    built |= some_of(draw, _TOP, most=1)
    if draw(st.integers(0, 2)) == 0:
        built |= draw(_DISCOVERY)
    if draw(st.integers(0, 2)) == 0:
        built["gaie"] = draw(a_gateway())
    built["services"] = {name: draw(a_service(name)) for name in names}
    return as_meant(built)


@st.composite
def a_changed_spec(draw: st.DrawFn, spec: Manifest) -> Manifest:
    """Draw a spec that differs from a given one in one place, or altogether."""
    new = deepcopy(spec)
    services = new["services"]
    name = draw(st.sampled_from(sorted(services)))
    match draw(st.integers(0, 12)):
        case 0:
            return draw(a_spec())
        case 1 if len(services) > 1:
            del services[name]
        case 2:
            added = draw(st.sampled_from((*SERVERS, *WORKERS)))
            services[added] = draw(a_service(added))
        case 3:
            new |= some_of(draw, _TOP, most=1)
        case 4:
            new["image"] = draw(st.sampled_from(IMAGES))
        case 5:
            services[name] = draw(a_service(name))
        case 6:
            new["gaie"] = draw(a_gateway())
        case 7:
            new |= draw(_DISCOVERY)
        case _:
            services[name] = draw(a_changed_service(services[name]))
    return as_meant(new)


@st.composite
def a_changed_service(draw: st.DrawFn, service: Manifest) -> Manifest:
    """Draw a service that differs from a given one in one place."""
    match draw(st.integers(0, 5)):
        case 0 | 1 if "extraPodSpec" in service:
            return {**service, "extraPodSpec": draw(a_changed_pod_spec(service["extraPodSpec"]))}
        case 2:
            return {**service, **some_of(draw, _SERVICE, most=2)}
        case 3 | 4 if service["componentType"] == "worker":
            return {**service, "numberOfNodes": draw(_NODES)}
    gone = draw(st.sampled_from(sorted(service)))
    kept = service.items()
    return {key: value for key, value in kept if key != gone or key == "componentType"}


@st.composite
def a_spec_of_other_nodes(draw: st.DrawFn, spec: Manifest) -> Manifest:
    """Draw a spec like a given one, with a worker on several nodes that had one, or the reverse."""
    services = spec["services"]
    workers = [name for name, given in services.items() if given["componentType"] == "worker"]
    if not workers:
        return draw(a_changed_spec(spec))
    name = draw(st.sampled_from(sorted(workers)))
    nodes = 1 if services[name].get("numberOfNodes", 1) > 1 else draw(st.sampled_from((2, 3)))
    return as_meant(
        {**spec, "services": {**services, name: {**services[name], "numberOfNodes": nodes}}}
    )


def as_meant(spec: Manifest) -> Manifest:
    """Return the spec without what is not to be said at all, and without groups that never come."""
    services = {name: _as_a_group(given) for name, given in spec["services"].items()}
    meant = {**spec, "services": services}
    return {key: value for key, value in meant.items() if value is not None}


def _as_a_group(service: Manifest) -> Manifest:
    if service.get("numberOfNodes", 1) == 1 or "extraPodSpec" not in service:
        return service
    pod = service["extraPodSpec"].items()
    return {**service, "extraPodSpec": {k: v for k, v in pod if k not in _NOT_OF_A_GROUP}}


def is_terminal(spec: Manifest) -> bool:
    """Whether only the handler refuses a spec, so that nothing but an edit helps."""
    return (spec.get("nats") or {}).get("shared") is True


@st.composite
def a_terminal_spec(draw: st.DrawFn, spec: Manifest) -> Manifest:
    """Draw a spec that is terminal."""
    return {**draw(a_changed_spec(spec)), "nats": dict(SHARED_NATS)}


# What the API server refuses


@st.composite
def a_wrong_spec(draw: st.DrawFn, spec: Manifest) -> Manifest:
    """Draw a spec that the API server must refuse, on creation as in an edit."""
    if draw(st.integers(0, 2)) == 0:
        return deepcopy(draw(st.sampled_from(_REFUSED)))
    breaches = list(_breaches(_SCHEMA, spec))
    return draw(st.sampled_from(breaches))


def _breaches(schema: Manifest, value: Any) -> Iterator[Any]:
    """Yield the value with one part of it as the schema does not allow it."""
    yield from _not_of(schema)
    if isinstance(value, dict):
        for key, item in value.items():
            below = (schema.get("properties") or {}).get(key) or schema.get("additionalProperties")
            if isinstance(below, dict):
                yield from ({**value, key: breach} for breach in _breaches(below, item))
        for key in schema.get("required", ()):
            yield {name: item for name, item in value.items() if name != key}
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            for breach in _breaches(schema["items"], item):
                yield [*value[:index], breach, *value[index + 1 :]]


def _not_of(schema: Manifest) -> Iterator[Any]:
    """Yield values that a schema does not allow."""
    match schema.get("type"):
        case "object":
            yield "text"
            yield ["list"]
        case "array":
            yield {"an": "object"}
        case "string":
            yield 7
            if "enum" in schema:
                yield "neither"
        case "integer":
            yield "many"
            if "minimum" in schema:
                yield schema["minimum"] - 1
            if "maximum" in schema:
                yield schema["maximum"] + 1
        case "boolean":
            yield "yes"
    if schema.get("x-kubernetes-int-or-string"):
        yield True


_SCHEMA: Manifest = structural(CONTRACT.resource)["properties"]["spec"]
_OLD_ONES_MAY = "role is for workers"
"""A rule that an edit need not keep where the stored object broke it already."""
_REFUSED: tuple[Manifest, ...] = tuple(
    json.loads(json.dumps(manifest["spec"]))
    for manifest, said in (*BY_A_RULE, *BY_A_BOUND)
    if manifest["metadata"] == {"name": "demo"} and not said.startswith(_OLD_ONES_MAY)
)
