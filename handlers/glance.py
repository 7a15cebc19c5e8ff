"""
A glance: a look at a resource by its workloads alone.

Most events of children say that one appeared (a birth makes seven) or that a workload changed.
Neither makes any other child differ from its rendering: what does is an event of another type. So
where the last full look left everything as asked for, the workloads are read, and the rest is taken
to be as rendered. Anything else takes a full look (apply.py, prune.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.events import ChangeEvent
from handlers import plan
from handlers.apply import Child, Making
from handlers.conditions import DEGRADED, PROGRESSING, Reason
from handlers.handler import ChildName
from handlers.reads import GLANCED_AT
from handlers.state import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from crds.kubernetes import Manifest
    from handlers.handler import Rendering
    from handlers.state import FailState


async def glance(
    event: ChangeEvent, rendering: Rendering, state: FailState, making: Making
) -> list[Child] | None:
    """
    Return the children as they stand, None where it takes a full look; nothing was written.

    A workload stands as it was read, any other child as it is rendered. Raises OtherOperator where
    another operator still writes a workload.
    """
    # A dry run tells of every child; after a death or a failure every child has to be met.
    if making.kube.is_dry or making.writer.is_fencing or state != EMPTY:
        return None
    if not may_suffice(event, rendering, making.owner):
        return None
    rendered = {plan.child_name(manifest): manifest for manifest in rendering.children}
    workloads = {kind.kind for kind in making.contract.workloads}
    lives = await making.read_all([name for name in rendered if name.kind in workloads])
    making.lookout.require_silence(*lives.values(), owner=making.owner)
    if not all(_is_as_rendered(rendered[name], live, making) for name, live in lives.items()):
        return None
    stand = {**rendered, **lives}
    return [
        Child(name=name, live=live, ignored=plan.ignored_fields(live or {}))
        for name, live in stand.items()
    ]


def may_suffice(event: ChangeEvent, rendering: Rendering, owner: Manifest) -> bool:
    """
    Return whether the event says no more than a glance sees.

    That is of a resource that was as asked for when it was last looked at.
    """
    status = owner.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or () if isinstance(c, dict)}
    wanted = {plan.child_name(manifest) for manifest in rendering.children} | set(rendering.keep)
    return (
        event.type in GLANCED_AT
        and status.get("observedGeneration") == owner["metadata"].get("generation")
        and _reason(conditions, DEGRADED) == Reason.AS_ASKED
        # Another operator writes the status' own generation, too; that of a condition is ours.
        and conditions[DEGRADED].get("observedGeneration") == owner["metadata"].get("generation")
        and _reason(conditions, PROGRESSING) != Reason.PAUSED
        # What is not asked for has to go.
        and all(ChildName(hint.kind, hint.name) in wanted for hint in event.children)
    )


def _reason(conditions: Mapping[Any, Mapping[str, Any]], type_: str) -> object:
    return conditions.get(type_, {}).get("reason")


def _is_as_rendered(manifest: Manifest, live: Manifest | None, making: Making) -> bool:
    """Return whether a full look would leave the child as it is, whoever wrote it."""
    return (
        live is not None
        and plan.is_ours(live, making.owner, making.contract)
        and plan.renderer_of(live) <= making.renderer
        and plan.matches(making.fitted(manifest, live), live)
    )
