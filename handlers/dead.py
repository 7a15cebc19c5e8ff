"""
Dead letters: what an object's last failure was.

One is kept until its object succeeds, is edited or is driven again, and for 30 days at most.

A dead letter is told four times: in WEIR_DEAD (this file), in the resource's status and an Event
(quarantine.py) and in a metric (attempt.py).
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from bridge.events import DEAD_SUBJECT, ObjectKey
from bridge.jetstream import Bus
from bridge.streams import DEAD
from handlers.state import FailState


class DeadLetter(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why an object is in quarantine."""

    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    reason: str
    error: str
    failures: int = 0
    since: str = ""
    time: str = ""
    handler: str = ""


async def bury(bus: Bus, key: ObjectKey, state: FailState, reason: str, handler: str) -> None:
    """Write the dead letter of an object, over an older one."""
    letter = DeadLetter(
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        uid=state.uid,
        generation=state.generation,
        reason=reason,
        error=state.error,
        failures=state.failures,
        since=_text(state.since),
        time=datetime.now(UTC).isoformat(),
        handler=handler,
    )
    await bus.publish(f"{DEAD_SUBJECT}.{key.token}", msgspec.json.encode(letter))


async def exhume(bus: Bus, key: ObjectKey) -> None:
    """Remove the dead letter of an object, if there is one."""
    await bus.purge(DEAD, f"{DEAD_SUBJECT}.{key.token}")


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else ""
