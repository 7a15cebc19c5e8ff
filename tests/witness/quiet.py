"""Quiet at rest: no request for a change from us, and no object with a new resourceVersion."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from crds import KINDS
from crds.kind import Kind
from crds.kubernetes import Manifest
from tests.stack.eventually import eventually
from tests.witness.audit import AuditEvent, AuditLog

OURS_AND_CHILDREN: tuple[Kind, ...] = tuple(
    dict.fromkeys(
        kind
        for contract in KINDS
        for kind in (contract.kind, *(child.kind for child in contract.owns))
    )
)
CALM_SECONDS = 1.0
CALM_WITHIN_SECONDS = 60.0
_BODY_CHARACTERS_MAX = 300
_PATHS_MAX = 8
_NOT_FOUND = 404


class Cluster(Protocol):
    """What is asked of a control plane."""

    audit_log: Path

    def get(self, path: str) -> Any:
        """Return what an administrator's GET answers; raise HTTPError."""


@asynccontextmanager
async def quiet(
    cluster: Cluster,
    namespace: str,
    *,
    user_agent_prefix: str = "weir",
    kinds: tuple[Kind, ...] = OURS_AND_CHILDREN,
    calm_seconds: float = CALM_SECONDS,
) -> AsyncIterator[None]:
    """
    Fail unless nothing happens in *namespace* while the block runs; the failure tells all of it.

    The block begins at a `calm`, of looks that are so far apart.

    Requests of clients whose User-Agent begins so count, accepted or not, cluster-scoped ones
    too; objects of *kinds* count whoever changes them.
    """
    before = await calm(cluster, namespace, kinds, calm_seconds)
    log = AuditLog(cluster.audit_log)
    offset = log.offset()
    yield
    after = await asyncio.to_thread(_objects, cluster, namespace, kinds)
    writes = [
        event
        for event in log.mutating(user_agent_prefix=user_agent_prefix, from_offset=offset)
        if event.object_ref.namespace in {namespace, ""}
    ]
    found = [*map(_told, writes), *changes(before, after)]
    if found:
        raise AssertionError("not quiet:\n" + "\n".join(found))


async def calm(
    cluster: Cluster,
    namespace: str,
    kinds: tuple[Kind, ...] = OURS_AND_CHILDREN,
    apart_seconds: float = CALM_SECONDS,
) -> dict[str, Manifest]:
    """
    Return the objects once others have had their last word.

    That is when two looks, so far apart, saw the same, and no Deployment has pods on their way out:
    its controller counts them, and writes, after it is Ready.
    """
    looks: list[dict[str, Manifest]] = []

    async def is_calm() -> bool:
        looks.append(await asyncio.to_thread(_objects, cluster, namespace, kinds))
        assert len(looks) > 1
        changed = changes(*looks[-2:])
        assert not changed, "\n".join(changed)
        busy = [name for name, manifest in looks[-1].items() if _is_busy(manifest)]
        assert not busy, f"pods are on their way out: {busy}"
        return True

    await eventually(is_calm, CALM_WITHIN_SECONDS, apart_seconds)
    return looks[-1]


def _is_busy(manifest: Manifest) -> bool:
    """Whether a Deployment's controller will write again, when pods are gone."""
    return bool((manifest.get("status") or {}).get("terminatingReplicas"))


def changes(before: dict[str, Manifest], after: dict[str, Manifest]) -> list[str]:
    """Return, a line each, which objects came, went, or have a new resourceVersion, and where."""
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None:
            found.append(f"  {name} appeared")
        elif new is None:
            found.append(f"  {name} vanished")
        elif (was := _version(old)) != (now := _version(new)):
            paths = [f"    {path}" for path in _differences(old, new, "")][:_PATHS_MAX]
            found.append("\n".join((f"  {name} resourceVersion {was} -> {now}", *paths)))
    return found


def _told(event: AuditEvent) -> str:
    body = json.dumps(event.body, separators=(",", ":"))
    excerpt = body if len(body) <= _BODY_CHARACTERS_MAX else body[:_BODY_CHARACTERS_MAX] + "..."
    return f"  {event}\n    {excerpt}"


def _objects(cluster: Cluster, namespace: str, kinds: tuple[Kind, ...]) -> dict[str, Manifest]:
    objects = {}
    for kind in kinds:
        try:
            items = cluster.get(kind.path(namespace if kind.namespaced else None))["items"]
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code != _NOT_FOUND:
                raise
            continue  # a kind that nobody has installed
        for item in items:
            objects[f"{kind.kind} {item['metadata']['name']}"] = item
    return objects


def _version(manifest: Manifest) -> str:
    version: str = manifest["metadata"]["resourceVersion"]
    return version


def _differences(old: object, new: object, path: str) -> Iterator[str]:
    """Yield the paths at which two objects differ, with both values; bookkeeping is left out."""
    if path in {".metadata.managedFields", ".metadata.resourceVersion"}:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(was, now, f"{path}[{number}]")
    elif old != new:
        yield f"{path}: {json.dumps(old)} -> {json.dumps(new)}"
