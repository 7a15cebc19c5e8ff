"""
Whether another operator, whose work becomes ours, still writes: what `managedFields` tells.

Pure: the time arrives as an argument. The times are of the API server's clock, to the second, and
move only where a write changes something: who runs and finds all as it wants it is not seen. Nor is
a write through `scale`, of which that server notes no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from bridge.settings import Settings
from crds.kubernetes import Manifest
from handlers.conditions import moment
from handlers.errors import OtherOperator
from handlers.fields import entries_of

OTHER_OPERATORS = ("infera-operator", "cgn-operator")
"""Field managers of the operators that we take over from."""
NAMELESS = "manager"
"""
What AMD's operator is called where its own image runs it; programs of others are called so, too.

An API server takes the program's name for who names none (source: controller-runtime, which names
none; AMD-AGI/Infera, `deploy/operator/Dockerfile`, whose program is `/manager`).
"""
OTHER_OPERATOR = "OtherOperator"
"""Reason of the Event and in the history; of no condition, since no status is written."""
STOP = "kubectl scale deployment NAME -n NAMESPACE --replicas=0"
"""How an operator is stopped; what it is called, and where it runs, is its install's choice."""


class OthersWrite(Struct, frozen=True, kw_only=True, rename="camel"):
    """The last write of another operator to an object."""

    manager: str
    object: str
    """As a sentence has it: its kind and name, and what of it, if that is a subresource."""
    time: datetime

    def __str__(self) -> str:
        return (
            f"{self.manager} wrote {self.object} at {self.time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        )


def was_served_by_another(owner: Manifest) -> bool:
    """
    Return whether another operator wrote a resource's status since we took that over.

    What it owns of the status is taken from it by the first look that ends (reconcile.py).
    """
    return without_others_status(owner) is not None


def without_others_status(owner: Manifest) -> list[dict[str, Any]] | None:
    """
    Return a resource's `managedFields` without what other operators own of its status.

    None where they own nothing of it.
    """
    entries = entries_of(owner)
    rest = [
        entry
        for entry in entries
        if entry.get("subresource") != "status"
        or entry.get("manager") not in (*OTHER_OPERATORS, NAMELESS)
    ]
    return rest if len(rest) < len(entries) else None


def other_operators(live: Manifest, owner: Manifest) -> tuple[str, ...]:
    """
    Return the field managers whose fields of a child are another operator's.

    What is called as anybody may be is that operator where it made the child, or has written the
    status of the child's resource.
    """
    is_it = _made(live, NAMELESS) or any(map(_is_status_of_nameless, entries_of(owner)))
    return (*OTHER_OPERATORS, NAMELESS) if is_it else OTHER_OPERATORS


def _made(live: Manifest, manager: str) -> bool:
    """Return whether the reference to the child's controller is of that manager."""
    references = (live.get("metadata") or {}).get("ownerReferences") or ()
    keys = {
        f'k:{{"uid":"{reference.get("uid")}"}}'
        for reference in references
        if reference.get("controller")
    }
    return any(
        not keys.isdisjoint(
            ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:ownerReferences") or ()
        )
        for entry in entries_of(live)
        if entry.get("manager") == manager and not entry.get("subresource")
    )


def _is_status_of_nameless(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == NAMELESS and entry.get("subresource") == "status"


class Lookout:
    """Looks out for another operator, for one reconcile, in every object that is read."""

    def __init__(self, settings: Settings, now: datetime) -> None:
        """Take how old its last write has to be; in a dry run nothing is kept from going on."""
        self._quiet_seconds = settings.other_operator_seconds
        self._is_dry = settings.dry_run
        self._now = now
        self.seen: OthersWrite | None = None
        """Its newest write, where that is not old enough."""

    @property
    def why(self) -> str:
        """Why nothing is to be written, and what to do; empty where there is no reason."""
        return words(self.seen, self._quiet_seconds) if self.seen else ""

    def require_silence(self, *objects: Manifest | None, owner: Manifest | None = None) -> None:
        """
        Raise OtherOperator where its last write to one of these is too young to write ourselves.

        They are children of the owner; where none is named, the first of them is the resource.

        Also where that was found before: what goes on beside the finder is to stop, too.
        """
        found = newest_write(objects, owner)
        if found is not None and seconds_to_wait(found, self._now, self._quiet_seconds):
            self.seen = max(filter(None, (self.seen, found)), key=lambda write: write.time)
        if self.seen is not None and not self._is_dry:
            wait = seconds_to_wait(self.seen, self._now, self._quiet_seconds)
            raise OtherOperator(self.why, self.seen.manager, wait)


def newest_write(
    objects: Iterable[Manifest | None], owner: Manifest | None = None
) -> OthersWrite | None:
    """
    Return the last write of another operator to any of these, None where none is told.

    They are children of the owner; where none is named, the first of them is the resource.
    """
    there = [live for live in objects if live is not None]
    owner = owner or next(iter(there), {})
    writes = [
        OthersWrite(
            manager=entry["manager"], object=_title(live, entry.get("subresource")), time=time
        )
        for live in there
        for entry in entries_of(live)
        if _is_others(entry, live, owner) and (time := moment(entry.get("time"))) is not None
    ]
    return max(writes, key=lambda write: write.time, default=None)


def _is_others(entry: Mapping[str, Any], live: Manifest, owner: Manifest) -> bool:
    if entry.get("manager") != NAMELESS:
        return entry.get("manager") in OTHER_OPERATORS
    if live is owner:
        return _is_status_of_nameless(entry)
    # Who is called so and writes the status of a child is its controller.
    return not entry.get("subresource") and NAMELESS in other_operators(live, owner)


def seconds_to_wait(write: OthersWrite, now: datetime, quiet_seconds: float) -> float:
    """
    Return how long it takes until a write is so old; 0 where it is.

    One in the future is young, by a clock that is ahead of ours; we look again all the same.
    """
    left = quiet_seconds - (now - write.time).total_seconds()
    return min(max(left, 0.0), quiet_seconds)


def words(write: OthersWrite, quiet_seconds: float) -> str:
    """Return what a person is told: who wrote what when, what follows, and what to do."""
    return (
        f"{write}, so it still runs beside Weir, which writes nothing here until the last such "
        f"write is {quiet_seconds:g} s old; stop it: {STOP}"
    )


def _title(live: Manifest, subresource: str | None) -> str:
    title = f"{live.get('kind')} {(live.get('metadata') or {}).get('name')}"
    return f"the {subresource} of {title}" if subresource else title
