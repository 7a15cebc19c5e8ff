"""Objects and kinds as the tests of the bridge speak of them."""

from __future__ import annotations

import json
from typing import Any

from bridge.objects import Seen, read_object
from crds.contract import Child, Contract, Reference
from crds.kind import Kind
from crds.kubernetes import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    SERVICE,
    ObjectMeta,
    OwnerReference,
)

ENGINE = Kind(group="example.dev", version="v1", kind="Engine", plural="engines")
ROUTER = Kind(group="example.dev", version="v1", kind="Router", plural="routers")
PLUGIN = Kind(group="plugins.dev", version="v1", kind="Plugin", plural="plugins")

MANAGED_BY = "app.kubernetes.io/managed-by"


def a_contract(kind: Kind = ENGINE, **changes: Any) -> Contract:
    """Return the contract of a kind that owns Deployments and Services and names them by label."""
    given: dict[str, Any] = {
        "kind": kind,
        "resource": dict,
        "owns": (
            Child(kind=DEPLOYMENT, status_fields=("readyReplicas", "conditions")),
            Child(kind=SERVICE),
        ),
        "identity": (MANAGED_BY, f"{kind.plural}-operator"),
        "owner_name": lambda labels: labels.get(f"{kind.group}/{kind.queue_name}"),
        "refers": (
            Reference(
                kind=CUSTOM_RESOURCE_DEFINITION,
                touches=lambda changed, _: changed.name == PLUGIN.crd_name,
            ),
        ),
    }
    return Contract(**{**given, **changes})


def a_meta(**changes: Any) -> ObjectMeta:
    """Return metadata of an object as the server would give it."""
    given: dict[str, Any] = {
        "name": "a",
        "namespace": "ns",
        "uid": "uid-a",
        "resource_version": "7",
        "generation": 1,
        "labels": {MANAGED_BY: "engines-operator", "example.dev/engine": "main"},
    }
    return ObjectMeta(**{**given, **changes})


def owned_by(name: str, kind: Kind = ENGINE, *, controller: bool = True) -> list[OwnerReference]:
    """Return owner references that name one resource."""
    return [
        OwnerReference(
            api_version=kind.api_version, kind=kind.kind, name=name, uid="o", controller=controller
        )
    ]


def seen(manifest: dict[str, Any], *status_fields: str) -> Seen:
    """Return a manifest as the bridge reads it."""
    return read_object(json.dumps(manifest).encode(), status_fields)
