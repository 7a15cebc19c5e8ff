"""
Crash loops: between two lives of a group that is made anew there is nothing to see of its crash.

Without a memory the status would change its mind at every look that falls between, with an Event
and a write each.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Condition
from handlers.conditions import READY, Reason

_STARTING = frozenset({Reason.ROLLING_OUT, Reason.WAITING_FOR_PODS})
"""Reasons of what pods do that say nothing of why."""


def said_before(
    resource: InferaDeployment, ready_replicas: Mapping[str, int], reasons: set[str]
) -> Condition | None:
    """
    Return the condition Ready of the last look, where its pods crashed and nothing came of it.

    That is: of the same generation, with as many pods ready of each service, and nothing but that
    pods start keeps the resource from being ready now (`reasons`).
    """
    before = resource.status
    if before is None or not reasons or not reasons <= _STARTING:
        return None
    known = {name: reported.ready_replicas for name, reported in (before.services or {}).items()}
    if before.observed_generation != resource.metadata.generation or known != ready_replicas:
        return None
    return next(
        (
            condition
            for condition in before.conditions or ()
            if (condition.type, condition.reason) == (READY, Reason.CRASHING)
        ),
        None,
    )
