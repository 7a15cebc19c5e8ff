"""What the reference operator does, and what is left of it once its work is ours."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from bridge.kube_errors import Conflict
from crds.kubernetes import Manifest
from handlers.fields import entries_of
from tests.services.handlers.conftest import Desk

REFERENCE = "infera-operator"
PUTS_MAX = 20


async def posted(desk: Desk, manifest: Manifest, *, by: str = REFERENCE) -> Manifest:
    """Create an object as somebody else; return it as the API server holds it."""
    data = await desk.admin.request(
        "POST",
        desk.kind(manifest["kind"]).path(desk.namespace),
        query={"fieldManager": by},
        body=msgspec.json.encode(manifest),
        content_type="application/json",
    )
    found: Manifest = msgspec.json.decode(data)
    return found


async def put(desk: Desk, manifest: Manifest, *, by: str = REFERENCE) -> Manifest:
    """Replace an object as the reference operator does; its controller may write meanwhile."""
    for _ in range(PUTS_MAX):
        version = (await desk.live(manifest))["metadata"]["resourceVersion"]
        whole = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": version}}
        with suppress(Conflict):
            return await desk.edited(whole, by=by)
    raise AssertionError(f"{manifest['metadata']['name']} never came to rest")


def managers(live: Manifest) -> set[str]:
    """Return who owns fields, but for controllers."""
    return {entry["manager"] for entry in entries_of(live)} - {"kube-controller-manager"}


def pods_of(live: Manifest) -> tuple[Any, Any]:
    """
    Return what pods are made from, and of which object.

    Not its generation: that of a Deployment moves with its annotations.
    """
    return live["spec"]["template"], live["metadata"]["uid"]


async def rests(desk: Desk, *manifests: Manifest) -> None:
    """Nothing is written by another look."""
    children = await desk.make(*manifests)
    assert desk.written == []
    assert [child.problem for child in children if child.problem] == []
