"""
What a resource waits for where its pods are concerned, and what to do about it.

Pure. The scheduler's and the kubelet's words are read as `handlers.pods` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

from msgspec import Struct

from crds.kubernetes import LEADER_WORKER_SET
from handlers.cli import output
from handlers.cli.why_findings import Cause, Child, Findings, Pod, kubectl
from handlers.conditions import Reason

SCHEDULER_SECONDS = 30
"""A scheduler that is well says something of a pod much sooner, on a full fleet too."""
STARTING_SECONDS = 60
"""Pods that start for longer are worth a look."""


class Shortage(Struct, frozen=True, kw_only=True):
    """Something for which the scheduler leaves nodes out."""

    pattern: str
    """Of its words. Source: Kubernetes, pkg/scheduler/framework/plugins, `ErrReason...`."""
    means: str
    step: str


SHORTAGES = (
    Shortage(
        pattern=r"Insufficient (\S*[^\s.])",
        means="no node has enough {} left",
        step="see what the nodes have left of {}: kubectl describe nodes | grep -A 12 'Allocated "
        "resources'; free some or add nodes, or ask for less",
    ),
    Shortage(
        pattern=r"didn't match Pod's node affinity/selector",
        means="no node has the labels that the pod asks for",
        step="compare its nodeSelector and affinity with kubectl get nodes --show-labels; label "
        "a node, or edit the pod's wishes",
    ),
    Shortage(
        pattern=r"untolerated taint",
        means="the nodes have taints that the pod does not tolerate",
        step="see the taints: kubectl describe nodes | grep Taints; tolerate one in the "
        "service's pod spec, or remove it",
    ),
    Shortage(
        pattern=r"(?:node\(s\) )?were unschedulable",
        means="the nodes are cordoned",
        step="see kubectl get nodes, and uncordon what is well: kubectl uncordon NODE",
    ),
    Shortage(
        pattern=r"[Pp]ersistent[Vv]olume[Cc]laim|volume node affinity conflict",
        means="a volume claim is not there, not bound, or bound elsewhere",
        step="see its claims: kubectl get pvc",
    ),
    Shortage(
        pattern=r"Too many pods",
        means="the nodes take no more pods",
        step="add nodes, or remove pods: kubectl get pods -A -o wide",
    ),
    Shortage(
        pattern=r"anti-affinity|pod affinity rules|topology spread constraints",
        means="its affinity or spread rules leave no node",
        step="see the rules in the pod, and edit the service's pod spec: kubectl describe pod",
    ),
    Shortage(
        pattern=r"scheduling gates?",
        means="it has scheduling gates",
        step="find who set spec.schedulingGates, and why it has not removed them",
    ),
    Shortage(
        pattern=r"no nodes available|0/0 nodes",
        means="the cluster has no node",
        step="add a node: kubectl get nodes",
    ),
)


_CLAUSES = re.compile(r"[,:.]\s+")
_COUNT = re.compile(r"(\d+) ")


def pod_causes(found: Findings) -> Iterator[Cause]:
    """Yield what keeps pods from running, one cause per workload and reason."""
    for (workload, reason), pods in _groups(found).items():
        yield _CAUSES[reason](found, workload, pods)


def slow_pods(found: Findings) -> Iterator[Cause]:
    """Yield the workloads whose pods are on their way, and those whose controller is stuck."""
    cluster = found.cluster
    if cluster is None:
        return
    told = {workload for workload, _ in _groups(found)}
    for child in cluster.children:
        is_awaited = child.is_wanted and not child.is_being_deleted
        if not child.lacks_pods or child.title in told or not is_awaited:
            continue
        if child.trouble:
            yield _stuck(found, child)
        else:
            yield _starting(found, child)


def shortage(message: str) -> tuple[str, str]:
    """Return what most nodes lack, and what to do about it, from the scheduler's message."""
    # What stands behind it speaks of the pods that could be evicted.
    main = message.partition("preemption:")[0]
    known: list[tuple[int, str, str]] = []
    for clause in _CLAUSES.split(main):
        nodes = _COUNT.match(clause)
        for one in SHORTAGES:
            if found := re.search(one.pattern, clause):
                name = found.group(1) if found.groups() else ""
                count = int(nodes.group(1)) if nodes else 0
                known.append((count, one.means.format(name), one.step.format(name)))
    if not known:
        return message.rpartition("is not scheduled: ")[2], ""
    _, means, step = max(known, key=lambda shortage: shortage[0])
    return means, step


def _groups(found: Findings) -> Mapping[tuple[str, str], list[Pod]]:
    """Return the pods in trouble by workload and reason, the worst reasons first."""
    groups: dict[tuple[str, str], list[Pod]] = {}
    children = found.cluster.children if found.cluster else ()
    going = {child.title for child in children if not child.is_wanted}
    for pod in found.cluster.pods if found.cluster else ():
        if pod.workload not in going and (reason := _reason(found, pod)):
            groups.setdefault((pod.workload, reason), []).append(pod)
    order = list(_CAUSES)
    return dict(sorted(groups.items(), key=lambda item: (order.index(item[0][1]), item[0][0])))


def _reason(found: Findings, pod: Pod) -> str:
    if pod.phase == "Terminating":
        return ""
    if pod.reason in _CAUSES:
        return pod.reason
    created = output.moment(pod.created)
    is_old = created is not None and found.now - created > timedelta(seconds=SCHEDULER_SECONDS)
    is_unseen = pod.is_scheduled is None and not pod.node and pod.phase == "Pending"
    return SCHEDULER_SILENT if is_unseen and is_old else ""


def _no_room(found: Findings, workload: str, pods: list[Pod]) -> Cause:
    means, step = shortage(pods[0].message)
    return Cause(
        reason=Reason.UNSCHEDULABLE,
        waits_for=f"room for {_counted(pods, workload)}: {means}",
        since=_oldest(pods),
        steps=(
            *filter(None, (step,)),
            f"read the scheduler's own words: {kubectl(found, 'describe', f'pod {pods[0].name}')}",
            f"ask for less, or for other nodes: {kubectl(found, 'edit')}",
        ),
    )


def _no_word(_: Findings, workload: str, pods: list[Pod]) -> Cause:
    return Cause(
        reason=SCHEDULER_SILENT,
        waits_for=f"the scheduler, which has said nothing of {_counted(pods, workload)}",
        since=_oldest(pods),
        steps=(
            (
                "check that the scheduler runs: kubectl get pods -n kube-system -l "
                "component=kube-scheduler; and that spec.schedulerName of the pods names it"
            ),
        ),
    )


def _no_image(found: Findings, workload: str, pods: list[Pod]) -> Cause:
    return Cause(
        reason=Reason.IMAGE_PULL_FAILED,
        waits_for=f"an image for {_counted(pods, workload)}: {pods[0].message}",
        since=_oldest(pods),
        steps=(
            f"read the registry's answer: {kubectl(found, 'describe', f'pod {pods[0].name}')}",
            f"mend the image's name or its pull secret: {kubectl(found, 'edit')}",
        ),
    )


def _no_start(found: Findings, workload: str, pods: list[Pod]) -> Cause:
    return Cause(
        reason=Reason.CONTAINER_NOT_STARTED,
        waits_for=f"{_counted(pods, workload)} to start: {pods[0].message}",
        since=_oldest(pods),
        steps=(
            f"see what it refers to: {kubectl(found, 'describe', f'pod {pods[0].name}')}",
            (
                f"make the Secret or ConfigMap that is missing, or edit what names it: "
                f"{kubectl(found, 'edit')}"
            ),
        ),
    )


def _no_end(found: Findings, workload: str, pods: list[Pod]) -> Cause:
    logs = kubectl(found, "logs", f"{pods[0].name} --all-containers --previous")
    return Cause(
        reason=Reason.CRASHING,
        waits_for=f"{_counted(pods, workload)} to stop crashing: {pods[0].message}",
        since=_oldest(pods),
        steps=(
            f"read why it ended: {logs}",
            f"mend its command, arguments or model: {kubectl(found, 'edit')}",
        ),
    )


SCHEDULER_SILENT = "SchedulerSilent"
_CAUSES: Mapping[str, Callable[[Findings, str, list[Pod]], Cause]] = {
    Reason.UNSCHEDULABLE.value: _no_room,
    SCHEDULER_SILENT: _no_word,
    Reason.IMAGE_PULL_FAILED.value: _no_image,
    Reason.CONTAINER_NOT_STARTED.value: _no_start,
    Reason.CRASHING.value: _no_end,
}
"""The worst first: what nothing runs for comes before what runs and ends."""


def _stuck(found: Findings, child: Child) -> Cause:
    steps = [f"see what its controller says: {kubectl(found, 'describe', _named(child))}"]
    if "quota" in child.trouble:
        steps.append(f"see what the quota leaves: {kubectl(found, 'describe', 'quota')}")
    return Cause(
        reason=Reason.STALLED,
        waits_for=f"the pods of {child.title}: {child.trouble}",
        since=child.trouble_since,
        steps=tuple(steps),
    )


def _starting(found: Findings, child: Child) -> Cause:
    replicas, ready = child.replicas or 0, child.ready_replicas or 0
    lacking = replicas - ready
    noun = "group" if child.kind == LEADER_WORKER_SET.kind else "pod"
    what = f"{lacking} of {output.plural(replicas, noun)} of {child.title} to become ready"
    if lacking <= 0:
        what = f"{child.title} to replace its {noun}s of a former version"
    pods = [pod for pod in _of(found, child) if not pod.is_ready and pod.phase != "Terminating"]
    since = _oldest(pods) or child.created
    begun = output.moment(since)
    is_slow = begun is not None and found.now - begun > timedelta(seconds=STARTING_SECONDS)
    steps = [kubectl(found, "describe", _named(child))]
    if pods:
        steps = [
            f"see what a pod does: {kubectl(found, 'logs', f'{pods[0].name} --all-containers')}",
            f"see its probes and events: {kubectl(found, 'describe', f'pod {pods[0].name}')}",
        ]
    return Cause(
        reason=Reason.WAITING_FOR_PODS if lacking > 0 else Reason.ROLLING_OUT,
        waits_for=what,
        since=since,
        steps=tuple(steps) if is_slow else ("wait: they are on their way",),
    )


def _of(found: Findings, child: Child) -> Iterable[Pod]:
    pods = found.cluster.pods if found.cluster else ()
    return (pod for pod in pods if pod.workload == child.title)


def _named(child: Child) -> str:
    return f"{child.kind.lower()} {child.name}"


def _counted(pods: list[Pod], workload: str) -> str:
    count = output.plural(len(pods), "pod")
    return f"{count} of {workload}" if workload else f"{count} of it"


def _oldest(pods: Iterable[Pod]) -> str:
    return min((pod.since for pod in pods if pod.since), default="")
