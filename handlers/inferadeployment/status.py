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
from crds.kind import Kind
from crds.kubernetes import (
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_POOL,
    LEADER_WORKER_SET,
    SERVICE,
    STATEFUL_SET,
    Manifest,
)
from handlers import pods
from handlers.conditions import (
    DEGRADED,
    PROGRESSING,
    READY,
    SHARED_BUS,
    WARNING,
    Judgement,
    Reason,
    conditions,
)
from handlers.handler import ChildName, Observation, Problem, TerminalError
from handlers.inferadeployment import crashing, gateway, workloads
from handlers.inferadeployment.gaie import gateway_namespace, gateway_of
from handlers.inferadeployment.gateway import Acceptance, Gateway
from handlers.inferadeployment.names import (
    NATS,
    PICKER,
    POOL,
    ROUTE,
    child_name,
    common_children,
    gateway_children,
    nats_labels,
    service_children,
    service_labels,
    workload_kind,
    workload_name,
)
from handlers.inferadeployment.workloads import Workload
from handlers.manifests import entries, without_nulls

_MOVING = (
    Reason.CREATING,
    Reason.WAITING_FOR_DELETION,
    Reason.ROLLING_OUT,
    Reason.WAITING_FOR_PODS,
    Reason.WAITING_FOR_GATEWAY,
)
"""Reasons for which waiting is enough."""


class Hindrance(Struct, frozen=True, kw_only=True):
    """Something that keeps the resource from being ready, and where."""

    reason: str
    message: str


class Entrance(Struct, frozen=True, kw_only=True):
    """The parts of an Inference Gateway as they report themselves."""

    picker: Workload
    is_served: bool
    """One pod of the endpoint picker answers, of whatever version."""
    pool: Acceptance
    route: Acceptance


def status(resource: InferaDeployment, observation: Observation) -> Manifest:
    """Return the whole status that the resource should have now."""
    judged = {
        name: _service(resource, name, service, observation)
        for name, service in sorted(resource.spec.services.items())
    }
    entrance = _entrance(resource, observation)
    hindrances = [
        *_problems(observation.problems),
        *_services(resource, judged, observation),
        *_entrance_hindrances(resource, entrance, observation),
        *_others(resource, observation),
    ]
    built: Manifest = {"state": _state(judged.values())}
    if resource.metadata.generation is not None:
        built["observedGeneration"] = resource.metadata.generation
    built["services"] = {
        name: {
            "kind": workload_kind(resource.spec.services[name]).kind,
            "replicas": workload.replicas,
            "readyReplicas": workload.ready_replicas,
        }
        for name, workload in judged.items()
    }
    ready_replicas = {name: workload.ready_replicas for name, workload in judged.items()}
    crash = crashing.said_before(resource, ready_replicas, {one.reason for one in hindrances})
    if crash is not None:
        hindrances = [Hindrance(reason=crash.reason, message=crash.message)]
    if entrance is not None:
        built["gaie"] = _gaie(resource, entrance)
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
        gone=(WARNING, SHARED_BUS),
    )
    return built


def serves(resource: InferaDeployment, child: ChildName, live: Manifest) -> bool:
    """
    Say whether a workload does what is asked of it, as the status judges it.

    That is one of a service, or the endpoint picker.
    """
    observation = Observation(children={child: live}, now="")
    if child == ChildName(DEPLOYMENT.kind, child_name(resource.metadata.name, PICKER)):
        entrance = _entrance(resource, observation)
        return entrance is not None and entrance.picker.is_satisfied
    return any(
        child == workload_name(resource.metadata.name, name, service)
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
    if resource.status is not None and resource.status.gaie is not None:
        names += gateway_children(deployment)
    return names


def _service(
    resource: InferaDeployment, name: str, service: Service, observation: Observation
) -> Workload:
    child = workload_name(resource.metadata.name, name, service)
    live = observation.children.get(child)
    if child.kind == DEPLOYMENT.kind:
        return workloads.deployment(live, service.replicas)
    return workloads.leader_worker_set(live, service.replicas)


def _entrance(resource: InferaDeployment, observation: Observation) -> Entrance | None:
    """Return how the Inference Gateway stands, None where there is to be none."""
    gaie = gateway_of(resource)
    if gaie is None:
        return None
    deployment = resource.metadata.name
    meant = Gateway(name=gaie.gateway_name or "", namespace=gateway_namespace(resource, gaie))

    def live(kind: Kind, suffix: str) -> Manifest | None:
        return observation.children.get(ChildName(kind.kind, child_name(deployment, suffix)))

    picker = workloads.deployment(live(DEPLOYMENT, PICKER), 1)
    return Entrance(
        picker=picker,
        is_served=picker.ready_replicas > 0,
        pool=gateway.pool(live(INFERENCE_POOL, POOL), meant),
        route=gateway.route(live(HTTP_ROUTE, ROUTE), meant),
    )


def _gaie(resource: InferaDeployment, entrance: Entrance) -> Manifest:
    deployment = resource.metadata.name
    pool, route = entrance.pool, entrance.route
    return {
        "eppReplicas": entrance.picker.replicas,
        "eppReadyReplicas": entrance.picker.ready_replicas,
        "inferencePoolName": child_name(deployment, POOL),
        "inferencePoolReady": pool.is_ready,
        "httpRouteName": child_name(deployment, ROUTE),
        "httpRouteAccepted": route.is_accepted,
        "ready": entrance.is_served and pool.is_ready and route.is_ready,
    }


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


def _services(
    resource: InferaDeployment, judged: dict[str, Workload], observation: Observation
) -> Iterator[Hindrance]:
    deployment = resource.metadata.name
    for name, workload in judged.items():
        child = workload_name(deployment, name, resource.spec.services[name])
        is_told = workload.reason == Reason.CREATING and _has_problem(child, observation)
        if not workload.is_satisfied and not is_told:
            labels = service_labels(deployment, name)
            group = child.name if child.kind == LEADER_WORKER_SET.kind else ""
            yield _lacking(f"service {name}", workload, observation, labels, group)


def _entrance_hindrances(
    resource: InferaDeployment, entrance: Entrance | None, observation: Observation
) -> Iterator[Hindrance]:
    """Yield what keeps requests that come through the Gateway from being served."""
    if entrance is None:
        return
    deployment = resource.metadata.name
    if not entrance.picker.is_satisfied:
        labels = service_labels(deployment, PICKER)
        yield _lacking("the endpoint picker", entrance.picker, observation, labels)
    for kind, suffix, part in (
        (INFERENCE_POOL, POOL, entrance.pool),
        (HTTP_ROUTE, ROUTE, entrance.route),
    ):
        child = ChildName(kind.kind, child_name(deployment, suffix))
        if not part.is_ready and not _has_problem(child, observation):
            yield Hindrance(reason=part.reason, message=f"{kind.kind} {child.name} {part.lacks}")


def _others(resource: InferaDeployment, observation: Observation) -> Iterator[Hindrance]:
    """Yield what hinders the children that are neither a service's workload nor a gateway's."""
    deployment = resource.metadata.name
    judged = {
        workload_name(deployment, name, service) for name, service in resource.spec.services.items()
    }
    judged |= {child for child in gateway_children(deployment) if child.kind != SERVICE.kind}
    for child, live in sorted(observation.children.items()):
        if child == ChildName(STATEFUL_SET.kind, child_name(deployment, NATS)):
            workload = workloads.stateful_set(live, 1)
            if not workload.is_satisfied:
                yield _lacking("the own NATS", workload, observation, nats_labels(deployment))
        elif child not in judged and live is None and not _has_problem(child, observation):
            message = f"{child.kind} {child.name} does not exist yet: wait"
            yield Hindrance(reason=Reason.CREATING, message=message)


def _has_problem(child: ChildName, observation: Observation) -> bool:
    return any(problem.child == child for problem in observation.problems)


def _lacking(
    what: str,
    workload: Workload,
    observation: Observation,
    labels: dict[str, str],
    group: str = "",
) -> Hindrance:
    """Return what a workload lacks, with the reason of its pods where they gave one."""
    found = pods.troubles(observation.pods or (), labels, group)
    if not found:
        return Hindrance(reason=workload.reason, message=f"{what} {workload.lacks}")
    said = "; ".join(trouble.message for trouble in found)
    return Hindrance(reason=found[0].reason, message=f"{what} {workload.lacks}: {said}")


def _conditions(
    resource: InferaDeployment, observation: Observation, hindrances: list[Hindrance]
) -> list[Manifest]:
    before = (resource.status.conditions if resource.status else None) or []
    degraded = [Hindrance(reason=p.reason, message=_said(p)) for p in observation.problems]
    noticed: dict[str, list[Hindrance]] = {WARNING: [], SHARED_BUS: []}
    for notice in observation.notices:
        told = Hindrance(reason=notice.reason, message=notice.message)
        type_ = SHARED_BUS if notice.reason == Reason.SHARED_BUS else WARNING
        (degraded if notice.degraded else noticed[type_]).append(told)
    judged = [
        _judged(READY, hindrances, (True, Reason.ALL_READY, "everything asked for is ready")),
        _progressing(hindrances),
        _judged(DEGRADED, degraded, (False, Reason.AS_ASKED, "every child is as asked for")),
    ]
    judged += [_joined(type_, found, status=True) for type_, found in noticed.items() if found]
    return conditions(
        without_nulls(msgspec.to_builtins(before)),
        judged,
        generation=resource.metadata.generation,
        now=observation.now,
        gone=[type_ for type_, found in noticed.items() if not found],
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
