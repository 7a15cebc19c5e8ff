"""
PodSpecs as users write them: what the API server defaults, rewrites, drops, and merges by key.

Every pod of them runs on the simulated fleet. What two values of one field have no part in common
(a probe by HTTP and one by TCP, a volume of a Secret and one in memory) is drawn often: an apply
has to take the one away before the other is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from crds.kubernetes import Manifest


def one_of(*values: Manifest) -> st.SearchStrategy[Manifest]:
    """Return a strategy for these values."""
    return st.sampled_from(values)


IMAGES = ("registry.example/infera:1", "registry.example/infera:2", "registry.example/own:3")
UNKNOWN = ("warpDrive", "gpuPartition", "laser")
"""Fields of a pod, a container and a port that no API server knows."""

_FIELD_OF_POD = {"fieldRef": {"fieldPath": "metadata.name"}}
_FROM_SECRET = {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}

ENV: st.SearchStrategy[list[Manifest]] = st.lists(
    st.one_of(
        st.builds(
            lambda name, value: {"name": name, "value": value},
            st.sampled_from(("A", "B", "C", "POD_IP")),
            st.sampled_from(("1", "2", "", "$(A)x")),
        ),
        st.builds(
            lambda name, source: {"name": name, "valueFrom": dict(source)},
            st.sampled_from(("A", "B", "POD_NAME")),
            st.sampled_from((_FIELD_OF_POD, _FROM_SECRET)),
        ),
    ),
    max_size=4,
)
ARGS = st.lists(st.sampled_from(("--x", "--y=1", "--drain-timeout=300", "")), max_size=3)

_HTTP: Manifest = {"httpGet": {"path": "/health", "port": 8000}}
PROBES = st.builds(
    lambda how, more: {**how, **more},
    st.sampled_from(
        (
            _HTTP,
            {"tcpSocket": {"port": 8000}},
            {"exec": {"command": ["true"]}},
            {"grpc": {"port": 8000}},
        )
    ),
    st.sampled_from(({}, {"periodSeconds": 5}, {"initialDelaySeconds": 0, "timeoutSeconds": 3})),
)
_HOOKS = one_of(
    {"exec": {"command": ["sleep", "1"]}},
    {"sleep": {"seconds": 2}},
    {"httpGet": {"path": "/drain", "port": 8000}},
)
_QUANTITIES = one_of(
    {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
    {"requests": {"cpu": 1}, "limits": {"memory": "1Gi", "amd.com/gpu": 1}},
    {"limits": {"amd.com/gpu": 1}},
    {"limits": {}},
    {},
)
_PORTS = st.lists(
    one_of(
        {"containerPort": 8000},
        {"containerPort": 8000, "name": "http"},
        {"containerPort": 53, "name": "dns", "protocol": "UDP"},
        {"containerPort": 53, "name": "dns-tcp"},
        {"containerPort": 9000, "laser": "on"},
    ),
    max_size=3,
    unique_by=lambda port: port.get("name") or id(port),
)
_CONTAINER: Mapping[str, st.SearchStrategy[Any]] = {
    "args": ARGS,
    "command": st.just(["/bin/run"]),
    "env": ENV,
    "ports": _PORTS,
    "resources": _QUANTITIES,
    "readinessProbe": PROBES,
    "livenessProbe": PROBES,
    "startupProbe": PROBES,
    "lifecycle": st.fixed_dictionaries({}, optional={"preStop": _HOOKS, "postStart": _HOOKS}),
    "securityContext": st.sampled_from(
        (
            {},
            {"privileged": False, "runAsUser": 0},
            {"capabilities": {"add": ["SYS_PTRACE"]}},
            {"seccompProfile": {"type": "Unconfined"}},
        )
    ),
    "workingDir": st.sampled_from(("", "/work")),
    "tty": st.booleans(),
    "imagePullPolicy": st.sampled_from(("Always", "IfNotPresent")),
    "gpuPartition": st.just({"mode": "half"}),
}
_VOLUMES = one_of(
    {"emptyDir": {}},
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
    {"configMap": {"name": "c", "optional": True}},
    {"secret": {"secretName": "s", "optional": True}},
    {"secret": {"secretName": "s", "items": [{"key": "a", "path": "b"}], "optional": True}},
    {"hostPath": {"path": "/opt"}},
    {"downwardAPI": {"items": [{"path": "p", **_FIELD_OF_POD}]}},
    {"projected": {"sources": [{"configMap": {"name": "c", "optional": True}}]}},
)
_POD: Mapping[str, st.SearchStrategy[Any]] = {
    "nodeSelector": st.sampled_from(({}, {"type": "kwok"})),
    "tolerations": st.sampled_from(
        (
            [],
            [{"key": "amd.com/gpu", "operator": "Exists"}],
            [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        )
    ),
    "terminationGracePeriodSeconds": st.sampled_from((0, 30, 600)),
    "hostNetwork": st.booleans(),
    "dnsPolicy": st.sampled_from(("ClusterFirst", "Default")),
    "dnsConfig": st.sampled_from(
        ({"options": [{"name": "ndots", "value": "2"}]}, {"searches": []})
    ),
    "securityContext": st.sampled_from(({}, {"fsGroup": 0}, {"runAsNonRoot": False})),
    "imagePullSecrets": st.sampled_from(([], [{"name": "pull"}], [{"name": "b"}, {"name": "a"}])),
    "hostAliases": st.just([{"ip": "10.0.0.1", "hostnames": ["a"]}]),
    "enableServiceLinks": st.booleans(),
    "serviceAccountName": st.just("own"),
    "affinity": st.sampled_from(
        (
            {},
            {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "host"}}
                    ]
                }
            },
        )
    ),
    "topologySpreadConstraints": st.just(
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    ),
    "initContainers": st.sampled_from(
        (
            [],
            [{"name": "init", "image": "registry.example/init:1", "restartPolicy": "Always"}],
            [{"name": "init", "image": "registry.example/init:1", "env": [{"name": "A"}]}],
        )
    ),
    "priorityClassName": st.just(""),
    "warpDrive": st.just("on"),
}
_REFUSED = one_of(
    {"restartPolicy": "Sometimes"},
    {"dnsPolicy": "Guess"},
    {"terminationGracePeriodSeconds": -1},
)
"""What the API server takes in a resource, and refuses in its child."""


@st.composite
def a_container(draw: st.DrawFn, name: str) -> Manifest:
    """Draw a container that mounts no more than the volume `v`."""
    built = {"name": name, "image": draw(st.sampled_from(IMAGES))}
    built |= some_of(draw, _CONTAINER, most=4)
    return built


@st.composite
def a_pod_spec(draw: st.DrawFn) -> Manifest:
    """Draw a PodSpec with a container that serves and perhaps another one."""
    main = draw(a_container(draw(st.sampled_from(("main", "infera", "engine")))))
    pod: Manifest = {"containers": [main], **some_of(draw, _POD, most=3)}
    if draw(st.integers(0, 2)) == 0:
        pod["containers"].append(draw(a_container("sidecar")))
    if draw(st.booleans()):
        pod["volumes"] = [{"name": "v", **draw(_VOLUMES)}]
        mount = {"name": "v", "mountPath": draw(st.sampled_from(("/v", "/w")))}
        main["volumeMounts"] = [{**mount, **draw(one_of({}, {"readOnly": False}))}]
    if draw(st.integers(0, 14)) == 0:
        pod |= draw(_REFUSED)
    return pod


@st.composite
def a_changed_pod_spec(draw: st.DrawFn, pod: Manifest) -> Manifest:
    """Draw a PodSpec like a given one, with another value in one place."""
    main, *others = pod["containers"]
    match draw(st.integers(0, 3)):
        case 0:
            return {**pod, **some_of(draw, _POD, most=1)}
        case 1 if "volumes" in pod:
            return {**pod, "volumes": [{"name": "v", **draw(_VOLUMES)}]}
        case 2:
            kept = {key: value for key, value in main.items() if key not in _CONTAINER}
            return {**pod, "containers": [{**kept, **some_of(draw, _CONTAINER, most=2)}, *others]}
        case _:
            return {**pod, "containers": [{**main, **some_of(draw, _CONTAINER, most=2)}, *others]}


def some_of(
    draw: st.DrawFn, fields: Mapping[str, st.SearchStrategy[Any]], *, most: int
) -> Manifest:
    """Return so many of the fields at most, each with a value of its own."""
    chosen = draw(st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True))
    return {name: draw(fields[name]) for name in chosen}
