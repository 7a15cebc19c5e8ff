"""What becomes of a message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bridge.jetstream import BusError, BusUnavailable, StreamMissing, WrongSequence
from bridge.kube_errors import (
    AlreadyExists,
    Conflict,
    Gone,
    KubeError,
    NotFound,
    Refused,
    Throttled,
    Unavailable,
)
from bridge.settings import Settings
from handlers.errors import DependencyDown, GiveBack, LeaseLost, OtherOperator
from handlers.handler import ChildName, Problem, Short
from handlers.settle import (
    ERROR_TEXT_MAX,
    Circumstances,
    Outcome,
    Result,
    Settlement,
    held_children,
    holds_back,
    settle_conviction,
    settle_error,
    settle_outcome,
)
from handlers.state import EMPTY, FailState

SETTINGS = Settings()
NOW = 1_000_000.0
PROBLEM = Problem(child=ChildName("Deployment", "x"), reason="Refused", message="quota")


def found(state: FailState = EMPTY, **changes: Any) -> Circumstances:
    known = Circumstances(state=state, uid="u", generation=3, now=NOW, jitter=1.0)
    return replace(known, **changes)


def a_state(**fields: Any) -> FailState:
    return FailState(uid="u", generation=3, **fields)


def fails(known: Circumstances) -> Settlement:
    return settle_error(ValueError("boom"), known, SETTINGS)


# ---------------------------------------------------------------------------------- ends


@pytest.mark.parametrize("result", [Result.UNCHANGED, Result.CHANGED, Result.GONE, Result.REFUSED])
def test_an_end_is_acknowledged_and_forgets_what_failed_before(result: Result) -> None:
    ended = settle_outcome(Outcome(result=result), found(a_state(failures=4)), SETTINGS)
    assert ended == Settlement(result=result, state=EMPTY)


@pytest.mark.parametrize("concerns", [{"refused": (PROBLEM,)}, {"has_problems": True}, {}])
def test_an_end_says_what_went_wrong_although_it_was_reached(concerns: dict[str, Any]) -> None:
    outcome = Outcome(result=Result.CHANGED, reason="Refused", error=f"{PROBLEM}{'!' * 999}")
    ended = settle_outcome(replace(outcome, **concerns), found(), SETTINGS)
    assert ended.error.startswith("Refused: Deployment x: quota!")
    assert len(ended.error) == ERROR_TEXT_MAX


def test_an_end_with_nothing_to_forget_stores_nothing() -> None:
    ended = settle_outcome(Outcome(result=Result.CHANGED), found(), SETTINGS)
    assert ended == Settlement(result=Result.CHANGED)


def test_an_end_alone_forgets_the_attempt_that_was_counted_before_it() -> None:
    ended = settle_outcome(Outcome(result=Result.UNCHANGED), found(is_alone=True), SETTINGS)
    assert ended.state == EMPTY


def test_an_end_that_asks_for_another_look_arms_a_timer() -> None:
    outcome = Outcome(result=Result.CHANGED, requeue_seconds=10)
    assert settle_outcome(outcome, found(), SETTINGS).timer_seconds == 10


WAITS = (ChildName("Deployment", "former"),)
SHORT = (Short(workload=WAITS[0], since=9.0),)


@pytest.mark.parametrize("concerns", [{"has_problems": True}, {"refused": (PROBLEM,)}, {}])
@pytest.mark.parametrize("result", [Result.CHANGED, Result.PAUSED])
def test_what_serves_until_its_successor_does_is_met_by_the_next_look(
    result: Result, concerns: dict[str, Any]
) -> None:
    """By a timer, which names no child: the state has to, and it makes the look a full one."""
    outcome = Outcome(result=result, requeue_seconds=10, handing_over=WAITS, short=SHORT)
    ended = settle_outcome(replace(outcome, **concerns), found(), SETTINGS)
    assert ended.state is not None
    assert (ended.state.handing_over, ended.state.short) == (WAITS, SHORT)
    assert (ended.state.has_failed, ended.state.concerns("u", 3)) == (bool(concerns), True)
    assert ended.timer_seconds is not None
    assert settle_outcome(Outcome(result=result), found(ended.state), SETTINGS).state == EMPTY


@pytest.mark.parametrize("generation", [3, 4])
def test_nor_is_it_forgotten_over_a_failure_or_another_operator(generation: int) -> None:
    known = found(a_state(handing_over=WAITS), generation=generation)
    for error in (ValueError("boom"), OtherOperator("it wrote", "infera-operator", 42.0)):
        state = settle_error(error, known, SETTINGS).state
        assert state is not None
        assert (state.handing_over, state.generation) == (WAITS, generation)


@pytest.mark.parametrize("concerns", [{"has_problems": True}, {"handing_over": WAITS}, {}])
def test_after_a_death_a_full_look_is_owed_whatever_else_was_found(
    concerns: dict[str, Any],
) -> None:
    outcome = replace(Outcome(result=Result.CHANGED, follows_death=True), **concerns)
    ended = settle_outcome(outcome, found(), SETTINGS)
    assert ended.state is not None
    assert ended.state.owes_look


def test_a_held_object_keeps_its_state_and_its_timer() -> None:
    known = found(a_state(failures=2, retry_at=NOW + 5))
    held = settle_outcome(Outcome(result=Result.HELD), known, SETTINGS)
    assert held == Settlement(result=Result.HELD)


def test_a_held_object_that_was_let_in_alone_gets_its_attempt_back() -> None:
    state = a_state(crashes=2, is_quarantined=True, retry_at=NOW + 5)
    held = settle_outcome(Outcome(result=Result.HELD), found(state, is_alone=True), SETTINGS)
    assert held.state == state


# ---------------------------------------------------------------------------------- errors

UNCOUNTED: dict[str, tuple[Exception, Result]] = {
    "a lost lease": (LeaseLost("late"), Result.LEASE_LOST),
    "a give-back": (GiveBack("stop", 0.0), Result.GIVEN_BACK),
    "a conflict": (Conflict(409, "Conflict", "x"), Result.GIVEN_BACK),
    "a backend": (DependencyDown("etcd", "x"), Result.DEPENDENCY_DOWN),
    "a time-out": (Unavailable(0, "Timeout", "x"), Result.DEPENDENCY_DOWN),
    "a 503": (Unavailable(503, "ServiceUnavailable", "x"), Result.DEPENDENCY_DOWN),
    "a 500": (Unavailable(500, "InternalError", "x"), Result.DEPENDENCY_DOWN),
    "a 429": (Throttled(429, "TooManyRequests", "x", 7.0), Result.DEPENDENCY_DOWN),
    "a token in rotation": (Refused(401, "Unauthorized", "x"), Result.DEPENDENCY_DOWN),
    "a role not loaded": (Refused(403, "Forbidden", "x"), Result.DEPENDENCY_DOWN),
    "a cut after too long": (TimeoutError("not done in 120 s"), Result.DEPENDENCY_DOWN),
    "NATS away": (BusUnavailable("x"), Result.DEPENDENCY_DOWN),
    "a stream away": (StreamMissing("x"), Result.DEPENDENCY_DOWN),
    "a stream written by another": (WrongSequence("x"), Result.DEPENDENCY_DOWN),
    "an error of the bus": (BusError("x"), Result.DEPENDENCY_DOWN),
}
COUNTED: dict[str, Exception] = {
    "a bug": ZeroDivisionError("x"),
    "a refusal of the status": Refused(422, "Invalid", "x"),
    "an object that was there": AlreadyExists(409, "AlreadyExists", "x"),
    "an object that was not there": NotFound(404, "NotFound", "x"),
    "a version that is gone": Gone(410, "Expired", "x"),
    "an error of no class": KubeError(418, "Teapot", "x"),
}


@pytest.mark.parametrize(("error", "result"), UNCOUNTED.values(), ids=UNCOUNTED)
def test_what_is_nobodys_fault_is_given_back_and_not_counted(
    error: Exception, result: Result
) -> None:
    state = a_state(failures=9)
    settled = settle_error(error, found(state), SETTINGS)
    assert settled.result is result
    assert settled.state is None
    assert settled.give_back_seconds is not None
    assert settled.timer_seconds is None
    assert not settled.is_dead


@pytest.mark.parametrize("is_alone", [False, True])
def test_what_another_operator_writes_waits_by_a_timer_and_keeps_its_state(
    *, is_alone: bool
) -> None:
    """Nothing is in hand meanwhile: all resources may wait at once."""
    state = a_state(failures=9)
    error = OtherOperator("infera-operator wrote it", "infera-operator", 42.0)
    settled = settle_error(error, found(state, is_alone=is_alone), SETTINGS)
    assert settled == Settlement(
        result=Result.OTHER_OPERATOR,
        reason="OtherOperator",
        error="infera-operator wrote it",
        state=msgspec.structs.replace(state, owes_look=True),
        timer_seconds=42.0,
    )


def test_a_look_after_a_death_is_followed_by_a_full_one() -> None:
    outcome = Outcome(result=Result.CHANGED, follows_death=True, requeue_seconds=10.0)
    settled = settle_outcome(outcome, found(a_state(crashes=2), is_alone=True), SETTINGS)
    assert settled.state == FailState(uid="u", generation=3, owes_look=True)
    followed = settle_outcome(Outcome(result=Result.UNCHANGED), found(settled.state), SETTINGS)
    assert followed.state == EMPTY


@pytest.mark.parametrize("error", COUNTED.values(), ids=COUNTED)
def test_an_own_failure_is_counted_and_acknowledged_with_a_timer(error: Exception) -> None:
    settled = settle_error(error, found(a_state(failures=1)), SETTINGS)
    assert settled.result is Result.FAILED
    assert settled.reason == type(error).__name__
    assert settled.give_back_seconds is None
    assert settled.state is not None
    assert settled.state.failures == 2
    assert settled.state.error == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    "error", [GiveBack("stop", 0.0), DependencyDown("etcd", "x"), Conflict(409, "Conflict", "x")]
)
def test_a_run_alone_that_is_given_back_returns_its_attempt(error: Exception) -> None:
    state = a_state(crashes=1)
    assert settle_error(error, found(state, is_alone=True), SETTINGS).state == state
    assert settle_error(error, found(is_alone=True), SETTINGS).state == EMPTY


def test_a_lost_lease_stores_nothing_because_the_object_may_be_anothers() -> None:
    assert (
        settle_error(LeaseLost("x"), found(a_state(crashes=1), is_alone=True), SETTINGS).state
        is None
    )


def test_a_backend_is_asked_again_when_it_says() -> None:
    throttled = settle_error(Throttled(429, "x", "x", 7.0), found(jitter=1.2), SETTINGS)
    assert throttled.give_back_seconds == pytest.approx(7.0 * 1.2)


def test_the_words_of_an_error_are_bounded() -> None:
    settled = settle_error(ValueError("x" * 10_000), found(), SETTINGS)
    assert len(settled.error) <= 500
    assert settled.state is not None
    assert len(settled.state.error) <= 500


# ---------------------------------------------------------------------------------- back-off


def test_back_off_doubles_up_to_its_maximum() -> None:
    waits = [fails(found(a_state(failures=n))).timer_seconds for n in range(9)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256]


@given(st.integers(0, 10_000), st.floats(0.8, 1.2))
def test_back_off_stays_in_its_bounds_however_often_it_failed(failures: int, jitter: float) -> None:
    settled = settle_error(
        ValueError("x"),
        found(a_state(failures=failures), jitter=jitter),
        Settings(quarantine_failures=1_000_000),
    )
    assert settled.timer_seconds is not None
    assert 0.8 <= settled.timer_seconds <= 300 * 1.2
    assert settled.state is not None
    assert settled.state.retry_at == pytest.approx(NOW + settled.timer_seconds)


@pytest.mark.parametrize(("jitter", "seconds"), [(0.8, 25.6), (1.0, 32.0), (1.2, 38.4)])
def test_jitter_spreads_what_would_come_back_at_one_moment(jitter: float, seconds: float) -> None:
    settled = fails(found(a_state(failures=5), jitter=jitter))
    assert settled.timer_seconds == pytest.approx(seconds)


def test_the_tenth_failure_quarantines_and_writes_one_dead_letter() -> None:
    state = EMPTY
    settled = []
    for _ in range(12):
        done = fails(found(state))
        assert done.state is not None
        state = done.state
        settled.append(done)
    assert [done.result for done in settled] == [Result.FAILED] * 9 + [Result.QUARANTINED] * 3
    assert [done.is_dead for done in settled] == [False] * 9 + [True, False, False]
    assert [done.timer_seconds for done in settled[9:]] == [300, 300, 300]
    assert {done.state.since for done in settled if done.state} == {NOW}
    assert state.is_quarantined


@pytest.mark.parametrize("changes", [{"uid": "other"}, {"generation": 4}])
def test_a_new_incarnation_or_generation_begins_afresh(changes: dict[str, Any]) -> None:
    old = a_state(failures=9, is_quarantined=True, since=1.0, crashes=2)
    settled = fails(found(old, **changes))
    assert settled.result is Result.FAILED
    assert settled.timer_seconds == 1
    assert settled.state is not None
    assert (settled.state.failures, settled.state.crashes, settled.state.since) == (1, 0, NOW)


@pytest.mark.parametrize(
    ("state", "uid", "generation", "is_held"),
    [
        (a_state(retry_at=NOW + 1), "u", 3, True),
        (a_state(retry_at=NOW - 1), "u", 3, False),
        (a_state(retry_at=NOW + 1), "u", 4, False),
        (a_state(retry_at=NOW + 1), "v", 3, False),
        (EMPTY, "u", 3, False),
    ],
    ids=["waiting", "due", "edited", "made anew", "nothing known"],
)
def test_only_something_new_runs_during_back_off(
    state: FailState, uid: str, generation: int, *, is_held: bool
) -> None:
    assert holds_back(state, uid, generation, NOW) is is_held


# ---------------------------------------------------------------------------------- crashes


def test_a_conviction_quarantines_with_a_dead_letter_and_one_more_crash_convicts_again() -> None:
    settled = settle_conviction(found(a_state(crashes=3)), SETTINGS)
    assert settled.result is Result.QUARANTINED
    assert settled.is_dead
    assert settled.timer_seconds == 300
    assert settled.give_back_seconds is None
    assert settled.state is not None
    assert settled.state.crashes == 2
    assert settled.state.is_quarantined
    assert "3 handlers" in settled.state.error
    assert holds_back(settled.state, "u", 3, NOW + 299)


def test_a_suspect_that_comes_to_an_end_of_its_own_is_no_suspect_any_more() -> None:
    settled = fails(found(a_state(crashes=2), is_alone=True))
    assert settled.state is not None
    assert settled.state.crashes == 0


# ---------------------------------------------------------------------------------- refusals


def refused(state: FailState = EMPTY, **changes: Any) -> Settlement:
    outcome = Outcome(result=Result.CHANGED, has_problems=True, refused=(PROBLEM,))
    return settle_outcome(outcome, found(state, **changes), SETTINGS)


def test_a_refused_child_is_tried_again_after_5_to_60_seconds_for_ever() -> None:
    state, waits = EMPTY, []
    now = NOW
    for _ in range(40):
        settled = refused(state, now=now)
        assert settled.state is not None
        assert settled.timer_seconds is not None
        state = settled.state
        waits.append(settled.timer_seconds)
        now += settled.timer_seconds
    assert waits[:5] == [5, 10, 20, 40, 60]
    assert set(waits[5:]) == {60}
    assert state.failures == 0
    assert not state.is_quarantined


def test_a_look_in_between_leaves_a_refused_child_its_wait() -> None:
    first = refused().state
    assert first is not None
    again = refused(first, now=NOW + 2)
    assert again.timer_seconds == 3
    assert again.state == first


def test_a_refused_child_waits_no_longer_than_its_unready_resource() -> None:
    outcome = Outcome(result=Result.CHANGED, has_problems=True, requeue_seconds=2)
    assert settle_outcome(outcome, found(), SETTINGS).timer_seconds == 2


def test_a_refusal_ends_a_row_of_failures() -> None:
    settled = refused(a_state(failures=9, is_quarantined=True))
    assert settled.state is not None
    assert settled.state.failures == 0


def test_a_new_generation_tries_a_refused_child_at_once() -> None:
    state = refused().state
    assert state is not None
    assert held_children(state, "u", 3, NOW + 1) == {PROBLEM.child: PROBLEM}
    assert held_children(state, "u", 4, NOW + 1) == {}
    assert held_children(state, "v", 3, NOW + 1) == {}
    assert held_children(state, "u", 3, NOW + 5) == {}


def test_what_a_change_elsewhere_may_have_mended_is_due_and_waits_anew_where_it_has_not() -> None:
    """A CRD that appears is served a moment later, so the first try may come too early."""
    waiting = a_state(refusals=9, refused=(PROBLEM,), refused_until=NOW + 60)
    assert held_children(waiting, "u", 3, NOW)
    due = waiting.with_refused_due()
    assert not held_children(due, "u", 3, NOW)
    outcome = Outcome(result=Result.UNCHANGED, has_problems=True, refused=(PROBLEM,))
    settled = settle_outcome(outcome, found(due), SETTINGS)
    assert settled.timer_seconds == SETTINGS.child_retry_seconds
    assert EMPTY.with_refused_due() == EMPTY
