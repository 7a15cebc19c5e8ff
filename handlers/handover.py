"""
When a workload changes its kind: the former one serves until the new one does.

The successor is made like any child; here is decided whether the former one may go. It may once
the successor serves, or does not find its place: on a full fleet both would wait for each other for
ever. Pods are not watched, so a look at them comes by time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from handlers import plan
from handlers.conditions import moment
from handlers.handler import ChildName, Short
from handlers.manifests import entries
from handlers.pod_reads import PODS_MAX, read_pods
from handlers.pods import is_gated, lacks_room
from handlers.stays import Stay

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.apply import Child, Making
    from handlers.handler import AnyHandler, Rendering

OUT_OF_QUOTA = "exceeded quota"
"""Words of the API server for a pod that a ResourceQuota keeps from being made."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long a successor may lack pods before the former workload goes all the same."""

    seconds: float
    short: tuple[Short, ...] = ()
    """What the last look found of them."""
    now: float
    """Unix time."""

    def since(self, former: ChildName) -> float:
        """Return since when every look found the successor to lack pods, if this one does too."""
        return next((one.since for one in self.short if one.workload == former), self.now)


async def open_handovers(
    making: Making,
    handler: AnyHandler,
    typed: Any,
    rendering: Rendering,
    children: Iterable[Child],
    candidates: Iterable[ChildName],
    patience: Patience,
) -> tuple[Stay, ...]:
    """Return the candidates that must not go yet; nothing is written."""
    made = {child.name: child for child in children}
    successors = {
        former: made[rendering.succeeds[former]]
        for former in plan.stale(made, making.reads.possible(candidates))
        if rendering.succeeds.get(former) in made
    }
    lives = await making.read_all([*successors])
    found = []
    for former, successor in successors.items():
        live = lives[former]
        if live is None or not plan.is_ours(live, making.owner, making.contract):
            continue  # there is nothing of ours that could serve
        stay = await _awaiting(making, handler, typed, former, successor, patience)
        if stay is not None:
            found.append(stay)
    return tuple(found)


async def _awaiting(
    making: Making,
    handler: AnyHandler,
    typed: Any,
    former: ChildName,
    successor: Child,
    patience: Patience,
) -> Stay | None:
    """Return what a workload waits for that serves; None where it may go."""
    if successor.live is None:
        return _blocked(former, successor.name)
    if handler.serves(typed, successor.name, successor.live):
        return None
    pods = await _pods(making, handler, typed, successor.name, successor.live)
    if is_out_of_quota(successor.live) or any(map(lacks_room, pods)):
        return None
    if not is_short_of(pods, handler.pods_due(successor.live)):
        return _waiting(former, successor.name)
    since = patience.since(former)
    if any(was_made_since(pod, since) for pod in pods):
        since = patience.now
    if patience.now - since >= patience.seconds:
        return None
    bound = (
        f"; pods of the successor are lacking or gated, by a quota perhaps: if that lasts "
        f"{patience.seconds:g} s, it goes"
    )
    return _waiting(former, successor.name, since, bound)


async def _pods(
    making: Making, handler: AnyHandler, typed: Any, name: ChildName, workload: Manifest
) -> list[Manifest]:
    pods = await read_pods(making.kube, making.namespace, handler.pods_of(typed, name))
    return [pod for pod in pods if is_pod_of(pod, workload)]


def is_short_of(pods: Iterable[Manifest], due: int) -> bool:
    """
    Return whether pods are lacking, or wait for a gate to be lifted.

    One on its way out counts: its controller makes the next one when it is gone.
    """
    return sum(not is_gated(pod) for pod in pods) < min(due, PODS_MAX)


def was_made_since(pod: Manifest, since: float) -> bool:
    """
    Return whether a controller made a pod, or ended one, since then: nothing keeps it from that.

    So it does with pods that crash, again and again; between two of them there is none.
    """
    if plan.is_being_deleted(pod):
        return True
    created = moment(pod["metadata"].get("creationTimestamp"))
    return not is_gated(pod) and created is not None and created.timestamp() > since


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


def _blocked(former: ChildName, successor: ChildName) -> Stay:
    return Stay(
        child=former,
        why=f"goes on serving: its successor, {' '.join(successor)}, could not be made yet",
        is_blocked=True,
    )


def _waiting(
    former: ChildName, successor: ChildName, short_since: float = 0.0, bound: str = ""
) -> Stay:
    why = (
        f"goes on serving until its successor, {' '.join(successor)}, is ready, or one of the "
        f"successor's pods lacks room{bound}"
    )
    return Stay(child=former, why=why, short_since=short_since)
