"""
When a workload changes its kind: the former one serves until the new one does.

The successor is made like any child; here is decided whether its predecessor may go. It may once
the successor serves, or a pod of the successor lacks room: on a full fleet both would wait for each
other for ever. A pod that no node would take if all were empty takes nothing away. Pods are not
watched, so a look at them comes by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from crds.kubernetes import POD
from handlers import plan
from handlers.conditions import Reason
from handlers.handler import ChildName, Notice
from handlers.manifests import entries
from handlers.plan import Standing
from handlers.pods import lacks_room

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.apply import Child, Making
    from handlers.handler import AnyHandler

PODS_MAX = 500
"""Pods of one successor that are asked for; one that lacks room is enough."""
OUT_OF_QUOTA = "exceeded quota"
"""Words of the API server for a pod that a ResourceQuota keeps from being made."""


class Handover(Struct, frozen=True, kw_only=True):
    """A workload that is no longer wanted and yet stays, and whom it waits for."""

    predecessor: ChildName
    successor: ChildName
    is_blocked: bool
    """The successor could not be made, so the predecessor is all there is."""


async def open_handovers(
    making: Making,
    handler: AnyHandler,
    typed: Any,
    succeeds: Mapping[ChildName, ChildName],
    children: Iterable[Child],
    candidates: Iterable[ChildName],
) -> tuple[Handover, ...]:
    """Return the candidates that must not go yet; nothing is written."""
    made = {child.name: child for child in children}
    successors = {
        name: made[succeeds[name]]
        for name in plan.stale(made, making.reads.possible(candidates))
        if succeeds.get(name) in made
    }
    lives = await making.read_all([*successors])
    found = []
    for name, successor in successors.items():
        live = lives[name]
        if live is None or plan.is_being_deleted(live):
            continue  # there is nothing that could serve
        if plan.standing(live, making.owner, making.contract) is not Standing.OURS:
            continue
        if successor.live is not None and handler.serves(typed, successor.name, successor.live):
            continue
        is_blocked = successor.problem is not None
        if is_blocked or not await _lacks_its_place(making, handler, typed, successor):
            found.append(
                Handover(predecessor=name, successor=successor.name, is_blocked=is_blocked)
            )
    return tuple(found)


async def _lacks_its_place(
    making: Making, handler: AnyHandler, typed: Any, successor: Child
) -> bool:
    """Return whether a pod of the successor lacks room, or may not be made for a quota."""
    if successor.live is None:
        return False
    if is_out_of_quota(successor.live):
        return True
    data = await making.kube.list_objects(
        POD,
        making.namespace,
        label_selector=handler.pods_of(typed, successor.name),
        limit=PODS_MAX,
    )
    pods = msgspec.json.decode(data).get("items") or ()
    return any(lacks_room(pod) and is_pod_of(pod, successor.live) for pod in pods)


def is_pod_of(pod: Manifest, workload: Manifest) -> bool:
    """Return whether a pod is no older than its workload: not of one that had its name before."""
    created, since = (one["metadata"].get("creationTimestamp") or "" for one in (pod, workload))
    return bool(since) and created >= since


def is_out_of_quota(workload: Manifest) -> bool:
    """Return whether its controller says that a quota keeps it from making pods."""
    return any(
        condition.get("type") == "ReplicaFailure"
        and condition.get("status") == "True"
        and OUT_OF_QUOTA in str(condition.get("message"))
        for condition in entries(workload.get("status") or {}, "conditions")
    )


def notices_of(handovers: Iterable[Handover]) -> tuple[Notice, ...]:
    """Return what the status says of workloads that wait for their successors."""
    return tuple(
        Notice(reason=Reason.HANDING_OVER, message=waits_for(handover), degraded=False)
        for handover in handovers
    )


def waits_for(handover: Handover) -> str:
    """Return which workload stays, and until when."""
    predecessor, successor = " ".join(handover.predecessor), " ".join(handover.successor)
    if handover.is_blocked:
        return f"{predecessor} goes on serving: its successor, {successor}, could not be made yet"
    return (
        f"{predecessor} goes on serving until its successor, {successor}, is ready, or one of the "
        f"successor's pods lacks room"
    )
