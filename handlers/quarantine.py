"""Say in a resource's status, and in an Event, that it is in quarantine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bridge.kube_errors import KubeError
from bridge.telemetry import logger
from handlers.children import World
from handlers.conditions import DEGRADED, READY, Judgement, Reason, with_condition
from handlers.errors import ReconcileError
from handlers.lookout import Lookout
from handlers.reconcile import now_text, read_resource, write_status

if TYPE_CHECKING:
    from bridge.events import ObjectKey
    from handlers.handler import AnyHandler
    from handlers.state import FailState
    from handlers.writes import Writes

log = logger(__name__)


async def say_quarantined(
    handler: AnyHandler, key: ObjectKey, state: FailState, writer: Writes, world: World
) -> None:
    """Write the conditions; a resource that cannot be written is told of by its dead letter."""
    try:
        resource = await read_resource(handler, key, world.kube)
        if resource is None:
            return
        Lookout(world.settings, datetime.now(UTC)).require_silence(resource)
        message = (
            f"given up after {state.failures} failures: {state.error}; mend the cause, then run "
            f"`weir dead retry {key.kind} {key.namespace}/{key.name}`"
        )
        status = resource.get("status") or {}
        for type_, value in ((READY, False), (DEGRADED, True)):
            status = with_condition(
                status,
                Judgement(type=type_, status=value, reason=Reason.QUARANTINED, message=message),
                generation=resource["metadata"].get("generation"),
                now=now_text(),
            )
        await write_status(handler, resource, status, writer, world)
    except (KubeError, ReconcileError) as exc:
        log.warning("quarantine not said in the status", action="quarantine", error=str(exc))
