"""
How `weir why` reads to somebody who was woken up: the conclusion, what to do, then the evidence.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from handlers.cli import output
from handlers.cli.history import Attempt
from handlers.cli.why_findings import (
    Cause,
    Child,
    ClusterHalf,
    Findings,
    Pod,
    QueueHalf,
    is_behind,
    is_idle,
)
from handlers.cli.why_messages import shortened
from handlers.cli.why_reasons import Explanation
from handlers.conditions import READY
from handlers.state import FailState

ERRORS_MAX = 3
"""Attempts that went wrong are told, the newest; `weir history` tells all."""
PODS_MAX = 10
"""Pods that are not ready are told one by one up to so many."""
CELL_MAX = 160
"""Characters of somebody else's words in a cell; `-o json` has them all."""


def headline(found: Findings, explanation: Explanation) -> str:
    """Return the one line that says it: `chat is waiting for: ...`."""
    begin = f"{found.key.name} is waiting for: "
    if explanation.causes:
        cause = explanation.causes[0]
        more = len(explanation.causes) - 1
        others = f" (and {more} more, below)" if more else ""
        return begin + _with_since(cause, found) + others
    if explanation.is_ready is None:
        return f"{begin}nothing that NATS knows of; the API server cannot be asked"
    ready = found.cluster.condition(READY) if found.cluster else None
    since = output.age(output.moment(ready.last_transition_time if ready else ""), found.now)
    return f"{begin}nothing; it has been Ready for {since}"


def as_text(found: Findings, explanation: Explanation) -> str:
    """Return all of it."""
    parts = [output.printable(headline(found, explanation))]
    parts += _listed("What to do:", explanation.steps)
    others = (_with_since(cause, found) for cause in explanation.causes[1:])
    parts += _listed("It also waits for:", tuple(others))
    parts += _listed("Worth knowing:", explanation.notes)
    parts.append(output.fields(_facts(found)))
    if found.cluster is not None:
        parts += _cluster_tables(found, found.cluster)
    if found.queue is not None:
        parts += _errors(found.queue, found)
    return "\n\n".join(parts)


def _with_since(cause: Cause, found: Findings) -> str:
    since = output.moment(cause.since)
    return f"{cause.waits_for}, for {output.age(since, found.now)}" if since else cause.waits_for


def _listed(title: str, lines: tuple[str, ...]) -> list[str]:
    if not lines:
        return []
    return ["\n".join([title, *(f"  - {output.printable(line)}" for line in lines)])]


def _facts(found: Findings) -> Iterator[tuple[str, str]]:
    kind = found.contract.kind.kind
    yield "Resource", f"{kind} {found.place}"
    if found.cluster is None:
        yield "Kubernetes", "cannot be asked"
    elif not found.cluster.exists:
        yield "Kubernetes", "has no such resource"
    else:
        yield from _facts_of_cluster(found.cluster, found)
    if found.queue is None:
        yield "NATS", "cannot be asked"
    else:
        yield from _facts_of_queue(found.queue, found)


def _facts_of_cluster(cluster: ClusterHalf, found: Findings) -> Iterator[tuple[str, str]]:
    seen = "the status speaks of it"
    if not cluster.is_observed:
        older = cluster.observed_generation
        seen = "no status yet" if older is None else f"the status speaks of {older}"
    edited = output.age(output.moment(cluster.edited), found.now)
    yield "Generation", f"{cluster.generation}, edited {edited} ago; {seen}"


def _facts_of_queue(queue: QueueHalf, found: Findings) -> Iterator[tuple[str, str]]:
    yield "Queue", "; ".join(_slots(queue, found)) or "no message is about it"
    yield "Handlers", _handlers(queue)
    if queue.lease is not None:
        renewed = output.age(output.moment(queue.lease.renewed), found.now)
        since = output.moment(queue.lease.since)
        begun = f", at work for {output.age(since, found.now)}" if since else ""
        yield "Lease", f"{queue.lease.holder}{begun}, renewed {renewed} ago"
    else:
        yield "Lease", "nobody"
    due = output.moment(queue.timer_due)
    if due is not None:
        left = f"in {output.age(found.now, due)}" if due > found.now else "due"
        yield "Next look", f"{left} ({output.clock(due)})"
    if queue.state is not None and queue.state.has_failed:
        yield "Failures", _failures(queue.state)
    if queue.letter is not None:
        given = output.age(output.moment(queue.letter.time), found.now)
        yield "Dead letter", f"written {given} ago: {queue.letter.reason}"
    if queue.attempts:
        last = queue.attempts[-1]
        when = output.age(output.moment(last.time), found.now)
        yield "Last attempt", f"{last.result}, {when} ago, by {last.handler}"


def _failures(state: FailState) -> str:
    counted = (
        (state.failures, "failed"),
        (state.refusals, "child refused"),
        (state.crashes, "handler died"),
    )
    told = ", ".join(f"{what} {output.plural(count, 'time')}" for count, what in counted if count)
    error = f": {shortened(state.error)}" if state.error else ""
    return f"of generation {state.generation}, in a row: {told}{error}"


def _slots(queue: QueueHalf, found: Findings) -> Iterator[str]:
    for slot in queue.slots:
        age = output.age(output.moment(slot.published), found.now)
        cause = slot.cause or "event"
        place = f"{output.plural(slot.before, 'message')} before it"
        state = "taken by a handler" if slot.is_taken else f"waits, {place}"
        yield f"{cause} (slot {slot.slot}, sequence {slot.sequence}), {age} old, {state}"


def _handlers(queue: QueueHalf) -> str:
    group = queue.group
    if group.is_missing:
        return "their consumer is missing"
    does = "take messages"
    if is_idle(group):
        does = "none runs" if queue.has_live_handlers is False else "none takes messages"
    elif not group.pulls:
        does = "are all busy"
    return f"{does} ({group.leases} resources in work, {group.pending} messages wait in all)"


def _cluster_tables(found: Findings, cluster: ClusterHalf) -> Iterator[str]:
    if cluster.conditions:
        yield output.table(
            ("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"),
            (
                (
                    one.type,
                    one.status,
                    one.reason,
                    output.age(output.moment(one.last_transition_time), found.now),
                    shortened(one.message, CELL_MAX),
                )
                for one in cluster.conditions
            ),
        )
    if cluster.children:
        yield output.table(
            ("CHILD", "OWNER", "STATE", "READY", "AGE"),
            (_child_row(child, found) for child in cluster.children),
        )
    unready = [pod for pod in cluster.pods if not pod.is_ready]
    if unready:
        rows = (_pod_row(pod, found) for pod in unready[:PODS_MAX])
        table = output.table(("POD", "STATE", "NODE", "AGE", "WHY"), rows)
        more = len(unready) - PODS_MAX
        yield f"{table}\n... and {more} more that are not ready" if more > 0 else table


def _child_row(child: Child, found: Findings) -> tuple[str, ...]:
    state = child.standing
    if child.is_being_deleted:
        state += ", being deleted"
    elif not child.is_wanted:
        state += ", no longer wanted"
    elif is_behind(child):
        state += ", to be changed"
    ready = "" if child.replicas is None else f"{child.ready_replicas}/{child.replicas}"
    age = output.age(output.moment(child.created), found.now) if child.created else ""
    return f"{child.kind}/{child.name}", child.owner, state, ready, age


def _pod_row(pod: Pod, found: Findings) -> tuple[str, ...]:
    why = pod.message.removeprefix(f"pod {pod.name} ")
    age = output.age(output.moment(pod.created), found.now)
    return pod.name, pod.phase, pod.node, age, shortened(why, CELL_MAX)


def _errors(queue: QueueHalf, found: Findings) -> Iterator[str]:
    wrong = [attempt for attempt in queue.attempts if attempt.error or attempt.reason]
    if wrong:
        yield output.table(
            ("LAST ERRORS", "RESULT", "HANDLER", "ERROR"),
            (_error_row(attempt, found) for attempt in wrong[-ERRORS_MAX:]),
        )


def _error_row(attempt: Attempt, found: Findings) -> tuple[str, ...]:
    ago = f"{output.age(output.moment(attempt.time), found.now)} ago"
    error = shortened(attempt.error or attempt.reason, CELL_MAX)
    return ago, attempt.result, attempt.handler, error
