"""Whether a workload serves what the spec asks for, in its present version."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from crds.kubernetes import Manifest
from handlers import silent
from handlers.conditions import Reason
from handlers.manifests import entries
from handlers.plan import replicas_owner


class Workload(Struct, frozen=True, kw_only=True):
    """A workload as it reports itself, and what it still lacks."""

    replicas: int = 0
    ready_replicas: int = 0
    is_satisfied: bool = False
    reason: Reason = Reason.CREATING
    """What it waits for, while it is not satisfied."""
    lacks: str = "does not exist yet"


def deployment(live: Manifest | None, wanted: int) -> Workload:
    """
    Judge a Deployment: the present generation, only pods of its present revision, all ready.

    Ready pods of a former revision do not count, or a rollout to an image that crashes would
    look ready.
    """
    if live is None:
        return Workload()
    return _rolled(live, wanted, "pods", is_present=is_current(live), stall=_stall(live))


def leader_worker_set(live: Manifest | None, wanted: int) -> Workload:
    """
    Judge a LeaderWorkerSet as a Deployment: what it counts are groups, ready as a whole.

    Its conditions exclude each other, so that Progressing is False of one that is well (source:
    LeaderWorkerSet, `updateConditions`).
    """
    if live is None:
        return Workload()
    judged = _rolled(live, wanted, "groups", is_present=is_reported(live), stall="")
    if silent.is_silent(live) and not is_reported(live):
        lacks = "has a status of a former version: its controller has not met the present one yet"
        return msgspec.structs.replace(judged, reason=Reason.ROLLING_OUT, lacks=lacks)
    return judged


def stateful_set(live: Manifest | None, wanted: int) -> Workload:
    """Judge a StatefulSet: the present generation and revision, all pods ready."""
    if live is None:
        return Workload()
    status = live.get("status") or {}
    ready = _count(status, "readyReplicas")
    is_one_revision = status.get("currentRevision") == status.get("updateRevision")
    return Workload(
        replicas=_count(status, "replicas"),
        ready_replicas=ready,
        is_satisfied=is_current(live) and is_one_revision and ready >= wanted,
        reason=Reason.WAITING_FOR_PODS if is_one_revision else Reason.ROLLING_OUT,
        lacks=_ready_of(ready, wanted),
    )


def is_current(live: Manifest) -> bool:
    """Say whether the workload's controller has seen its present spec."""
    seen = (live.get("status") or {}).get("observedGeneration") or 0
    return bool(seen >= ((live.get("metadata") or {}).get("generation") or 0) and seen > 0)


def is_reported(live: Manifest) -> bool:
    """
    Say whether what a workload reports is of its present spec.

    Old releases of LeaderWorkerSet report no generation; one without groups has none of before.
    """
    if not silent.is_silent(live):
        return is_current(live)
    return silent.is_present(live) or not _count(live["status"], "replicas")


def pods_due(live: Manifest) -> int:
    """
    Return how many pods a workload's controller makes without waiting for any of them.

    None until it has seen the workload as it is. Groups that start with their leaders (a policy
    that others may set) are taken for those alone.
    """
    if not is_reported(live):
        return 0
    spec = live.get("spec") or {}
    groups = spec.get("leaderWorkerTemplate") or {}
    size = 1 if spec.get("startupPolicy") == "LeaderReady" else _count(groups, "size") or 1
    return _count(spec, "replicas") * size


def _rolled(live: Manifest, wanted: int, noun: str, *, is_present: bool, stall: str) -> Workload:
    """Judge what replaces its pods, or groups of them, by and by."""
    status = live.get("status") or {}
    replicas, updated = _count(status, "replicas"), _count(status, "updatedReplicas")
    ready = _count(status, "readyReplicas")
    target = _target(live, wanted)
    is_one_revision = replicas == updated
    satisfied = is_present and (
        target == 0 or (is_one_revision and updated >= target and ready >= target)
    )
    reason, lacks = Reason.WAITING_FOR_PODS, _ready_of(ready, target, noun)
    if replicas > updated:
        reason = Reason.ROLLING_OUT
        lacks = f"has {updated} of {target} {noun} of its present version, {ready} ready in all"
        if updated > target:
            lacks = f"has {replicas} {noun}, {target} wanted, {updated} of its present version"
    if stall:
        reason = Reason.STALLED
        lacks += f"; {stall}"
    return Workload(
        replicas=replicas,
        ready_replicas=ready,
        is_satisfied=satisfied,
        reason=reason,
        lacks=lacks,
    )


def _ready_of(ready: int, wanted: int, noun: str = "pods") -> str:
    if ready > wanted:
        return f"has {ready} {noun} ready, {wanted} wanted"
    return f"has {ready} of {wanted} {noun} ready"


def _target(live: Manifest, wanted: int) -> int:
    """Return how many pods there should be: an autoscaler's number where one sets it."""
    if replicas_owner(live) is None:
        return wanted
    return _count(live.get("spec") or {}, "replicas")


def _stall(live: Manifest) -> str:
    """Return why a Deployment gets no further by waiting; empty while it may."""
    said = {
        (condition.get("type"), condition.get("status")): condition
        for condition in entries(live.get("status") or {}, "conditions")
    }
    if (failure := said.get(("ReplicaFailure", "True"))) is not None:
        return f"its pods cannot be made: {failure.get('message') or failure.get('reason')}"
    if ("Progressing", "False") in said:
        return "it made no progress within its deadline, look at its pods"
    return ""


def _count(holder: Manifest, field: str) -> int:
    value = holder.get(field)
    return value if isinstance(value, int) else 0
