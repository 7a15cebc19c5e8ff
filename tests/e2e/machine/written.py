"""Sequences that showed a fault once, and those that chance seldom draws, by what they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.machine.actions import (
    Apply,
    Calm,
    Delete,
    Install,
    Kill,
    Pause,
    Remove,
    Resume,
    Scale,
    Sequence,
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
