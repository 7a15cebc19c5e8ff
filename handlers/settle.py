"""
What becomes of a message after its reconcile: a decision as a value, carried out by attempt.py.

Pure: time and chance arrive as arguments.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct

from bridge.settings import Settings
from handlers.errors import DependencyDown, GiveBack, LeaseLost, OtherOperator, settled_as
from handlers.handler import ChildName, Problem, Short
from handlers.lookout import OTHER_OPERATOR
from handlers.state import EMPTY, FailState

ERROR_TEXT_MAX = 500
DEPENDENCY_RETRY_SECONDS = 1.0
LEASE_LOST_RETRY_SECONDS = 0.5
PATIENCE_SECONDS_MAX = 30.0
"""The longest wait of a message that is given back again and again."""
EXPONENT_MAX = 30
"""2**30 seconds exceed every maximum; 2**1000 would overflow."""


class Result(StrEnum):
    """How a reconcile ended, as metrics and history name it."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    WOULD_CHANGE = "would-change"
    """In a dry run: nothing was written."""
    GONE = "gone"
    """The resource does not exist, or is being deleted."""
    PAUSED = "paused"
    """Somebody has the brake on: what there is to write waits, and the status says so."""
    OTHER_OPERATOR = "other-operator"
    """Another operator still writes to it: no more is written, not even its status."""
    HELD = "held"
    """In back-off or quarantine, and nothing new: not run."""
    REFUSED = "refused"
    """Only an edit can help; the status says so."""
    FAILED = "failed"
    QUARANTINED = "quarantined"
    GIVEN_BACK = "given-back"
    DEPENDENCY_DOWN = "dependency-down"
    LEASE_LOST = "lease-lost"


class Outcome(Struct, frozen=True, kw_only=True):
    """What a reconcile that came to its end says."""

    result: Result
    reason: str = ""
    error: str = ""
    """What went wrong although the end was reached: whom it concerns, and who said what."""
    requeue_seconds: float | None = None
    """Look again after so long; None: when something changes."""
    has_problems: bool = False
    """A child could not be made; its turn comes again by itself."""
    refused: tuple[Problem, ...] = ()
    """Those of the problems that cost a refused request."""
    handing_over: tuple[ChildName, ...] = ()
    """Children that stay although they are not wanted: the next look has to meet them."""
    short: tuple[Short, ...] = ()
    """Of those, the ones whose successors lack pods."""
    follows_death: bool = False
    """What the last holder sent may land yet: a full look is due once it would have."""


class Settlement(Struct, frozen=True, kw_only=True):
    """What to do with the message, in this order: state, dead letter, timer, answer."""

    result: Result
    reason: str = ""
    error: str = ""
    """What went wrong, in the words of whoever said it."""
    state: FailState | None = None
    """To be stored (EMPTY: forgotten); None leaves what is there."""
    is_dead: bool = False
    """Write a dead letter and say so in the status."""
    timer_seconds: float | None = None
    give_back_seconds: float | None = None
    """None acknowledges."""


class Circumstances(Struct, frozen=True, kw_only=True):
    """What was known of an object when its reconcile began, and what the decision depends on."""

    state: FailState
    """From before the run: a run alone that is given back returns its attempt."""
    uid: str = ""
    generation: int = 0
    is_alone: bool = False
    delivered: int = 1
    """How often the message was delivered: 1 for the first time."""
    now: float
    """Unix time."""
    jitter: float
    """0.8 .. 1.2: spreads what would come back at one moment."""


def settle_outcome(outcome: Outcome, found: Circumstances, settings: Settings) -> Settlement:
    """Return what becomes of a message whose reconcile came to its end."""
    if outcome.result is Result.HELD:
        back = found.state if found.is_alone else None
        return Settlement(result=outcome.result, reason=outcome.reason, state=back)
    if outcome.has_problems or outcome.refused:
        return _child_refused(outcome, found, settings)
    state = EMPTY if found.is_alone or found.state != EMPTY else None
    if outcome.follows_death or outcome.handing_over:
        state = FailState(
            uid=found.uid,
            generation=found.generation,
            owes_look=outcome.follows_death,
            handing_over=outcome.handing_over,
            short=outcome.short,
        )
    return Settlement(
        result=outcome.result,
        reason=outcome.reason,
        error=outcome.error[:ERROR_TEXT_MAX],
        state=state,
        timer_seconds=outcome.requeue_seconds,
    )


def settle_error(exc: BaseException, found: Circumstances, settings: Settings) -> Settlement:
    """Return what becomes of a message whose reconcile failed."""
    known = settled_as(exc)
    back = found.state if found.is_alone else None
    match known:
        case LeaseLost():
            # Nothing is stored: the object may be another's by now (attempt.py takes the count of a
            # run alone back where it still can).
            return Settlement(
                result=Result.LEASE_LOST,
                reason="LeaseLost",
                error=str(known),
                give_back_seconds=LEASE_LOST_RETRY_SECONDS,
            )
        case GiveBack():
            return Settlement(
                result=Result.GIVEN_BACK,
                reason="GivenBack",
                error=str(known),
                state=back,
                give_back_seconds=_patience(known.after_seconds, found, grows=known.grows),
            )
        case OtherOperator():
            # By a timer, and not in hand: a message that waits in hand counts against what the
            # queue gives out at once, and before a take-over all resources may wait together.
            return Settlement(
                result=Result.OTHER_OPERATOR,
                reason=OTHER_OPERATOR,
                error=str(known)[:ERROR_TEXT_MAX],
                # What the event said goes with it, and the timer brings no hint.
                state=msgspec.structs.replace(_known(found), owes_look=True),
                timer_seconds=known.after_seconds,
            )
        case DependencyDown():
            # A backend that is out is waited for by its breaker; trouble with one object only must
            # not take the handlers' time from all others.
            wait = _patience(
                known.after_seconds or DEPENDENCY_RETRY_SECONDS, found, grows=not known.is_out
            )
            return Settlement(
                result=Result.DEPENDENCY_DOWN,
                reason=known.backend,
                error=str(known)[:ERROR_TEXT_MAX],
                state=back,
                give_back_seconds=wait,
            )
        case _:
            text = f"{type(exc).__name__}: {exc}"[:ERROR_TEXT_MAX]
            return _own_failure(text, found, settings)


def _patience(seconds: float, found: Circumstances, *, grows: bool) -> float:
    doublings = min(found.delivered - 1, EXPONENT_MAX) if grows else 0
    return min(max(seconds, PATIENCE_SECONDS_MAX), seconds * 2.0**doublings) * found.jitter


def settle_conviction(found: Circumstances, settings: Settings) -> Settlement:
    """Return what becomes of an object whose reconcile killed its process too often."""
    wait = settings.quarantine_retry_seconds * found.jitter
    crashes = found.state.crashes
    error = f"Crashed: its reconcile killed {crashes} handlers that ran it alone"
    return Settlement(
        result=Result.QUARANTINED,
        reason="Crashed",
        error=error,
        is_dead=True,
        timer_seconds=wait,
        state=msgspec.structs.replace(
            found.state,
            # The next try is alone again, and one more death convicts again.
            crashes=max(0, settings.convict_crashes - 1),
            failures=crashes,
            error=error,
            is_quarantined=True,
            retry_at=found.now + wait,
            since=found.state.since or found.now,
        ),
    )


def _child_refused(outcome: Outcome, found: Circumstances, settings: Settings) -> Settlement:
    is_same = found.state.concerns(found.uid, found.generation)
    refusals = found.state.refusals + 1 if is_same else 1
    wait = min(
        settings.child_retry_max_seconds,
        settings.child_retry_seconds * 2.0 ** min(refusals - 1, EXPONENT_MAX),
    )
    refused_until = found.now + wait
    if is_same and found.now < found.state.refused_until:
        # Looked at in between, and the refused were left alone: their wait goes on.
        refusals, refused_until = found.state.refusals, found.state.refused_until
        wait = refused_until - found.now
    if outcome.requeue_seconds is not None:
        wait = min(wait, outcome.requeue_seconds)
    return Settlement(
        result=outcome.result,
        reason=outcome.reason,
        error=outcome.error[:ERROR_TEXT_MAX],
        state=FailState(
            uid=found.uid,
            generation=found.generation,
            refusals=refusals,
            since=found.state.since if is_same else found.now,
            refused=outcome.refused,
            refused_until=refused_until,
            owes_look=outcome.follows_death,
            handing_over=outcome.handing_over,
            short=outcome.short,
        ),
        timer_seconds=wait if outcome.has_problems else outcome.requeue_seconds,
    )


def _known(found: Circumstances) -> FailState:
    """Return what is remembered of the object as it is now."""
    if found.state.concerns(found.uid, found.generation):
        return found.state
    return FailState(
        uid=found.uid, generation=found.generation, handing_over=found.state.handing_over
    )


def _own_failure(error: str, found: Circumstances, settings: Settings) -> Settlement:
    known = _known(found)
    failures = known.failures + 1
    is_dead = failures >= settings.quarantine_failures
    wait = settings.quarantine_retry_seconds
    if not is_dead:
        doubled = settings.backoff_seconds * 2.0 ** min(failures - 1, EXPONENT_MAX)
        wait = min(settings.backoff_max_seconds, doubled)
    wait *= found.jitter
    return Settlement(
        result=Result.QUARANTINED if is_dead else Result.FAILED,
        reason=error.partition(":")[0],
        error=error,
        state=FailState(
            uid=found.uid,
            generation=found.generation,
            failures=failures,
            error=error,
            since=known.since or found.now,
            retry_at=found.now + wait,
            is_quarantined=is_dead,
            handing_over=known.handing_over,
        ),
        is_dead=is_dead and not known.is_quarantined,
        timer_seconds=wait,
    )


def held_children(
    state: FailState, uid: str, generation: int, now: float
) -> dict[ChildName, Problem]:
    """
    Return the children that were refused, and are not tried again yet.

    What is immutable stays refused until an edit, or until the child is deleted.
    """
    if not state.concerns(uid, generation):
        return {}
    is_early = now < state.refused_until
    return {
        problem.child: problem
        for problem in state.refused
        if is_early or problem.reason == "ImmutableField"
    }


def holds_back(state: FailState, uid: str, generation: int, now: float) -> bool:
    """Return whether an object is in back-off or quarantine, and nothing new came."""
    return state.concerns(uid, generation) and state.retry_at > now
