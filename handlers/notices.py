"""What is worth knowing of how the children of any kind stand. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers import plan
from handlers.conditions import Reason
from handlers.handler import Notice
from handlers.kept import KEPT, kept_by

if TYPE_CHECKING:
    from handlers.apply import Child


def notices_of_children(children: list[Child]) -> tuple[Notice, ...]:
    """Return what is worth knowing of how the children stand, a notice per reason."""

    def title(child: Child) -> str:
        return f"{child.name.kind} {child.name.name}"

    told: tuple[tuple[str, str, bool, list[str]], ...] = (
        (
            Reason.TEMPLATE_KEPT,
            (
                "their pods go on as another operator made them, until an edit asks for another "
                f"image or other pods, or somebody removes the annotation {KEPT}: "
            ),
            False,
            [title(child) for child in children if kept_by(child.live or {}) is not None],
        ),
        (
            Reason.IMMUTABLE_FIELD,
            (
                "only a new object could hold what is asked for, so these stay as they are; undo "
                "the edit, or delete the object so that it is made anew (of a StatefulSet its "
                "volume claims, too): "
            ),
            True,
            [
                f"spec.{field} of {title(child)}"
                for child in children
                for field in child.unchangeable
            ],
        ),
        (
            Reason.ROLLOUT_WAITS,
            (
                "this version of Weir gives them new pods, so many a minute "
                "(WEIR_ROLLOUTS_PER_MINUTE): "
            ),
            False,
            [title(child) for child in children if child.waits],
        ),
        (
            Reason.FIELD_NOT_KNOWN,
            "the API server does not know, and dropped: ",
            True,
            [f"{title(child)}: {path}" for child in children for path in child.ignored],
        ),
        (
            Reason.SCALED_BY_OTHER,
            "replicas are left to their scaler: ",
            False,
            [
                f"{title(child)} by {owner}"
                for child in children
                if child.live is not None and (owner := plan.replicas_owner(child.live)) is not None
            ],
        ),
    )
    return tuple(
        Notice(reason=reason, message=message + ", ".join(which), degraded=degraded)
        for reason, message, degraded, which in told
        if which
    )
