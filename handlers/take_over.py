"""
Taking over a workload that another operator made: none of its pods restarts.

Where our template would replace them and no edit asks for that, the workload keeps the one that it
has (kept.py). Of an edit that was not carried out yet nothing is known but what differs: it asks
for that, unless it is what operators add by themselves (asked.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from bridge.kube_errors import Refused, Unavailable
from handlers import kept, plan
from handlers.asked import is_asked_for
from handlers.difference import restarts
from handlers.errors import is_of_one_object
from handlers.fields import entries_of, merged, not_declared, without
from handlers.lookout import other_operators

UNKNOWN_FIELDS_MAX = 16
"""Fields of one child that the API server does not know, and that are left out one by one."""

if TYPE_CHECKING:
    from crds.kind import Kind
    from crds.kubernetes import Manifest
    from handlers.writes import Writes


class Asks(Struct, frozen=True, kw_only=True):
    """What a resource asks for of the pods of one workload."""

    image: str | None
    """As for `kept.fitted`."""
    added: tuple[str, ...] = ()
    """What it does not ask for, and that is rendered (Rendering.added)."""


async def taken_over(
    writer: Writes, kind: Kind, child: tuple[Manifest, Manifest], owner: Manifest, asks: Asks
) -> Manifest:
    """
    Return what is to be applied to another operator's workload; nothing is written yet.

    `child` is its rendering and itself.
    """
    manifest, live = child
    others = other_operators(live, owner)
    found = kept.taken_from(manifest, live, others)
    if asks.image is not None:
        keeps = kept.is_kept_still(found, manifest, asks.image)
    else:
        after = await _foreseen(writer, kind, child, others)
        if plan.awaits_an_edit(owner):
            keeps = (
                after is not None
                and restarts(live, after)
                and not is_asked_for(live, after, asks.added)
            )
        else:
            keeps = after is None or restarts(live, after)
    return (
        kept.with_template(manifest, live, found) if keeps else kept.released(manifest, live, found)
    )


async def with_fields_taken(
    writer: Writes, kind: Kind, child: tuple[Manifest, Manifest], owner: Manifest, *, forgets: bool
) -> Manifest:
    """
    Return a child whose fields are ours where an apply of its rendering may have to drop some.

    Where it `forgets`, as another operator's workload does, what was applied to it last goes in the
    same write: whoever goes on where we die in between, or are refused, still knows that the
    template is another's.
    """
    manifest, live = child
    others = other_operators(live, owner)
    entries = merged(live, others)
    may_drop = entries is not None and plan.may_drop_a_path(manifest, live, others)
    if not may_drop and not (forgets and plan.annotation(live, plan.APPLIED)):
        return live
    owned = kept.apart(manifest, live, entries or entries_of(live))
    return await writer.take_fields(kind, live, owned, forgets=forgets)


async def _foreseen(
    writer: Writes, kind: Kind, child: tuple[Manifest, Manifest], others: tuple[str, ...]
) -> Manifest | None:
    """Return what the workload would be with our template, None where nobody can say so."""
    manifest, live = child
    entries = merged(live, others) or entries_of(live)
    sent = plan.with_foreign_replicas(manifest, live)
    for _ in range(UNKNOWN_FIELDS_MAX):
        try:
            return await writer.tried(kind, live, sent, entries)
        except (Refused, Unavailable) as exc:
            unknown = not_declared(exc.message)
            if not unknown:
                # Such as of a webhook that takes no dry run.
                if isinstance(exc, Unavailable) and not is_of_one_object(exc):
                    raise
                return None
            for path, _is_empty in unknown:
                sent = without(sent, path)
    return None
