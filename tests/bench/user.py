"""What the users of a run ask for: resources of six children each, and edits of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bridge.kube import MERGE_PATCH
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from tests.bench.client import Client, each
from tests.builders import a_small_deployment

NAMESPACE = "bench"
USER_AGENT = "bench-user"
CHILDREN_EACH = 6
SERVICE = "server"
"""The service that edits concern; its Deployment is the resource's name with this."""
SUFFIX = f"-{SERVICE}"


def resources(count: int) -> list[Manifest]:
    """Return so many resources: a server and a worker of one pod each, without GPU and NATS."""
    return a_small_deployment("bench").in_namespace(NAMESPACE).many(count)


def edit(number: int) -> dict[str, Any]:
    """Return a merge patch that changes the pod template of one child."""
    value = {"name": "BENCH_EDIT", "value": str(number)}
    return {"spec": {"services": {SERVICE: {"env": [value]}}}}


async def create(user: Client, manifests: Iterable[Manifest]) -> None:
    """The resources exist, asked for 16 at once."""
    path = CONTRACT.kind.path(NAMESPACE)
    bodies = [msgspec.json.encode(manifest) for manifest in manifests]
    await each(bodies, lambda body: user.send("POST", path, body))


async def edit_all(user: Client, names: Sequence[str]) -> None:
    """Each has been edited, asked for 16 at once."""
    await each(enumerate(names), lambda pair: edit_one(user, pair[1], pair[0]))


async def edit_one(user: Client, name: str, number: int) -> None:
    """A resource has been edited."""
    path = CONTRACT.kind.path(NAMESPACE, name)
    await user.send("PATCH", path, msgspec.json.encode(edit(number)), MERGE_PATCH)


def names(manifests: Iterable[Manifest]) -> list[str]:
    """Return the names of resources."""
    return [manifest["metadata"]["name"] for manifest in manifests]
