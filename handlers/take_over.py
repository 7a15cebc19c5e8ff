"""
Taking over a workload that another operator made: none of its pods restarts.

Where our template would replace them and no edit asks for that, the workload keeps the one that it
has (kept.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.kube_errors import Refused, Unavailable
from handlers import kept, plan
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


async def taken_over(
    writer: Writes, kind: Kind, child: tuple[Manifest, Manifest], owner: Manifest, asked: str | None
) -> Manifest:
    """
    Return what is to be applied to another operator's workload; nothing is written yet.

    `child` is its rendering and itself, `asked` as for `kept.fitted`.
    """
    manifest, live = child
    others = other_operators(live, owner)
    found = kept.taken_from(manifest, live, others)
    if asked is not None:
        keeps = kept.is_kept_still(found, manifest, asked)
    else:
        keeps = not plan.was_edited(owner) and await _would_restart(
            writer, kind, (manifest, live), others
        )
    return (
        kept.with_template(manifest, live, found) if keeps else kept.with_immutable(manifest, live)
    )


async def _would_restart(
    writer: Writes, kind: Kind, child: tuple[Manifest, Manifest], others: tuple[str, ...]
) -> bool:
    """Return whether our template would replace pods, or nobody can say so."""
    manifest, live = child
    entries = merged(live, others) or entries_of(live)
    sent = plan.with_foreign_replicas(manifest, live)
    for _ in range(UNKNOWN_FIELDS_MAX):
        try:
            return restarts(live, await writer.tried(kind, live, sent, entries))
        except (Refused, Unavailable) as exc:
            unknown = not_declared(exc.message)
            if not unknown:
                # Such as of a webhook that takes no dry run.
                if isinstance(exc, Unavailable) and not is_of_one_object(exc):
                    raise
                return True
            for path, _is_empty in unknown:
                sent = without(sent, path)
    return True
