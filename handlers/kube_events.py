"""Kubernetes Events: one per transition of a condition; `kubectl describe` tells a story."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

from bridge.kube import KubeError
from bridge.telemetry import logger

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.conditions import Transition
    from handlers.writes import Writer

MESSAGE_LENGTH_MAX = 1024
"""Source: Kubernetes core/v1 Event validation."""

log = logger(__name__)


def event_manifest(resource: Manifest, change: Transition, identity: str, now: str) -> Manifest:
    """Return the Event of one transition."""
    metadata = resource["metadata"]
    namespace = metadata.get("namespace") or "default"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name'][:200]}.{uuid.uuid4().hex[:16]}"}
        | {"namespace": namespace},
        "involvedObject": {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace"),
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "type": "Warning" if change.warning else "Normal",
        "reason": change.reason,
        "message": change.message[:MESSAGE_LENGTH_MAX],
        "source": {"component": "weir"},
        "reportingComponent": "weir.dev/handlers",
        "reportingInstance": identity[:128],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


async def post_events(
    writer: Writer,
    resource: Manifest,
    changes: list[Transition],
    identity: str,
    now: str,
    *,
    once: bool = False,
) -> None:
    """
    Post an Event per transition; one that cannot be posted is only logged.

    With `once` a second Event of a generation and a reason is not made: its name is taken.
    """
    namespace = resource["metadata"].get("namespace") or "default"
    for change in changes:
        manifest = event_manifest(resource, change, identity, now)
        if once:
            manifest["metadata"]["name"] = _name_of_generation(resource, change)
        try:
            await writer.post_event(namespace, manifest)
        except KubeError as exc:
            log.debug("event not posted", action="event", reason=change.reason, error=str(exc))


def _name_of_generation(resource: Manifest, change: Transition) -> str:
    metadata = resource["metadata"]
    said = f"{metadata['uid']} {metadata.get('generation')} {change.type} {change.reason}"
    return f"{metadata['name'][:200]}.{hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"
