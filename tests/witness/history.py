"""The stream WEIR_HISTORY as a witness: when each reconcile started and finished, and whose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct

from tests.witness.overlap import Span


class Moment(Struct, frozen=True, kw_only=True):
    """The start or the end of one reconcile, as its handler told it."""

    what: Literal["started", "finished"]
    attempt: str
    """The same in the two moments of one reconcile, and in no other."""
    owner: str
    handler: str
    time: datetime


def spans_of_history(moments: Iterable[Moment]) -> list[Span]:
    """
    Return the reconciles that *moments* tell of.

    A start without an end is of a handler that died (or that told nobody: nothing waits for
    history): all that is known of it is its start. An end without a start, likewise.
    """
    spans: dict[str, list[Moment]] = defaultdict(list)
    for moment in moments:
        spans[moment.attempt].append(moment)
    return [
        Span(
            owner=told[0].owner,
            writer=told[0].handler,
            start=min(moment.time for moment in told),
            end=max(moment.time for moment in told),
            evidence=tuple(f"{moment.what} {moment.time:%H:%M:%S.%f}" for moment in told),
        )
        for told in spans.values()
    ]


def ends(moments: Iterable[Moment]) -> dict[tuple[str, str], list[datetime]]:
    """Return when each (owner, handler) finished: the cuts that `spans_of_writes` takes."""
    found: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for moment in moments:
        if moment.what == "finished":
            found[moment.owner, moment.handler].append(moment.time)
    return dict(found)
