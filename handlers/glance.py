"""
A glance at the children: only those are read whose status the resource's is made of.

While a workload rolls out its status changes many times, and a birth brings an event of every child
that it made. What the last full look found of the other children holds until an event of another
type, an edit or a resync says otherwise; where anything is not as that look left it, a full one
follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.events import ChangeEvent, EventType
from handlers import plan
from handlers.apply import Child, Making
from handlers.conditions import DEGRADED, PROGRESSING, Reason
from handlers.handler import ChildName
from handlers.plan import Standing
from handlers.state import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from crds.kubernetes import Manifest
    from handlers.handler import Rendering
    from handlers.state import FailState

ENOUGH_FOR = (EventType.OBSERVED, EventType.TIMER)
"""Events that say nothing of children but how those do that a glance reads."""


async def glance(
    event: ChangeEvent, rendering: Rendering, state: FailState, making: Making
) -> list[Child] | None:
    """
    Return the children, those that were not read with their rendering for what lives.

    None where a glance is not enough: nothing was written, and a full look is due.
    """
    if making.kube.is_dry or making.writer.is_fencing or state != EMPTY:
        return None
    if not may_suffice(event, rendering, making.owner):
        return None
    judged = {child.kind.kind for child in making.contract.owns if child.status_fields}
    names = [plan.child_name(manifest) for manifest in rendering.children]
    read = [name for name in names if name.kind in judged]
    lives = await making.read_all(read)
    making.lookout.look(*lives.values())
    children = []
    for name, manifest in zip(names, rendering.children, strict=True):
        live = lives.get(name) if name in lives else manifest
        if live is None or (name in lives and not _is_as_rendered(manifest, live, making)):
            return None
        children.append(Child(name=name, live=live, ignored=plan.ignored_fields(live)))
    return children


def may_suffice(event: ChangeEvent, rendering: Rendering, owner: Manifest) -> bool:
    """Return whether everything was as asked for when the resource was last looked at."""
    status = owner.get("status") or {}
    judged = {c.get("type"): c for c in status.get("conditions") or () if isinstance(c, dict)}
    wanted = {plan.child_name(manifest) for manifest in rendering.children} | set(rendering.keep)
    return (
        event.type in ENOUGH_FOR
        and status.get("observedGeneration") == owner["metadata"].get("generation")
        and _reason(judged, DEGRADED) == Reason.AS_ASKED
        and _reason(judged, PROGRESSING) != Reason.PAUSED
        # What is not asked for has to go.
        and all(ChildName(hint.kind, hint.name) in wanted for hint in event.children)
    )


def _reason(judged: Mapping[Any, Mapping[str, Any]], type_: str) -> object:
    return judged.get(type_, {}).get("reason")


def _is_as_rendered(manifest: Manifest, live: Manifest, making: Making) -> bool:
    """Return whether a full look would leave the child as it is, whoever wrote it."""
    return (
        not plan.is_being_deleted(live)
        and plan.standing(live, making.owner, making.contract) is Standing.OURS
        and plan.renderer_of(live) <= making.renderer
        and plan.matches(manifest, live)
    )
