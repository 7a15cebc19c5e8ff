"""Why pods do not run, in the words of the scheduler and the kubelet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from crds.kubernetes import GROUP_LABEL, Manifest
from handlers.conditions import Reason
from handlers.manifests import entries

_PULL = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
    }
)
_NOT_STARTED = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
"""Reasons of a waiting container (source: Kubernetes, pkg/kubelet/container and images)."""
_BEYOND_HELP = re.compile(
    r"preemption: 0/(\d+) nodes are available: \1 Preemption is not helpful for scheduling"
)
_CLAIMED = "cannot allocate all claims"
"""Words of the scheduler (source: Kubernetes, pkg/scheduler/framework, preemption and plugins)."""


class Trouble(Struct, frozen=True, kw_only=True):
    """What keeps a pod from running, or several for the same reason."""

    reason: Reason
    message: str


def troubles(pods: Iterable[Manifest], labels: Mapping[str, str], group: str = "") -> list[Trouble]:
    """
    Return what keeps the pods with these labels from running, one entry per reason.

    Only those of the LeaderWorkerSet that *group* names count, or those of none: a workload has the
    labels of the one of another kind that it succeeds.

    What changes from look to look (restart counts, back-off times) is left out, so that a status
    at rest stays as it is.
    """
    found: dict[Reason, list[str]] = {}
    for pod in sorted(pods, key=_name):
        if _is_of(pod, labels, group) and (trouble := trouble_of(pod)) is not None:
            found.setdefault(trouble.reason, []).append(trouble.message)
    return [
        Trouble(reason=reason, message=f"{_counted(messages)}; {_remedy(reason, messages[0])}")
        for reason, messages in sorted(found.items(), key=lambda item: _ORDER.index(item[0]))
    ]


def trouble_of(pod: Manifest) -> Trouble | None:
    """Return the first trouble of a pod, None where it has none: one is enough to act on."""
    status = pod.get("status") or {}
    name = _name(pod)
    for condition in entries(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = condition.get("message") or condition.get("reason") or "no reason given"
            message = f"pod {name} is not scheduled: {why}"
            return Trouble(reason=Reason.UNSCHEDULABLE, message=message)
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in entries(status, field):
            trouble = _trouble_of_container(name, container)
            if trouble is not None:
                return trouble
    if status.get("phase") == "Failed":
        message = f"pod {name} failed: {status.get('reason') or 'no reason given'}"
        return Trouble(reason=Reason.CRASHING, message=message)
    return None


def lacks_room(pod: Manifest) -> bool:
    """
    Return whether the scheduler has found no node for a pod, and may once other pods have ended.

    One that is going asks for none. Where the scheduler says of every node that no pod's end would
    help (a label that no node has, a taint, more GPUs than any node has), there is no room to make;
    words that are not known may mean that there is.
    """
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return False
    said = _said_by_scheduler(pod, "Unschedulable")
    return any(not _is_beyond_help(message) for message in said)


def _said_by_scheduler(pod: Manifest, reason: str) -> list[str]:
    """Return what is said of a pod that has no node for that reason."""
    return [
        str(condition.get("message") or "")
        for condition in entries(pod.get("status") or {}, "conditions")
        if condition.get("type") == "PodScheduled"
        and condition.get("status") == "False"
        and condition.get("reason") == reason
    ]


def _is_beyond_help(message: str) -> bool:
    # Devices that are claimed get free when a pod ends, though they are no matter of preemption.
    return _CLAIMED not in message and _BEYOND_HELP.search(message) is not None


def is_gated(pod: Manifest) -> bool:
    """Return whether a pod is not shown to the scheduler until somebody lifts a gate."""
    return bool(_said_by_scheduler(pod, "SchedulingGated"))


def has_ended(pod: Manifest) -> bool:
    """Return whether no container of a pod runs any more, nor ever will."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


_REMEDIES: Mapping[Reason, str] = {
    Reason.UNSCHEDULABLE: "free or add nodes, or lower what the service asks for",
    Reason.IMAGE_PULL_FAILED: "mend the image's name or its pull secret",
    Reason.CONTAINER_NOT_STARTED: "mend what the container refers to",
    Reason.CRASHING: "read its log with kubectl logs --previous",
}
_ORDER = tuple(_REMEDIES)
_VOLUMES = "PersistentVolumeClaim"
"""In the scheduler's words where no node is to blame."""


def _remedy(reason: Reason, message: str) -> str:
    if _VOLUMES in message:
        return "look at its claims (kubectl get pvc): a storage class may be missing, or a volume"
    return _REMEDIES[reason]


def _counted(messages: list[str]) -> str:
    others = len(messages) - 1
    return f"{messages[0]} (and {others} more like it)" if others else messages[0]


def _name(pod: Manifest) -> str:
    return str((pod.get("metadata") or {}).get("name", ""))


def _is_of(pod: Manifest, labels: Mapping[str, str], group: str) -> bool:
    metadata = pod.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        return False
    present = metadata.get("labels") or {}
    is_labelled = all(present.get(key) == value for key, value in labels.items())
    return is_labelled and present.get(GROUP_LABEL, "") == group


def _trouble_of_container(pod: str, container: Manifest) -> Trouble | None:
    where = f"container {container.get('name')} of pod {pod}"
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    why = waiting.get("reason")
    if why in _PULL:
        message = f"{where} cannot pull {container.get('image')} ({why})"
        return Trouble(reason=Reason.IMAGE_PULL_FAILED, message=message)
    if why in _NOT_STARTED:
        message = f"{where} cannot start: {waiting.get('message') or why}"
        return Trouble(reason=Reason.CONTAINER_NOT_STARTED, message=message)
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    code = ended.get("exitCode")
    if why == "CrashLoopBackOff" or ("terminated" in state and code):
        exit_code = f" with exit code {code}" if code is not None else ""
        return Trouble(reason=Reason.CRASHING, message=f"{where} ends{exit_code}")
    return None
