"""
Sequences that showed a fault once, and those that chance seldom draws, by what they show.

Those in LONG are played with pods only, in a soak, and all others there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.machine.actions import (
    Apply,
    Begun,
    Calm,
    Continue,
    Delete,
    Install,
    Kill,
    Pause,
    Remove,
    Resume,
    Scale,
    Sequence,
    Squat,
    Stop,
    Touch,
    Unsquat,
    Wipe,
)
from tests.e2e.machine.specs import GATEWAY_NAME, GATEWAY_NAMESPACE

_NO_NATS = {"deploy": False}
_GATEWAY = {
    "enabled": True,
    "tokenizerPath": "/models/m",
    "gatewayName": GATEWAY_NAME,
    "gatewayNamespace": GATEWAY_NAMESPACE,
}


def _several(name: str, nodes: int, **more: Any) -> Apply:
    """A worker on so many nodes, beside a server."""
    worker = {"componentType": "worker", "numberOfNodes": nodes}
    services = {"server": {"componentType": "server"}, "worker": worker}
    return Apply(name, {"image": "registry.example/infera:1", "services": services, **more})


WRITTEN: Mapping[str, Sequence] = {
    "a workload is scaled to zero, which leaves no name, and taken back by an edit": (
        Apply(
            name="cat",
            spec={
                "image": "registry.example/infera:2",
                "nats": {"deploy": False},
                "services": {"worker": {"componentType": "worker"}},
            },
        ),
        Calm(),
        Scale(child="Deployment/cat-worker", replicas=0),
        Calm(),
        Apply(
            name="cat",
            spec={
                "image": "registry.example/infera:3",
                "nats": {"deploy": False},
                "services": {"worker": {"componentType": "worker"}},
            },
        ),
        Calm(),
        Apply(
            name="cat",
            spec={
                "image": "registry.example/infera:3",
                "nats": {"deploy": False},
                "services": {"worker": {"componentType": "worker", "replicas": 2}},
            },
        ),
        Calm(),
    ),
    "a worker turns to several nodes and back, and the kind of groups comes and goes": (
        Remove("LeaderWorkerSet"),
        _several("ant", 1),
        Calm(),
        _several("ant", 2),
        Calm(),
        Install("LeaderWorkerSet"),
        Calm(),
        _several("ant", 3),
        Kill("handlers-1"),
        _several("ant", 1),
        Wipe(),
        Calm(),
        Remove("LeaderWorkerSet"),
        Calm(),
        _several("ant", 2),
        Delete("ant"),
        _several("ant", 1),
    ),
    "a gateway comes and goes with its kinds, beside NATS and discovery": (
        _several("bee", 2, gaie={**_GATEWAY, "hostnames": ["a.example"]}),
        Calm(),
        Remove("HTTPRoute"),
        Remove("InferencePool"),
        _several("bee", 2, gaie=_GATEWAY, nats=_NO_NATS),
        Calm(),
        Pause("bee"),
        Install("InferencePool"),
        Calm(),
        Resume("bee"),
        Install("HTTPRoute"),
        _several(
            "bee", 2, gaie=_GATEWAY, discoveryBackend="etcd", etcdEndpoint="etcd.example:2379"
        ),
        Calm(),
        _several("bee", 2),
        Calm(),
    ),
}

LONG: Mapping[str, Sequence] = {
    "a worker turns while a handler is dead, stopped, or everything is new": (
        _several("ant", 2),
        Calm(),
        _several("ant", 1),
        Begun(),
        Kill("handlers-1"),
        Kill("handlers-2"),
        Calm(),
        Stop("handlers-1", lasting=True),
        _several("ant", 3),
        Begun(),
        Wipe(),
        Calm(),
        Continue(),
        _several("ant", 1, nats=_NO_NATS),
        Kill("bridge"),
        _several("ant", 2),
        Calm(),
        Remove("LeaderWorkerSet"),
        _several("ant", 1),
        Calm(),
        Install("LeaderWorkerSet"),
        _several("ant", 2),
    ),
    "a group is edited by hand, and a gateway, while the resource is paused": (
        _several("bee", 2, gaie={**_GATEWAY, "hostnames": ["a.example"]}),
        Calm(),
        Pause("bee"),
        Touch("LeaderWorkerSet/bee-worker", "the image of groups"),
        Touch("HTTPRoute/bee-route", "whose route"),
        Touch("InferencePool/bee-pool", "gone"),
        Calm(),
        Touch("Deployment/bee-server", "image"),
        _several("bee", 1, gaie=_GATEWAY),
        Calm(),
        Resume("bee"),
        Calm(),
        Touch("InferencePool/bee-pool", "ports of the pool"),
        _several("bee", 1, gaie={**_GATEWAY, "hostnames": ["b.example"]}),
        Calm(),
        Touch("HTTPRoute/bee-route", "hostnames"),
    ),
    "somebody has the name of a successor, of a pool, and of a route": (
        _several("cat", 1),
        Squat("LeaderWorkerSet/cat-worker"),
        Squat("InferencePool/cat-pool"),
        Squat("HTTPRoute/cat-route"),
        Calm(),
        _several("cat", 2, gaie=_GATEWAY),
        Calm(),
        Remove("InferencePool"),
        Unsquat("LeaderWorkerSet/cat-worker"),
        Calm(),
        Install("InferencePool"),
        _several("cat", 2, gaie=_GATEWAY, nats=_NO_NATS),
        Calm(),
    ),
    "a successor is refused, and so is a route; the predecessor serves until an edit": (
        _several("ant", 2),
        Calm(),
        Apply(
            "ant",
            {
                "image": "registry.example/infera:1",
                "gaie": {**_GATEWAY, "hostnames": ["No Host"]},
                "services": {
                    "server": {"componentType": "server"},
                    "worker": {
                        "componentType": "worker",
                        "extraPodSpec": {
                            "containers": [{"name": "main", "image": "registry.example/own:3"}],
                            "restartPolicy": "Sometimes",
                        },
                    },
                },
            },
        ),
        Calm(),
        Kill("handlers-1"),
        Touch("LeaderWorkerSet/ant-worker", "size"),
        Calm(),
        _several("ant", 1, gaie={**_GATEWAY, "hostnames": ["a.example"]}),
        Calm(),
    ),
    "the queue is wiped amid a birth and amid an edit": (
        _several("ant", 2, gaie=_GATEWAY),
        Begun(),
        Wipe(),
        Calm(),
        _several("ant", 1, nats=_NO_NATS),
        Begun(),
        Wipe(),
        Calm(),
        Delete("ant", "foreground"),
        Wipe(),
        _several("ant", 2),
    ),
    "an autoscaler outlives edits and a new owner": (
        _several("ant", 2),
        Calm(),
        Scale("Deployment/ant-server", 3),
        Scale("LeaderWorkerSet/ant-worker", 2),
        Calm(),
        _several("ant", 2, nats=_NO_NATS),
        Calm(),
        Delete("ant", "orphan"),
        _several("ant", 2, backendFramework="vllm"),
        Calm(),
    ),
}
