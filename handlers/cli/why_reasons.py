"""
From what was found out of a resource to what it waits for, and what to do.

Pure. The causes come in the order in which somebody should care: what stops Weir altogether, then
what is on its way in the queue while the spec is not yet carried out, then children and pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, Condition
from handlers.cli import output
from handlers.cli.why_findings import (
    Cause,
    Child,
    ClusterHalf,
    Findings,
    is_behind,
    is_idle,
    kubectl,
)
from handlers.cli.why_messages import (
    by_itself,
    given_up,
    in_queue,
    no_handlers,
    refused_children,
    shortened,
)
from handlers.cli.why_pods import pod_causes, slow_pods
from handlers.conditions import PROGRESSING, READY, WARNING, Reason
from handlers.lookout import OTHER_OPERATOR, STOP, seconds_to_wait
from handlers.pause import NOTHING_WAITS
from handlers.plan import Standing

_PASSING = (
    Reason.CREATING,
    Reason.ROLLING_OUT,
    Reason.WAITING_FOR_PODS,
    Reason.WAITING_FOR_DELETION,
    "NotReconciled",
)
"""Reasons of a status that the next look may find to be past."""


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a resource waits for."""

    is_ready: bool | None
    """As its status says of its present spec; None where the API server cannot be asked."""
    causes: tuple[Cause, ...] = ()
    """The one that matters most first; none where it waits for nothing."""
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """What to do, each once."""
        return tuple(dict.fromkeys(step for cause in self.causes for step in cause.steps))


def explain(found: Findings) -> Explanation:
    """Return what the resource waits for and what to do."""
    cluster = found.cluster
    is_ready = None
    if cluster is not None:
        ready = cluster.condition(READY)
        is_ready = ready is not None and ready.status == "True" and cluster.is_observed
    return Explanation(
        is_ready=is_ready,
        causes=tuple(_causes(found, is_ready=bool(is_ready))),
        notes=tuple(_notes(found)),
    )


def _causes(found: Findings, *, is_ready: bool) -> Iterator[Cause]:
    cluster = found.cluster
    if cluster is not None and not cluster.exists:
        yield _absent(found, cluster)
        return
    if cluster is not None and cluster.deleting_since:
        yield _deleting(found, cluster)
        return
    first = [*_others(found), *_paused(found), *_refused_spec(found), *given_up(found)]
    missed = [*no_handlers(found)]
    around = [
        *_children(found),
        *refused_children(found),
        *pod_causes(found),
        *slow_pods(found),
        *_unmade(found),
        *_not_served(found),
    ]
    if found.is_owed:
        # What is in quarantine or back-off waits for that, whatever the queue holds.
        here = () if missed or first else [*in_queue(found)] or [*by_itself(found)]
        causes = [*first, *missed, *here, *around]
    else:
        causes = [*first, *around, *missed]
    if not causes and not is_ready:
        causes = _otherwise(found)
    yield from causes


def _others(found: Findings) -> Iterator[Cause]:
    """Yield who else writes, and keeps handlers from writing."""
    write = found.cluster.others_write if found.cluster else None
    quiet_seconds = found.other_operator_seconds
    if write is None or not seconds_to_wait(write, found.now, quiet_seconds):
        return
    yield Cause(
        reason=OTHER_OPERATOR,
        waits_for=f"{write.manager} to be stopped: it wrote {write.object} at "
        f"{output.clock(write.time)}, and Weir writes nothing here until its last write is "
        f"{quiet_seconds:g} s old",
        since=(found.queue.others_since if found.queue else "")
        or min(write.time, found.now).isoformat(),
        steps=(
            f"find where it runs: kubectl get deployments -A -o wide | grep {write.manager}",
            f"stop it, and wait {quiet_seconds:g} s: {STOP}",
        ),
    )


def _paused(found: Findings) -> Iterator[Cause]:
    said = _condition(found, PROGRESSING, Reason.PAUSED)
    if said is not None and NOTHING_WAITS not in said.message:
        yield Cause(
            reason=Reason.PAUSED,
            waits_for=f"a `weir resume`; {shortened(said.message)}",
            since=said.last_transition_time,
            steps=(
                "take it up again: weir resume "
                + ("--all" if "`weir resume --all`" in said.message else found.target),
            ),
        )


def _condition(found: Findings, type_: str, reason: Reason) -> Condition | None:
    said = found.cluster.condition(type_) if found.cluster is not None else None
    return said if said is not None and said.reason == reason else None


def _otherwise(found: Findings) -> list[Cause]:
    """Return why a resource is not ready whose children and pods show no reason."""
    told = [*_unready(found)]
    if told and told[0].reason not in _PASSING:
        return told
    return [*in_queue(found)] or told or [*by_itself(found)]


def _absent(found: Findings, cluster: ClusterHalf) -> Cause:
    kind = found.contract.kind
    if not cluster.is_kind_served:
        return Cause(
            reason="NoSuchKind",
            waits_for=f"its CRD: this API server serves no {kind.kind}",
            steps=("install the CRDs: kubectl apply -f crds/",),
        )
    return Cause(
        reason="NotFound",
        waits_for=f"its creation: there is no {kind.kind} {found.place}",
        steps=(f"look for it in all namespaces: kubectl get {kind.plural} -A",),
    )


def _deleting(found: Findings, cluster: ClusterHalf) -> Cause:
    names = ", ".join(cluster.finalizers)
    return Cause(
        reason="Deleting",
        waits_for=f"its deletion to end, which the finalizers {names} hold up (none is Weir's)"
        if names
        else "its deletion to end",
        since=cluster.deleting_since,
        steps=(
            (
                f"find who removes the finalizers, and why it does not: "
                f"{kubectl(found, 'get')} -o jsonpath='{{.metadata.finalizers}}'"
            ),
        )
        if names
        else (),
    )


def _refused_spec(found: Findings) -> Iterator[Cause]:
    """Yield what only an edit can mend."""
    refusal = found.cluster.refusal if found.cluster else None
    if refusal is not None:
        step = f"edit it as that says: {kubectl(found, 'edit')}"
        if refusal.reason == Reason.INVALID_NAME:
            step = f"make it anew under another name, then remove this one: {kubectl(found, 'get')}"
        yield Cause(
            reason=refusal.reason,
            waits_for=f"an edit: {refusal.message}",
            since=found.cluster.edited if found.cluster else "",
            steps=(step,),
        )


def _children(found: Findings) -> Iterator[Cause]:
    """Yield what stands where children should."""
    for child in found.cluster.children if found.cluster else ():
        named = f"{child.kind.lower()} {child.name}"
        if not child.is_wanted:
            continue
        if child.standing == Standing.FOREIGN.value:
            whose = f"controlled by {child.owner}" if child.owner else "made by somebody else"
            yield Cause(
                reason=Reason.FOREIGN_OBJECT,
                waits_for=f"{child.title} to be out of the way: it is {whose}, and never touched",
                since=child.created,
                steps=(
                    f"see whose it is: {kubectl(found, 'get', named)} -o yaml",
                    (
                        f"if nobody needs it: {kubectl(found, 'delete', named)}; else make the "
                        f"resource anew under another name"
                    ),
                ),
            )
        elif child.standing == Standing.PREDECESSOR.value or child.is_being_deleted:
            yield Cause(
                reason=Reason.WAITING_FOR_DELETION,
                waits_for=f"the old {child.title} to go",
                since=child.created,
                steps=(
                    (
                        f"wait; if it stays, see its finalizers: {kubectl(found, 'get', named)} "
                        f"-o jsonpath='{{.metadata.finalizers}}'"
                    ),
                ),
            )


def _unmade(found: Findings) -> Iterator[Cause]:
    """Yield the children that are still to be made, in one."""
    missing = [child.title for child in found.missing]
    if missing:
        yield Cause(
            reason=Reason.CREATING,
            waits_for=f"{output.plural(len(missing), 'object')} to be made: {', '.join(missing)}",
        )


def _not_served(found: Findings) -> Iterator[Cause]:
    """Yield what of the spec is not as asked for, whatever becomes of the rest."""
    for notice in found.cluster.notices if found.cluster else ():
        if notice.degraded:
            yield Cause(
                reason=notice.reason,
                waits_for=f"an edit, or a later version: {notice.message}",
                since=found.cluster.edited if found.cluster else "",
                steps=(f"do without it: {kubectl(found, 'edit')}",),
            )


def _unready(found: Findings) -> Iterator[Cause]:
    """Yield what the status says, where nothing else tells why it is not ready."""
    cluster = found.cluster
    if cluster is None:
        return
    ready = cluster.condition(READY)
    if ready is None:
        yield Cause(
            reason="NotReconciled",
            waits_for="its first reconcile",
            since=cluster.created,
            steps=(f"see whether it was tried: weir history {found.target}",),
        )
        return
    step = _STEPS.get(ready.reason, f"see what was done last: weir history {found.target}")
    yield Cause(
        reason=ready.reason,
        waits_for=f"what its condition Ready names: {shortened(ready.message)}",
        since=ready.last_transition_time,
        steps=(step.format(edit=kubectl(found, "edit"), target=found.target),),
    )


_STEPS: Mapping[str, str] = {
    Reason.INVALID_SPEC: "edit it as that says: {edit}",
    Reason.IMMUTABLE_FIELD: "undo the edit: {edit}",
    Reason.QUARANTINED: "mend the cause, then have it tried at once: weir dead retry {target}",
}
"""What to do about a condition alone, where NATS or the children tell nothing more."""


def _notes(found: Findings) -> Iterator[str]:
    """Yield what is worth knowing although the resource does not wait for it."""
    cluster, queue = found.cluster, found.queue
    if cluster is not None:
        yield from cluster.notes
        paused = _condition(found, PROGRESSING, Reason.PAUSED)
        rolling = _condition(found, WARNING, Reason.ROLLOUT_WAITS)
        yield from (shortened(said.message) for said in (paused, rolling) if said is not None)
        if not found.is_owed:
            yield from (_differs(child) for child in cluster.children if is_behind(child))
        yield from (_goes(child, found) for child in cluster.children if not child.is_wanted)
    if queue is not None:
        if queue.missing and not queue.group.is_missing:
            yield f"{', '.join(queue.missing)} missing: a process of Weir makes it again in seconds"
        if queue.state is not None and queue.state.crashes:
            yield (
                f"handlers died {output.plural(queue.state.crashes, 'time')} while they ran it: it "
                f"runs alone now"
            )
        if queue.state is not None and queue.state.has_failed and found.present_state is None:
            yield "the failures below are of a former spec: the present one is tried afresh"
        if not queue.waiting and is_idle(queue.group) and not queue.group.is_missing:
            yield "no handler takes messages now; none is needed until one waits"


def _goes(child: Child, found: Findings) -> str:
    """Return when a child goes that is not wanted."""
    state = found.queue.state if found.queue is not None else None
    waits = {tuple(name) for name in state.handing_over} if state is not None else set()
    if (child.kind, child.name) not in waits:
        return f"{child.title} is no longer asked for, and goes at the next look"
    if child.kind in (DEPLOYMENT.kind, LEADER_WORKER_SET.kind):
        return (
            f"{child.title} goes on serving until its successor does, or one of the successor's "
            f"pods lacks room or is not made"
        )
    return f"{child.title} is kept for pods of before until every workload is ready as asked"


def _differs(child: Child) -> str:
    return (
        f"{child.title} is not as this `weir` renders it: the handlers have another version or "
        f"other settings (--nats-default, --nats-engine-url), or somebody edits it"
    )
