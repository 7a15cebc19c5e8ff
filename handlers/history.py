"""
Outcomes as CloudEvents in WEIR_HISTORY: what was tried and done, by whom, why, how long it took.

`started` goes out before the first mutating call, `finished` at the end; neither is awaited, so
history costs a reconcile nothing, and a reconcile that changed nothing leaves none.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from bridge.events import HISTORY_SUBJECT, ChangeEvent, ObjectKey
from bridge.jetstream import Bus
from handlers.handler import Noted

STARTED = "dev.weir.reconcile.started"
FINISHED = "dev.weir.reconcile.finished"


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The data of a history event."""

    kind: str
    namespace: str
    name: str
    attempt: str
    """Shared by the `started` and the `finished` of one reconcile."""
    handler: str
    event: str = ""
    """Id of the event that was handled."""
    cause: str = ""
    """Its type."""
    uid: str = ""
    generation: int = 0
    renderer: int = 0
    result: str = ""
    reason: str = ""
    error: str = ""
    writes: tuple[str, ...] = ()
    """`verb kind/name`, in order."""
    seconds: float = 0.0
    foretold: tuple[Noted, ...] = ()
    """In a dry run: what would become of the children. `writes` is then what would be written."""


class History:
    """Writes the outcomes of one process."""

    def __init__(self, bus: Bus, identity: str) -> None:
        """Take the connection and the name of this process."""
        self._bus = bus
        self.identity = identity

    def record(self, event: ChangeEvent, renderer: int) -> Record:
        """Return a record that says what is known before the first call."""
        key = event.key
        return Record(
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            attempt=uuid.uuid4().hex,
            handler=self.identity,
            event=event.id,
            cause=event.type.value,
            renderer=renderer,
        )

    async def tell(self, key: ObjectKey, type_: str, record: Record) -> None:
        """Send a record on its way."""
        headers = {
            "ce-specversion": "1.0",
            "ce-id": uuid.uuid4().hex,
            "ce-type": type_,
            "ce-source": f"weir/handlers/{self.identity}",
            "ce-subject": key.token,
            "ce-time": now_text(),
            "ce-datacontenttype": "application/json",
        }
        subject = f"{HISTORY_SUBJECT}.{key.token}"
        await self._bus.tell(subject, msgspec.json.encode(record), headers)


def now_text() -> str:
    """Return the time as RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
