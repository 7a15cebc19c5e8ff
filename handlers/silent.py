"""
Controllers that never say which generation of a workload they have seen.

Older releases of LeaderWorkerSet report no `observedGeneration`: right after an edit the status is
that of the pods of before, and looks like that of the present ones. So a workload that is applied
remembers what its status was then, and of which rendering and pod template it spoke; until either
its status is another or it is as it was then, its status is not believed. No clock is asked: a
status may be as old as it likes where nothing changed since, as after a take-over.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from crds.kubernetes import Manifest
from handlers import plan
from handlers.manifests import entries

SPOKE_OF = "weir.dev/status-spoke-of"
"""Annotation: hashes of rendering, pod template and status, as they were before the last apply."""


def is_silent(live: Manifest) -> bool:
    """Return whether a status says something, and not of which generation."""
    status = live.get("status") or {}
    return "observedGeneration" not in status and bool(entries(status, "conditions"))


def is_present(live: Manifest) -> bool:
    """Return whether a silent status speaks of the workload as it is now."""
    rendering, _, rest = plan.annotation(live, SPOKE_OF).partition(".")
    template, _, status = rest.partition(".")
    return (
        not status  # never applied over a status: it was made so
        or rendering == plan.annotation(live, plan.APPLIED)
        or template == _hash(plan.pod_template(live))
        or status != _hash(live.get("status"))
    )


def remembered(live: Manifest) -> dict[str, str]:
    """Return the annotations with which a workload is applied: empty where its status is clear."""
    if not is_silent(live):
        return {}
    if not is_present(live):
        return {SPOKE_OF: plan.annotation(live, SPOKE_OF)}
    parts = (
        plan.annotation(live, plan.APPLIED),
        _hash(plan.pod_template(live)),
        _hash(live["status"]),
    )
    return {SPOKE_OF: ".".join(parts)}


def _hash(value: Any) -> str:
    text = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2b(text, digest_size=5).hexdigest()
