"""
The brake: while it is on, no child is created, changed or deleted.

On one resource it is an annotation, on everything a ConfigMap in Weir's own namespace, so that it
outlives every process of ours. A paused resource is still looked at: its status says what waits,
and goes on to say how its children do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from bridge.kube import Kube
from bridge.kube_errors import KubeError
from bridge.settings import Settings
from bridge.telemetry import METRICS, logger
from crds.kind import Kind
from crds.kubernetes import CONFIG_MAP, Manifest
from handlers import plan
from handlers.conditions import (
    PROGRESSING,
    READY,
    Judgement,
    Reason,
    is_ready,
    with_condition,
)

if TYPE_CHECKING:
    from handlers.writes import Writes

ANNOTATION = "weir.dev/paused"
CONFIG_MAP_NAME = "weir-pause"
NOTHING_WAITS = "nothing waits"
NAMED_MAX = 5
"""So many of the writes that wait are named in a status."""

log = logger(__name__)


def is_paused(resource: Manifest) -> bool:
    """Return whether the annotation on a resource says that it is paused."""
    return plan.annotation(resource, ANNOTATION).lower() == "true"


def words(everything: str, waiting: list[str]) -> str:
    """
    Return what a condition says of a pause, the same for the same writes that wait.

    `everything` is why all are paused; empty where only this one is.
    """
    why = everything or f"the annotation {ANNOTATION} says so"
    go_on = "`weir resume --all`" if everything else "remove it, or run `weir resume`"
    if not waiting:
        return f"paused: {why}; {NOTHING_WAITS}; to go on: {go_on}"
    named = ", ".join(waiting[:NAMED_MAX])
    more = f" and {len(waiting) - NAMED_MAX} more" if len(waiting) > NAMED_MAX else ""
    return f"paused: {why}; what waits: {named}{more}; to go on: {go_on}"


def paused_status(
    status: Manifest, resource: Manifest, everything: str, waiting: list[str], now: str
) -> Manifest:
    """
    Return the status of a paused resource.

    It tells how the children do. While something waits the services are those of the last status,
    and so is the generation: there stale children are looked for when it goes on.
    """
    if not waiting and not is_paused(resource):
        return status
    before = resource.get("status") or {}
    base = _of_before(status, before) if waiting else status
    # Judged as a pause once more, and not as an end of what would be under way without it.
    held = {c["type"]: c for c in before.get("conditions") or () if c.get("type") == PROGRESSING}
    base = {**base, "conditions": [held.get(c["type"], c) for c in base.get("conditions") or ()]}
    judged = Judgement(
        type=PROGRESSING,
        status=False,
        reason=Reason.PAUSED,
        message=words("" if is_paused(resource) else everything, waiting),
    )
    generation = resource["metadata"].get("generation")
    base = with_condition(base, judged, generation=generation, now=now)
    if waiting and plan.was_edited(resource) and is_ready(base):
        # What serves is not what is asked for: a pipeline that waits for Ready must not go on.
        unready = msgspec.structs.replace(judged, type=READY)
        base = with_condition(base, unready, generation=generation, now=now)
    return base


def _of_before(status: Manifest, before: Manifest) -> Manifest:
    """Return the status with the services, gateway and generation of the one before."""
    now = status.get("services") or {}
    kept = {name: now.get(name, held) for name, held in (before.get("services") or {}).items()}
    of_before = {
        "services": kept,
        "gaie": before.get("gaie") and (status.get("gaie") or before["gaie"]),
        "observedGeneration": before.get("observedGeneration"),
    }
    rest = {name: value for name, value in status.items() if name not in of_before}
    return {**rest, **{name: value for name, value in of_before.items() if value}}


class Brake:
    """Whether everything is paused, as of the last look."""

    def __init__(self, kube: Kube, settings: Settings) -> None:
        """Take where to look; nothing is known yet, so nothing may be written yet."""
        self._kube = kube
        self._settings = settings
        self._why = ""
        self.trouble: str | None = "not looked at yet"
        """Why it is not known; None once it is."""

    @property
    def why(self) -> str:
        """In the words of whoever paused; empty while nobody did."""
        return self._why

    async def look(self) -> None:
        """Know it as it is now; where that cannot be read, what was known holds."""
        try:
            data = await self._kube.get(CONFIG_MAP, self._settings.own_namespace, CONFIG_MAP_NAME)
        except KubeError as exc:
            if self.trouble != (text := str(exc)):
                log.warning("cannot read whether all is paused", action="pause", error=text)
            if self.trouble is not None:
                self.trouble = text
            return
        self.trouble = None
        before, self._why = self._why, _why(data)
        if bool(before) != bool(self._why):
            log.warning("paused" if self._why else "resumed", action="pause", why=self._why)
        METRICS.gauge("weir_paused", int(bool(self._why)))

    async def known(self) -> None:
        """Return once it is known."""
        await self.look()
        while self.trouble is not None:
            await asyncio.sleep(min(1.0, self._settings.pause_check_seconds))
            await self.look()

    async def keep_looking(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(self._settings.pause_check_seconds)
            await self.look()


def _why(data: bytes | None) -> str:
    if data is None:
        return ""
    said = msgspec.json.decode(data).get("data") or {}
    reason = str(said.get("reason") or "no reason given")
    since = str(said.get("since") or "")
    return f"`weir pause --all`{f' since {since}' if since else ''} ({reason})"


class PausedWrites:
    """Notes what a reconcile would write to children; its status and Events are written."""

    def __init__(self, writer: Writes) -> None:
        """Take what writes the status."""
        self._writer = writer
        self.waiting: list[str] = []
        """`verb kind/name` of what waits, in order."""

    @property
    def written(self) -> list[str]:
        """`verb kind/name` of what was done, in order."""
        return self._writer.written

    @property
    def was_slow(self) -> bool:
        """Whether the server was too slow for a call, or asked for fewer."""
        return self._writer.was_slow

    @property
    def is_fencing(self) -> bool:
        """Never: fencing is a write, and waits like all others."""
        return False

    @property
    def has_started(self) -> bool:
        """Whether a mutating call was about to be made."""
        return self._writer.has_started

    async def create(self, kind: Kind, namespace: str, manifest: Manifest) -> Manifest:
        """Note it; return the object as it would be asked for."""
        del namespace
        return self._noted("create", kind, manifest)

    async def apply(self, kind: Kind, live: Manifest, manifest: Manifest) -> Manifest:
        """Note it; return the object as it is."""
        del manifest
        return self._noted("apply", kind, live)

    async def take_fields(
        self, kind: Kind, live: Manifest, entries: list[dict[str, Any]], *, forgets: bool = False
    ) -> Manifest:
        """Return the object as it is; the apply that follows is noted."""
        del kind, entries, forgets
        return live

    async def tried(
        self, kind: Kind, live: Manifest, manifest: Manifest, entries: list[dict[str, Any]]
    ) -> Manifest:
        """Return the object as it is: what would come of it is asked when it is done."""
        del kind, manifest, entries
        return live

    async def fence(self, kind: Kind, live: Manifest) -> Manifest:
        """Return the object as it is."""
        del kind
        return live

    async def delete(self, kind: Kind, live: Manifest) -> None:
        """Note it."""
        self._noted("delete", kind, live)

    async def put_status(self, kind: Kind, resource: Manifest, status: Manifest) -> Manifest:
        """Replace the status of that state of a resource of ours."""
        return await self._writer.put_status(kind, resource, status)

    async def post_event(self, namespace: str, manifest: Manifest) -> None:
        """Create a Kubernetes Event."""
        await self._writer.post_event(namespace, manifest)

    def _noted(self, verb: str, kind: Kind, manifest: Manifest) -> Manifest:
        what = f"{verb} {kind.kind}/{manifest['metadata']['name']}"
        if what not in self.waiting:
            self.waiting.append(what)
        return manifest
