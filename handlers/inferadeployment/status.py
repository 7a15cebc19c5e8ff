"""
The status of an InferaDeployment, from what is true of its children.

`state` speaks of the services alone, as AMD's operator does; the condition Ready of every child.
Pure: the same observation gives the same bytes, so at rest nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from crds.inferadeployment import InferaDeployment, Service
from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, SERVICE, STATEFUL_SET, Manifest
from handlers import pods
from handlers.conditions import (
    DEGRADED,
    PROGRESSING,
    READY,
    WARNING,
    Judgement,
    Reason,
    conditions,
)
from handlers.handler import ChildName, Observation, Problem, TerminalError
from handlers.inferadeployment import workloads
from handlers.inferadeployment.names import (
    NATS,
    child_name,
    common_children,
    nats_labels,
    service_children,
    service_labels,
)
from handlers.inferadeployment.render import is_served
from handlers.inferadeployment.workloads import Workload
from handlers.manifests import entries, without_nulls

_MOVING = (
    Reason.CREATING,
    Reason.WAITING_FOR_DELETION,
    Reason.ROLLING_OUT,
    Reason.WAITING_FOR_PODS,
)
"""Reasons for which waiting is enough."""


class Hindrance(Struct, frozen=True, kw_only=True):
    """Something that keeps the resource from being ready, and where."""

    reason: str
    message: str


def status(resource: InferaDeployment, observation: Observation) -> Manifest:
    """Return the whole status that the resource should have now."""
    judged = {
        name: _service(resource, name, service, observation)
        for name, service in sorted(resource.spec.services.items())
    }
    hindrances = [
        *_problems(observation.problems),
        *_unserved(observation),
        *_services(resource, judged, observation),
        *_others(resource, observation),
    ]
    built: Manifest = {"state": _state(judged.values())}
    if resource.metadata.generation is not None:
        built["observedGeneration"] = resource.metadata.generation
    built["services"] = {
        name: {
            "kind": _kind(resource.spec.services[name]),
            "replicas": workload.replicas,
            "readyReplicas": workload.ready_replicas,
        }
        for name, workload in judged.items()
    }
    built["conditions"] = _conditions(resource, observation, hindrances)
    return built


def refused(raw: Manifest, error: TerminalError, now: str) -> Manifest:
    """
    Return the status of a resource that cannot be served until it is edited.

    What the last status says of services stays: their workloads go on as they are.
    """
    metadata, before = raw.get("metadata") or {}, raw.get("status") or {}
    generation = metadata.get("generation")
    built: Manifest = {"state": "failed"}
    if generation is not None:
        built["observedGeneration"] = generation
    for field in ("services", "gaie"):
        if before.get(field):
            built[field] = before[field]
    built["conditions"] = conditions(
        entries(before, "conditions"),
        (
            Judgement(type=READY, status=False, reason=error.reason, message=error.message),
            Judgement(
                type=PROGRESSING,
                status=False,
                reason=error.reason,
                message="nothing is changed until the resource is edited",
            ),
            Judgement(type=DEGRADED, status=True, reason=error.reason, message=error.message),
        ),
        generation=generation,
        now=now,
        gone=(WARNING,),
    )
    return built


def serves(resource: InferaDeployment, child: ChildName, live: Manifest) -> bool:
    """Say whether the workload of a service does what is asked of it, as the status judges it."""
    observation = Observation(children={child: live}, now="")
    return any(
        child == ChildName(_kind(service), child_name(resource.metadata.name, name))
        and _service(resource, name, service, observation).is_satisfied
        for name, service in resource.spec.services.items()
    )


def recorded(resource: InferaDeployment) -> tuple[ChildName, ...]:
    """Return the children that the last status and the fixed names give."""
    deployment = resource.metadata.name
    names = common_children(deployment)
    known = (resource.status.services if resource.status else None) or {}
    for service, reported in sorted(known.items()):
        if reported.kind in (DEPLOYMENT.kind, LEADER_WORKER_SET.kind):
            name = child_name(deployment, service)
            names += (ChildName(reported.kind, name), ChildName(SERVICE.kind, name))
        else:
            names += service_children(deployment, service)
    return names


def _kind(service: Service) -> str:
    return DEPLOYMENT.kind if service.number_of_nodes == 1 else LEADER_WORKER_SET.kind


def _service(
    resource: InferaDeployment, name: str, service: Service, observation: Observation
) -> Workload:
    if not is_served(resource, service):
        return Workload(reason=Reason.NOT_SERVED_YET, lacks="is not served by this version yet")
    workload = child_name(resource.metadata.name, name)
    live = observation.children.get(ChildName(DEPLOYMENT.kind, workload))
    return workloads.deployment(live, service.replicas)


def _state(judged: Iterable[Workload]) -> str:
    found = list(judged)
    if all(workload.is_satisfied for workload in found):
        return "ready"
    if all(workload.reason == Reason.CREATING for workload in found):
        return "initializing"
    return "pending"


def _problems(problems: Iterable[Problem]) -> Iterator[Hindrance]:
    """Yield what keeps children from being as rendered, but for fields that nobody knows."""
    for problem in problems:
        if problem.reason != Reason.FIELD_NOT_KNOWN:
            yield Hindrance(reason=problem.reason, message=_said(problem))


def _said(problem: Problem) -> str:
    return f"{problem.child.kind} {problem.child.name}: {problem.message}"


def _unserved(observation: Observation) -> Iterator[Hindrance]:
    """Yield the notices of what is left out; each already names its service."""
    for notice in observation.notices:
        if notice.degraded and notice.reason == Reason.NOT_SERVED_YET:
            yield Hindrance(reason=notice.reason, message=notice.message)


def _services(
    resource: InferaDeployment, judged: dict[str, Workload], observation: Observation
) -> Iterator[Hindrance]:
    for name, workload in judged.items():
        if not workload.is_satisfied and workload.reason != Reason.NOT_SERVED_YET:
            labels = service_labels(resource.metadata.name, name)
            yield _lacking(f"service {name}", workload, observation, labels)


def _others(resource: InferaDeployment, observation: Observation) -> Iterator[Hindrance]:
    """Yield what hinders the children that are no service's workload."""
    deployment = resource.metadata.name
    service_workloads = {child_name(deployment, name) for name in resource.spec.services}
    has_problem = {problem.child for problem in observation.problems}
    for child, live in sorted(observation.children.items()):
        if child == ChildName(STATEFUL_SET.kind, child_name(deployment, NATS)):
            workload = workloads.stateful_set(live, 1)
            if not workload.is_satisfied:
                yield _lacking("the own NATS", workload, observation, nats_labels(deployment))
        elif child.kind == DEPLOYMENT.kind and child.name in service_workloads:
            continue
        elif live is None and child not in has_problem:
            message = f"{child.kind} {child.name} does not exist yet: wait"
            yield Hindrance(reason=Reason.CREATING, message=message)


def _lacking(
    what: str, workload: Workload, observation: Observation, labels: dict[str, str]
) -> Hindrance:
    """Return what a workload lacks, with the reason of its pods where they gave one."""
    found = pods.troubles(observation.pods or (), labels)
    if not found:
        return Hindrance(reason=workload.reason, message=f"{what} {workload.lacks}")
    said = "; ".join(trouble.message for trouble in found)
    return Hindrance(reason=found[0].reason, message=f"{what} {workload.lacks}: {said}")


def _conditions(
    resource: InferaDeployment, observation: Observation, hindrances: list[Hindrance]
) -> list[Manifest]:
    before = (resource.status.conditions if resource.status else None) or []
    degraded = [Hindrance(reason=p.reason, message=_said(p)) for p in observation.problems]
    warnings: list[Hindrance] = []
    for notice in observation.notices:
        told = Hindrance(reason=notice.reason, message=notice.message)
        (degraded if notice.degraded else warnings).append(told)
    judged = [
        _judged(READY, hindrances, (True, Reason.ALL_READY, "everything asked for is ready")),
        _progressing(hindrances),
        _judged(DEGRADED, degraded, (False, Reason.AS_ASKED, "every child is as asked for")),
    ]
    if warnings:
        judged.append(_judged(WARNING, warnings, (False, Reason.AS_ASKED, "")))
    return conditions(
        without_nulls(msgspec.to_builtins(before)),
        judged,
        generation=resource.metadata.generation,
        now=observation.now,
        gone=() if warnings else (WARNING,),
    )


def _progressing(hindrances: list[Hindrance]) -> Judgement:
    moving = [hindrance for hindrance in hindrances if hindrance.reason in _MOVING]
    if moving:
        return _joined(PROGRESSING, moving, status=True)
    if hindrances:
        reason = _joined(READY, hindrances, status=False).reason
        message = "waiting does not help: see the condition Ready"
        return Judgement(type=PROGRESSING, status=False, reason=reason, message=message)
    return Judgement(
        type=PROGRESSING, status=False, reason=Reason.ALL_READY, message="nothing is under way"
    )


def _judged(type_: str, found: list[Hindrance], otherwise: tuple[bool, Reason, str]) -> Judgement:
    status_, reason, message = otherwise
    if found:
        return _joined(type_, found, status=not status_)
    return Judgement(type=type_, status=status_, reason=reason, message=message)


def _joined(type_: str, found: list[Hindrance], *, status: bool) -> Judgement:
    """Return one condition for all: the reason of what waiting cannot mend stands first."""
    ordered = sorted(found, key=lambda hindrance: hindrance.reason in _MOVING)
    return Judgement(
        type=type_,
        status=status,
        reason=ordered[0].reason,
        message="; ".join(hindrance.message for hindrance in ordered),
    )
