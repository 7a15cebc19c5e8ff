"""
THE STORY: make the cluster match one resource, and say in its status what is true.

Level-triggered: everything is read afresh, and the event only says where to look. get -> render ->
apply -> prune -> status; each step is a file.
"""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from bridge.events import ChangeEvent, EventType, ObjectKey
from bridge.kube import Kube
from bridge.kube_errors import Conflict, NotFound, Refused
from bridge.objects import read_object
from bridge.settings import Settings
from bridge.telemetry import logger
from crds.kubernetes import Manifest
from handlers import plan
from handlers.budget import unlimited
from handlers.children import World, match_children, wanted_in_cluster
from handlers.conditions import READY, WARNING, Reason, is_ready, moment, transitions
from handlers.errors import CONFLICT_RETRY_SECONDS, GiveBack
from handlers.handler import AnyHandler, Observation, Short, TerminalError
from handlers.kube_events import post_events
from handlers.lookout import OTHER_OPERATOR, Lookout, without_others_status
from handlers.notices import notices_of_children
from handlers.pause import PausedWrites, is_paused, paused_status
from handlers.pod_reads import read_pods
from handlers.reads import Reads
from handlers.settle import Outcome, Result, holds_back
from handlers.stays import notices_of

if TYPE_CHECKING:
    from handlers.state import FailState
    from handlers.writes import Writes

STATUS_FIELDS = ("state", "phase", "observedGeneration", "services", "gaie", "conditions")
"""What is kept of the status of a resource that cannot be decoded."""
DUE = (EventType.TIMER, EventType.RETRY)
"""Events that are tries: back-off and quarantine do not hold them."""
STATUS_CONFLICT_RETRIES = 3
TAKEN_OVER = " (taken over from a handler that did not finish)"
UNTIMED_PROBLEMS = ("WaitingForDeletion", "ImmutableField")
"""Problems that an event ends: time alone does not."""
COSTLY_PROBLEMS = ("Refused", "KindNotInstalled", "ImmutableField", "FieldNotKnown")
"""Problems that the API server told us of by refusing a write."""
PATIENCE = 6
"""What has been unready for six minutes is looked at every minute."""

log = logger(__name__)


class Subject(Struct, kw_only=True):
    """Which state of which resource a reconcile found, for whoever settles its end."""

    resource: Manifest | None = None
    uid: str = ""
    generation: int = 0

    def found(self, resource: Manifest) -> None:
        """Remember the resource that was read."""
        self.resource = resource
        self.uid = resource["metadata"]["uid"]
        self.generation = resource["metadata"].get("generation", 0)


async def reconcile(
    event: ChangeEvent,
    handler: AnyHandler,
    state: FailState,
    writer: Writes,
    world: World,
    subject: Subject,
) -> Outcome:
    """Return how it ended; raise what keeps it from its end (errors.py)."""
    lost = ""
    async with Reads(world.kube, handler.contract, event.key.namespace) as reads:
        reads.begin_for(event)
        for _ in range(STATUS_CONFLICT_RETRIES):
            resource = await read_resource(handler, event.key, world.kube)
            if resource is None or plan.is_being_deleted(resource):
                # No finalizer: children go by their owner references, and nothing is created any
                # more.
                return Outcome(result=Result.GONE)
            subject.found(resource)
            if event.type not in DUE and holds_back(
                state, subject.uid, subject.generation, time.time()
            ):
                return Outcome(result=Result.HELD, reason=state.error.partition(":")[0])
            lookout = Lookout(world.settings, datetime.now(UTC))
            # Before a pause, and before a refusal: they write the status, as the other operator
            # does.
            lookout.require_silence(resource)
            try:
                return await _make_match(
                    event, handler, resource, state, writer, world, lookout, reads
                )
            except NotFound as exc:
                if lost == resource["metadata"]["resourceVersion"]:
                    # It is there, and nothing can be written for it: its namespace is gone, and it
                    # was left behind. Nobody can serve it.
                    log.warning("left behind in a namespace that is gone", error=exc.message)
                    return Outcome(result=Result.GONE, reason="NamespaceGone")
                lost = resource["metadata"]["resourceVersion"]
            except Conflict as exc:
                # It was edited: what was read is no base for a write.
                log.debug("resource changed meanwhile", action="reconcile", error=exc.message)
            await reads.drop()
    raise GiveBack("the resource keeps changing", CONFLICT_RETRY_SECONDS, grows=True)


async def read_resource(handler: AnyHandler, key: ObjectKey, kube: Kube) -> Manifest | None:
    """
    Return the resource, None where there is none.

    Of what no decoder takes (the API server stores what is nested thousands deep) metadata and
    status are returned, without a spec.
    """
    kind = handler.contract.kind
    data = await kube.get(kind, key.namespace, key.name)
    if data is None:
        return None
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        whole: Manifest = msgspec.json.decode(data)
        return whole
    seen = read_object(data, STATUS_FIELDS)
    status = {field: msgspec.json.decode(text) for field, text in seen.status.items()}
    metadata = msgspec.to_builtins(seen.meta)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
        **({"status": status} if status else {}),
    }


async def _make_match(
    event: ChangeEvent,
    handler: AnyHandler,
    resource: Manifest,
    state: FailState,
    writer: Writes,
    world: World,
    lookout: Lookout,
    reads: Reads,
) -> Outcome:
    now = now_text()
    try:
        wanted = await wanted_in_cluster(event, handler, resource, world.facts, reads)
    except TerminalError as exc:
        await _refuse(handler, resource, handler.refused(resource, exc, now), writer, world)
        error = f"{exc.reason}: {exc.message}"
        return Outcome(result=Result.REFUSED, reason=exc.reason, error=error)

    everything = world.paused()
    paused = PausedWrites(writer) if everything or is_paused(resource) else None
    if paused is not None:
        world = msgspec.structs.replace(world, may_roll_out=unlimited)
    matched = await match_children(
        event, handler, resource, wanted, state, paused or writer, world, lookout, reads
    )
    children, problems = matched.children, matched.problems
    notices = (
        *wanted.rendering.notices,
        *notices_of_children(children),
        *notices_of(matched.stays),
    )
    handing_over = tuple(stay.child for stay in matched.stays)
    short = tuple(
        Short(workload=stay.child, since=stay.short_since)
        for stay in matched.stays
        if stay.short_since
    )
    observation = Observation(
        children={child.name: child.live for child in children},
        notices=notices,
        problems=tuple(problems),
        now=now,
    )
    status = await _status(handler, wanted.typed, resource, observation, world)
    if paused is not None:
        status = paused_status(status, resource, everything, sorted(paused.waiting), now)
        await write_status(handler, resource, status, writer, world)
        return Outcome(
            result=Result.PAUSED,
            reason=Reason.PAUSED,
            # Nothing tells of the end of a pause of everything, but for a look.
            requeue_seconds=world.settings.not_ready_seconds
            if paused.waiting or handing_over
            else None,
            handing_over=handing_over,
            short=short,
        )
    if writer.is_fencing:
        status = _fenced(status, resource.get("status") or {})
    entries = without_others_status(resource)
    if entries is not None:
        # By now every workload is ours, or forgot what was applied to it.
        resource = await writer.take_fields(handler.contract.kind, resource, entries)
    await write_status(handler, resource, status, writer, world)
    if world.settings.dry_run:
        # Nothing was done that time could complete: an event or a resync brings the next look.
        result = Result.WOULD_CHANGE if writer.has_started else Result.UNCHANGED
        reason = problems[0].reason if problems else ""
        if lookout.seen:
            reason = OTHER_OPERATOR
        return Outcome(result=result, reason=reason, error=lookout.why)
    waits = any(child.waits for child in children)
    look_again = writer.is_fencing or waits or bool(handing_over) or not is_ready(status)
    waited = max(
        _waited_seconds(status, now), _warned_seconds(status, now) if handing_over else 0.0
    )
    return Outcome(
        result=Result.CHANGED if writer.has_started else Result.UNCHANGED,
        reason=problems[0].reason if problems else "",
        error="; ".join(map(str, problems)),
        requeue_seconds=look_again_seconds(waited, world.settings) if look_again else None,
        has_problems=any(p.reason not in UNTIMED_PROBLEMS for p in problems),
        follows_death=writer.is_fencing,
        refused=tuple(p for p in problems if p.reason in COSTLY_PROBLEMS),
        handing_over=handing_over,
        short=short,
    )


async def _status(
    handler: AnyHandler, typed: Any, resource: Manifest, observation: Observation, world: World
) -> Manifest:
    """Return the status; of what has been unready for a while, the pods are asked why."""
    status = handler.status(typed, observation)
    waited = _waited_seconds(resource.get("status") or {}, observation.now)
    if is_ready(status) or waited < world.settings.not_ready_seconds / 2:
        return status
    namespace = resource["metadata"]["namespace"]
    pods = await read_pods(world.kube, namespace, handler.pod_selector(typed))
    ailing = tuple(pod for pod in pods if not is_ready(pod.get("status") or {}))
    return handler.status(typed, msgspec.structs.replace(observation, pods=ailing))


def _waited_seconds(status: Manifest, now: str) -> float:
    """Return how long a resource has been unready; 0 where it is ready, or was never judged."""
    return _seconds_of(status, now, READY, ("False", "Unknown"))


def _warned_seconds(status: Manifest, now: str) -> float:
    """Return for how long there has been something to warn of."""
    return _seconds_of(status, now, WARNING, ("True",))


def _seconds_of(status: Manifest, now: str, type_: str, values: tuple[str, ...]) -> float:
    since = next(
        (
            condition.get("lastTransitionTime")
            for condition in status.get("conditions") or ()
            if condition.get("type") == type_ and condition.get("status") in values
        ),
        now,
    )
    begun, present = moment(since), moment(now)
    return (present - begun).total_seconds() if begun and present else 0.0


def look_again_seconds(waited_seconds: float, settings: Settings) -> float:
    """
    Return when to look again at what is not ready: more seldom the longer it takes.

    Only the reasons of its pods are found that way; whatever changes its children is an event.
    """
    patient = min(waited_seconds / PATIENCE, settings.not_ready_seconds_max)
    return max(settings.not_ready_seconds, patient)


async def _refuse(
    handler: AnyHandler, resource: Manifest, status: Manifest, writer: Writes, world: World
) -> None:
    """
    Say in the status and in Events that only an edit helps; in Events alone where it must be so.

    An object that was stored before its CRD was as strict as now may take no status: the rules
    of the schema (CEL) are judged over the whole object, and cannot be evaluated on this one.
    """
    try:
        await write_status(handler, resource, status, writer, world)
    except Refused as exc:
        log.warning("status refused", action="status", error=exc.message)
        changes = transitions(resource.get("status") or {}, status)
        await post_events(writer, resource, changes, world.identity, now_text(), once=True)


async def write_status(
    handler: AnyHandler, resource: Manifest, status: Manifest, writer: Writes, world: World
) -> None:
    """Write the status where it differs, and an Event per transition."""
    before = resource.get("status") or {}
    if status == before:
        return
    # Events first, the status very last: cut in between, the transition is still to be told, and an
    # Event of the same transition has the same name.
    await post_events(writer, resource, transitions(before, status), world.identity, now_text())
    await writer.put_status(handler.contract.kind, resource, status)


def _fenced(status: Manifest, before: Manifest) -> Manifest:
    """
    Return a status that differs from the one before, so that it gets another resourceVersion.

    A status that the last holder may still be writing names the one before, and fails. The words
    go at the next look; no condition's state or reason changes over them.
    """
    if status != before or not status.get("conditions"):
        return status
    *others, last = status["conditions"]
    return {
        **status,
        "conditions": [*others, {**last, "message": f"{last.get('message', '')}{TAKEN_OVER}"}],
    }


def now_text() -> str:
    """Return the time as RFC 3339, to the second, as Kubernetes writes it."""
    return datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
