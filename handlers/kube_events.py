"""Kubernetes Events: one per transition of a condition; `kubectl describe` tells a story."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bridge.kube_errors import AlreadyExists, KubeError
from bridge.telemetry import logger

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.conditions import Transition
    from handlers.writes import Writes

MESSAGE_LENGTH_MAX = 1024
"""Source: Kubernetes core/v1 Event validation."""

log = logger(__name__)


def event_manifest(
    resource: Manifest,
    change: Transition,
    identity: str,
    now: str,
    *,
    once: bool = False,
    episode: str = "",
) -> Manifest:
    """
    Return the Event of one transition: the same for the same state of the resource.

    With `once` it is the same for the whole generation, with an `episode` for all of that.
    """
    metadata = resource["metadata"]
    state = episode or (metadata.get("generation") if once else metadata["resourceVersion"])
    said = f"{metadata['uid']} {state} {change.type} {change.status} {change.reason}"
    name = hashlib.blake2b(said.encode(), digest_size=8).hexdigest()
    namespace = metadata.get("namespace") or "default"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name'][:200]}.{name}", "namespace": namespace},
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
    writer: Writes,
    resource: Manifest,
    changes: list[Transition],
    identity: str,
    now: str,
    *,
    once: bool = False,
    episode: str = "",
) -> bool:
    """
    Post an Event per transition, unless it was posted; return whether all of them are there.

    One that is refused is only logged.
    """
    are_there = True
    namespace = resource["metadata"].get("namespace") or "default"
    for change in changes:
        manifest = event_manifest(resource, change, identity, now, once=once, episode=episode)
        try:
            await writer.post_event(namespace, manifest)
        except AlreadyExists:
            continue
        except KubeError as exc:
            log.debug("event not posted", action="event", reason=change.reason, error=str(exc))
            are_there = False
    return are_there
