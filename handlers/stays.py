"""Children that are no longer wanted and stay for now: why, and how that is said."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from handlers.conditions import Reason
from handlers.handler import ChildName, Notice

NAMED_MAX = 5
"""So many of what is waited for are named."""


class Stay(Struct, frozen=True, kw_only=True):
    """A child that is no longer wanted and stays for what is not yet in its place."""

    child: ChildName
    why: str
    """What it does until when, to be read after its name, or after several names."""
    is_blocked: bool = False
    """Waiting does not help: what it waits for was refused."""
    short_since: float = 0.0
    """Unix time since when every look found its successor to lack pods; 0 where it lacks none."""

    @property
    def said(self) -> str:
        """The child, and why it stays."""
        return f"{' '.join(self.child)} {self.why}"


def notices_of(stays: Iterable[Stay]) -> tuple[Notice, ...]:
    """Return what the status says of what stays, once for all that stay for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for stay in stays:
        by_reason.setdefault(stay.why, []).append(" ".join(stay.child))
    return tuple(
        Notice(reason=Reason.HANDING_OVER, message=f"{', '.join(children)} {why}", degraded=False)
        for why, children in by_reason.items()
    )


def enumerated(names: Iterable[str]) -> str:
    """Return names for a sentence, the first of them where they are many."""
    found = sorted(names)
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return f"{', '.join(found[:NAMED_MAX])}{more}"
