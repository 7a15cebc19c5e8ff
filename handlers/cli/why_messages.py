"""What a resource waits for in NATS (handlers, its turn, its next try), and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from handlers.cli import output
from handlers.cli.why_findings import Cause, Findings, QueueHalf, is_idle, kubectl
from handlers.conditions import Reason
from handlers.handler import Problem
from handlers.settle import Result, holds_back
from handlers.state import FailState

MESSAGE_MAX = 300
"""Characters of somebody else's error in a line for people."""
START_HANDLERS = "start or scale up `weir handlers`; where they should run, read their log"
ASK_HANDLERS = "see what the handlers cannot reach: their /readyz, and their log"


def given_up(found: Findings) -> Iterator[Cause]:
    """Yield the quarantine or the back-off that the present spec is in."""
    state = found.present_state
    letter = found.queue.letter if found.queue else None
    history = f"see what was tried: weir history {found.target}"
    retry = f"weir dead retry {found.target}"
    if state is not None and state.is_quarantined:
        reason = letter.reason if letter else ""
        steps = [history, f"mend the cause, then have it tried at once: {retry}"]
        if reason == "Crashed":
            steps[0] = "read why the handlers died (memory, logs); " + history
        yield Cause(
            reason=Reason.QUARANTINED,
            waits_for=f"its cause of failure to be mended: given up after "
            f"{output.plural(state.failures, 'failure')}, {shortened(state.error)}; "
            f"{_next(state, found.now)}",
            since=_text(state.since),
            steps=tuple(steps),
        )
    elif (
        state is not None
        and state.failures
        and holds_back(state, state.uid, state.generation, found.now.timestamp())
    ):
        yield Cause(
            reason="BackOff",
            waits_for=f"its next try: it failed {output.plural(state.failures, 'time')}, the last "
            f"time with {shortened(state.error)}; {_next(state, found.now)}",
            since=_text(state.since),
            steps=(history, f"have it tried at once: {retry}"),
        )
    elif state is None and letter is not None and found.is_present(letter.uid, letter.generation):
        yield Cause(
            reason=Reason.QUARANTINED,
            waits_for=f"its cause of failure to be mended: given up, {shortened(letter.error)}; it "
            f"is tried when it changes, and at each resync",
            since=letter.since or letter.time,
            steps=(history, f"mend the cause, then have it tried at once: {retry}"),
        )


def no_handlers(found: Findings) -> Iterator[Cause]:
    """Yield what keeps every message of the kind where it is."""
    queue = found.queue
    if queue is None:
        if found.is_owed:
            yield Cause(
                reason="NatsUnreachable",
                waits_for="NATS: it cannot be reached from here, and nothing is carried out while "
                "the handlers cannot reach it either",
                since=found.cluster.edited if found.cluster else "",
                steps=("see why NATS does not answer, and run this again: weir queue",),
            )
        return
    if queue.group.is_missing:
        yield Cause(
            reason="QueueMissing",
            waits_for=f"its queue: {', '.join(queue.missing)} missing",
            steps=(
                (
                    "check that this NATS is the right one (--nats-url); a bridge or a handlers "
                    "process that runs makes the queue again within seconds: weir queue"
                ),
            ),
        )
        return
    if queue.slots and is_idle(queue.group):
        yield _no_handler(queue)


def _no_handler(queue: QueueHalf) -> Cause:
    first = queue.slots[0]
    place = "to be taken again" if first.is_taken else _before(first.before)
    waits = f"its message ({first.cause}) waits, {place}"
    if queue.has_live_handlers:
        why = f" ({shortened(error)})" if (error := _backend_error(queue)) else ""
        return Cause(
            reason="HandlersStand",
            waits_for=f"a handler: none takes messages, though one lived a minute ago{why}, and "
            f"{waits}",
            since=first.published,
            steps=(f"if handlers run, {ASK_HANDLERS}", START_HANDLERS),
        )
    none = "no handler runs" if queue.has_live_handlers is False else "no handler takes messages"
    return Cause(
        reason="NoHandlers",
        waits_for=f"a handler: {none}, and {waits}",
        since=first.published,
        steps=(
            START_HANDLERS,
            "see the queue drain: weir queue --watch",
        ),
    )


def in_queue(found: Findings) -> Iterator[Cause]:
    """Yield where the message about the resource is, if there is one."""
    queue = found.queue
    if queue is None:
        return
    taken = [slot for slot in queue.slots if slot.is_taken]
    if queue.lease is not None:
        yield Cause(
            reason="InWork",
            waits_for=f"{queue.lease.holder}, which works on it",
            since=queue.lease.since,
            steps=("wait: a reconcile takes seconds, and is cut off after two minutes",),
        )
    elif taken and (error := _backend_error(queue)):
        yield Cause(
            reason="DependencyDown",
            waits_for=f"a backend of the handlers: {shortened(error)}; it is driven again as soon "
            f"as that answers",
            since=queue.attempts[-1].time,
            steps=(ASK_HANDLERS,),
        )
    elif queue.waiting:
        yield Cause(
            reason="Queued",
            waits_for=f"its turn: {_before(queue.waiting[0].before)}",
            since=queue.waiting[0].published,
            steps=("see how the queue moves, and start more handlers: weir queue --watch",),
        )
    elif taken:
        yield Cause(
            reason="TakenAgain",
            waits_for="its message to be taken again: a handler took it and gave it back, or died",
            since=taken[0].published,
            steps=(f"see how the last tries ended: weir history {found.target}",),
        )


def by_itself(found: Findings) -> Iterator[Cause]:
    """Yield when a resource that no message is about is looked at, or that nobody knows of it."""
    queue = found.queue
    if queue is None or queue.group.is_missing:
        return
    if queue.timer_due:
        yield Cause(reason="Timer", waits_for=f"its next look, {_due(queue.timer_due, found.now)}")
    elif found.is_owed:
        yield _not_told(found)


def _not_told(found: Findings) -> Cause:
    namespace = found.key.namespace
    watched = f" and watches {namespace} (WEIR_WATCH_NAMESPACES)" if namespace else ""
    return Cause(
        reason="NotTold",
        waits_for="a bridge: nothing in the queue speaks of its last edit",
        since=found.cluster.edited if found.cluster else "",
        steps=(
            f"check that `weir bridge` runs, is ready (/readyz){watched}",
            "start one: it looks at everything then, and once in ten minutes",
        ),
    )


def refused_children(found: Findings) -> Iterator[Cause]:
    """Yield what the API server said of children that it did not take."""
    state = found.present_state
    for problem in state.refused if state else ():
        again = "it is not tried again until something changes"
        if problem.reason != Reason.IMMUTABLE_FIELD and state is not None:
            again = f"tried again {_due(_text(state.refused_until), found.now)}"
        yield Cause(
            reason=problem.reason,
            waits_for=f"{problem.child.kind} {problem.child.name} to be accepted: "
            f"{shortened(problem.message)}; {again}",
            since=_text(state.since) if state else "",
            steps=tuple(_steps_of_refusal(found, problem)),
        )


def _steps_of_refusal(found: Findings, problem: Problem) -> Iterator[str]:
    named = f"{problem.child.kind.lower()} {problem.child.name}"
    if problem.reason == Reason.IMMUTABLE_FIELD:
        yield f"undo the edit: {kubectl(found, 'edit')}"
        delete = kubectl(found, "delete", named)
        yield f"or have the child made anew, which stops its pods: {delete}"
    elif problem.reason == Reason.KIND_NOT_INSTALLED:
        yield "install what that names; handlers and bridges go on, and it is tried at once then"
    elif "quota" in problem.message:
        yield f"see what the quota leaves: {kubectl(found, 'describe', 'quota')}"
    elif "webhook" in problem.message:
        yield (
            "see the webhook's service and policy: kubectl get validatingwebhookconfigurations,"
            "mutatingwebhookconfigurations"
        )
    else:
        yield f"edit it as that says: {kubectl(found, 'edit')}"


def _backend_error(queue: QueueHalf) -> str:
    """Return what the last attempt said of a backend that did not answer; empty for all else."""
    last = queue.attempts[-1] if queue.attempts else None
    return last.error if last is not None and last.result == Result.DEPENDENCY_DOWN else ""


def _before(count: int) -> str:
    return f"{output.plural(count, 'message')} before it" if count else "next in the queue"


def _next(state: FailState, now: datetime) -> str:
    return f"tried again {_due(_text(state.retry_at), now)}, or when it is edited"


def _due(text: str, now: datetime) -> str:
    due = output.moment(text)
    if due is None:
        return "when something changes"
    return f"in {output.age(now, due)}" if due > now else "any moment now"


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else ""


def shortened(text: str, length_max: int = MESSAGE_MAX) -> str:
    """Return somebody else's words, or as much of them as a person reads."""
    return text if len(text) <= length_max else text[: length_max - 3] + "..."
