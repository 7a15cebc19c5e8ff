"""
What a LeaderWorkerSet's controller decides of its groups of pods; pure.

Source of names, labels, environment and status: the documentation and the API of sigs.k8s.io/lws,
and what its controller was seen to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy

import msgspec
from msgspec import Struct

from crds.kubernetes import LEADER_WORKER_SET, Manifest

LABELS = "leaderworkerset.sigs.k8s.io"
SET_NAME = f"{LABELS}/name"
GROUP_INDEX = f"{LABELS}/group-index"
WORKER_INDEX = f"{LABELS}/worker-index"
REVISION = f"{LABELS}/template-revision-hash"

LEADER = 0
"""The leader's index among the pods of its group."""


class Group(Struct, frozen=True, kw_only=True):
    """The pods of one group that are there, the leader under 0."""

    index: int
    size: int
    pods: Mapping[int, Manifest]

    @property
    def leader(self) -> Manifest | None:
        """The leader, unless it is gone."""
        return self.pods.get(LEADER)

    @property
    def is_ready(self) -> bool:
        """Whether all its pods are there and ready."""
        present = [self.pods[number] for number in range(self.size) if number in self.pods]
        return len(present) == self.size and all(is_ready(pod) for pod in present)

    def is_of(self, revision: str) -> bool:
        """Return whether its leader, and so the group, was made from that revision."""
        return self.leader is not None and self.leader["metadata"]["labels"][REVISION] == revision


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done now."""

    delete: list[Manifest]
    create: list[Manifest]


def revision_of(workers: Manifest) -> str:
    """Return the name of a LeaderWorkerSet's present template."""
    spec = workers["spec"]
    decides = [spec["leaderWorkerTemplate"], spec.get("networkConfig")]
    return hashlib.sha256(msgspec.json.encode(decides, order="sorted")).hexdigest()[:10]


def groups_of(workers: Manifest, pods: Iterable[Manifest]) -> list[Group]:
    """Return every group that shall be or is, in order."""
    found: dict[int, dict[int, Manifest]] = {
        index: {} for index in range(workers["spec"]["replicas"])
    }
    for pod in pods:
        labels = pod["metadata"]["labels"]
        found.setdefault(int(labels[GROUP_INDEX]), {})[int(labels[WORKER_INDEX])] = pod
    size = workers["spec"]["leaderWorkerTemplate"]["size"]
    return [Group(index=index, size=size, pods=found[index]) for index in sorted(found)]


def own_pods(workers: Manifest, pods: Iterable[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """
    Return the pods that belong to this very LeaderWorkerSet, and the others of its name.

    The others are what an older one of that name, or a leader that is gone, has left behind.
    """
    pods = list(pods)
    uid = workers["metadata"]["uid"]
    leaders = {
        pod["metadata"]["uid"] for pod in pods if _is_leader(pod) and controller_uid(pod) == uid
    }
    own = [pod for pod in pods if leader_uid(pod) in leaders]
    return own, [pod for pod in pods if leader_uid(pod) not in leaders]


def plan(workers: Manifest, groups: Sequence[Group], broken: set[int]) -> Plan:
    """Return the pods to delete and to create; *broken* groups lost a pod that they had."""
    spec = workers["spec"]
    wanted = groups[: spec["replicas"]]
    going = {group.index for group in groups[spec["replicas"] :]}
    going |= set(to_replace(workers, wanted))
    if spec["leaderWorkerTemplate"]["restartPolicy"] != "None":
        going |= broken | {group.index for group in wanted if _has_failed(group)}
    delete = [
        pod
        for group in groups
        if group.index in going
        for pod in group.pods.values()
        if not _is_going(pod)
    ]
    create = [
        pod
        for group in wanted
        if group.index not in going or not group.pods
        for pod in _missing(workers, group)
    ]
    return Plan(delete=delete, create=create)


def to_replace(workers: Manifest, groups: Sequence[Group]) -> list[int]:
    """
    Return the groups that a rolling update may end now, the last ones first.

    Those done stand at the end. Of the others, `maxUnavailable` at a time are in work; one that is
    ready and outdated goes only while no more groups than that would not be ready.
    """
    configuration = workers["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    unavailable_max = _count(configuration["maxUnavailable"], of=len(groups))
    revision = revision_of(workers)
    end = len(groups)
    while end and groups[end - 1].is_ready and groups[end - 1].is_of(revision):
        end -= 1
    begin = max(configuration["partition"], end - unavailable_max, 0)
    room = unavailable_max - sum(not group.is_ready for group in groups)
    chosen: list[int] = []
    for group in reversed(groups[begin:end]):
        if group.is_of(revision):
            continue
        if group.is_ready:
            if room <= 0:
                break
            room -= 1
        chosen.append(group.index)
    return chosen


def status_of(workers: Manifest, groups: Sequence[Group], now: str) -> Manifest:
    """
    Return the status as the controller writes it; one that says the same is left as it was.

    A condition that becomes False keeps its reason and message, as the real controller leaves them.
    """
    spec = workers["spec"]
    revision = revision_of(workers)
    partition = spec["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"]
    leaders = [group for group in groups if group.leader]
    ready = [group for group in leaders if group.is_ready]
    updated = [group for group in leaders if group.is_of(revision)]
    rolled = [group for group in leaders if partition <= group.index < spec["replicas"]]
    outdated = [group for group in rolled if not group.is_of(revision)]
    asked = [group for group in ready if group.index < spec["replicas"]]
    if outdated:
        true = {
            "UpdateInProgress": ("GroupsUpdating", "Rolling Upgrade is in progress"),
            "Progressing": ("GroupsProgressing", "Replicas are progressing"),
        }
    elif len(asked) == spec["replicas"] and all(group.is_ready for group in rolled):
        true = {"Available": ("AllGroupsReady", "All replicas are ready")}
    else:
        true = {"Progressing": ("GroupsProgressing", "Replicas are progressing")}
    status = workers.get("status") or {}
    name = workers["metadata"]["name"]
    return {
        **status,
        "observedGeneration": workers["metadata"]["generation"],
        "replicas": len(leaders),
        "readyReplicas": len(ready),
        "updatedReplicas": len(updated),
        "hpaPodSelector": f"{SET_NAME}={name},{WORKER_INDEX}={LEADER}",
        "conditions": _conditions(status.get("conditions") or [], true, now),
    }


def is_ready(pod: Manifest) -> bool:
    """Return whether a pod serves."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not _is_going(pod) and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def leader_uid(pod: Manifest) -> str:
    """Return the uid of the leader that a pod belongs to, its own where it leads."""
    return str(pod["metadata"]["uid"]) if _is_leader(pod) else controller_uid(pod)


def controller_uid(item: Manifest) -> str:
    """Return the uid of an object's controller; empty where it has none."""
    owners: Iterable[Manifest] = item["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def headless_service(workers: Manifest) -> Manifest:
    """Return the Service by which the pods find each other; it has the LeaderWorkerSet's name."""
    name = workers["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": workers["metadata"]["namespace"],
            "labels": {SET_NAME: name},
            "ownerReferences": [_owner(LEADER_WORKER_SET.api_version, "LeaderWorkerSet", workers)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {SET_NAME: name},
        },
    }


def _missing(workers: Manifest, group: Group) -> list[Manifest]:
    leader = group.leader
    if leader is None:
        return [_pod(workers, group.index, LEADER, workers)]
    waits = workers["spec"]["startupPolicy"] == "LeaderReady" and not is_ready(leader)
    outdated = not group.is_of(revision_of(workers))
    if waits or outdated or _is_going(leader):
        return []
    return [
        _pod(workers, group.index, number, leader)
        for number in range(1, group.size)
        if number not in group.pods
    ]


def _pod(workers: Manifest, index: int, number: int, owner: Manifest) -> Manifest:
    """Return a pod of a group: its leader, owned by the set, or a worker, owned by its leader."""
    template = workers["spec"]["leaderWorkerTemplate"]
    is_leader = number == LEADER
    source = (is_leader and template.get("leaderTemplate")) or template["workerTemplate"]
    metadata = source.get("metadata") or {}
    name, namespace = workers["metadata"]["name"], workers["metadata"]["namespace"]
    leader = f"{name}-{index}"
    own_name = leader if is_leader else f"{leader}-{number}"
    spec = deepcopy(source["spec"])
    env = [
        {"name": "LWS_LEADER_ADDRESS", "value": f"{leader}.{name}.{namespace}"},
        {"name": "LWS_GROUP_SIZE", "value": str(template["size"])},
        {"name": "LWS_WORKER_INDEX", "value": str(number)},
    ]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container["env"] = [*env, *container.get("env", ())]
    owned = (
        _owner(LEADER_WORKER_SET.api_version, "LeaderWorkerSet", owner)
        if is_leader
        else _owner("v1", "Pod", owner)
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": own_name,
            "namespace": namespace,
            "annotations": metadata.get("annotations") or {},
            "labels": {
                **(metadata.get("labels") or {}),
                SET_NAME: name,
                GROUP_INDEX: str(index),
                WORKER_INDEX: str(number),
                REVISION: revision_of(workers),
            },
            "ownerReferences": [owned],
        },
        "spec": {**spec, "hostname": own_name, "subdomain": name},
    }


def _owner(api_version: str, kind: str, owner: Manifest) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _is_leader(pod: Manifest) -> bool:
    return int(pod["metadata"]["labels"][WORKER_INDEX]) == LEADER


def _is_going(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _has_failed(group: Group) -> bool:
    """Return whether a pod of a group is on its way out, has ended, or was started again."""
    for pod in group.pods.values():
        status = pod.get("status") or {}
        restarts = [c.get("restartCount", 0) for c in status.get("containerStatuses") or ()]
        if _is_going(pod) or status.get("phase") in ("Failed", "Succeeded") or any(restarts):
            return True
    return False


def _count(given: int | str, *, of: int) -> int:
    """Return a number of groups, which may be given as a part of all; at least one."""
    if isinstance(given, str):
        return max(1, of * int(given.rstrip("%")) // 100)
    return max(1, given)


def _conditions(
    present: Sequence[Manifest], true: Mapping[str, tuple[str, str]], now: str
) -> list[Manifest]:
    """Return the conditions with those of *true* set, and what contradicts them ended."""
    conditions = {condition["type"]: condition for condition in present}
    ended = ("Progressing", "UpdateInProgress") if "Available" in true else ("Available",)
    for type_ in ended:
        if type_ in conditions and conditions[type_]["status"] == "True":
            conditions[type_] = {
                **conditions[type_],
                "status": "False",
                "lastTransitionTime": now,
            }
    for type_, (reason, message) in true.items():
        if conditions.get(type_, {}).get("status") != "True":
            conditions[type_] = {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
    return list(conditions.values())
