"""
What pods run on goes after them: a broker, and what the API server lets them do.

An edit that takes it away also gives the workloads other pods, and that takes its time: pods of
before serve until then, and for a while after they were told to end. So it stays until every
workload is as rendered and serves, and no pod of before is left. A workload that never comes to
serve keeps it for ever; the status says so, and which one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from handlers import plan
from handlers.pod_reads import read_pods
from handlers.pods import has_ended
from handlers.stays import Stay, enumerated

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.apply import Child, Making
    from handlers.handler import AnyHandler, ChildName, Rendering


async def still_needed(
    making: Making,
    handler: AnyHandler,
    typed: Any,
    rendering: Rendering,
    children: Iterable[Child],
    candidates: Iterable[ChildName],
) -> tuple[Stay, ...]:
    """Return the candidates that pods may still run on, so that they must not go yet."""
    rendered = {plan.child_name(manifest): manifest for manifest in rendering.children}
    stale = plan.stale(rendered, making.reads.possible(candidates))
    lives = await making.read_all([name for name in stale if name in rendering.underlying])
    ours = [
        name
        for name, live in lives.items()
        if live is not None and plan.is_ours(live, making.owner, making.contract)
    ]
    if not ours:
        return ()
    moving = [
        child
        for child in children
        if plan.pod_template(rendered[child.name]) is not None
        and child.name not in rendering.underlying
        and not _has_moved(making, handler, typed, rendered[child.name], child)
    ]
    if moving:
        names = enumerated(" ".join(child.name) for child in moving)
        why = (
            f"kept for pods of before until these are ready as asked (Ready says what they lack): "
            f"{names}"
        )
    elif leaving := await _leaving(making, handler, typed, rendering):
        why = f"kept for pods of before until these have ended: {enumerated(leaving)}"
    else:
        return ()
    is_blocked = any(child.problem is not None for child in moving)
    return tuple(Stay(child=name, why=why, is_blocked=is_blocked) for name in ours)


def _has_moved(
    making: Making, handler: AnyHandler, typed: Any, manifest: Manifest, child: Child
) -> bool:
    """Return whether a workload has no pods any more but those that are asked for now."""
    if child.live is None:
        return bool((manifest.get("spec") or {}).get("replicas") == 0)
    # One whose update was refused, or waits, serves as it was asked to before.
    is_as_rendered = plan.matches(making.fitted(manifest, child.live), child.live)
    return is_as_rendered and bool(handler.serves(typed, child.name, child.live))


async def _leaving(
    making: Making, handler: AnyHandler, typed: Any, rendering: Rendering
) -> list[str]:
    """Return the pods that are on their way out, or of a workload that is not asked for."""
    selector = handler.pod_selector(typed)
    # All of them: the one that ends may be the last.
    pods = await read_pods(making.kube, making.namespace, selector, limit=None)
    asked = {plan.child_name(manifest) for manifest in rendering.children}
    found = []
    for pod in pods:
        workload = handler.workload_of(typed, pod)
        if workload is None or workload in rendering.underlying or has_ended(pod):
            continue
        if plan.is_being_deleted(pod) or workload not in asked:
            found.append(str(pod["metadata"]["name"]))
    return found
