"""From what the API server holds to findings: the resource, a child, a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from crds.contract import Contract
from crds.kubernetes import GROUP_LABEL, LEADER_WORKER_SET, Condition, Manifest
from handlers import plan
from handlers.cli.why_findings import MISSING, Child, ClusterHalf, Pod
from handlers.handler import ChildName
from handlers.manifests import entries
from handlers.pods import trouble_of


def cluster_half(resource: Manifest, **more: Any) -> ClusterHalf:
    """Return what a resource says of itself, with `more` of what was found around it."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    created = metadata.get("creationTimestamp") or ""
    return ClusterHalf(
        uid=metadata["uid"],
        generation=metadata.get("generation") or 0,
        observed_generation=status.get("observedGeneration"),
        created=created,
        edited=max(_edits(metadata), default=created),
        deleting_since=metadata.get("deletionTimestamp") or "",
        finalizers=tuple(metadata.get("finalizers") or ()),
        conditions=tuple(_conditions(status)),
        **more,
    )


def child(
    name: ChildName,
    live: Manifest | None,
    rendered: Manifest | None,
    *,
    of: tuple[Manifest, Contract],
    is_wanted: bool = True,
) -> Child:
    """Return how a child of the resource that `of` names stands; what is kept is not rendered."""
    if live is None:
        return Child(kind=name.kind, name=name.name, standing=MISSING, is_wanted=is_wanted)
    metadata, spec, status = live["metadata"], live.get("spec") or {}, live.get("status") or {}
    controller = _controller(metadata)
    trouble, trouble_since = ("", "") if _is_group(live) else _trouble(status)
    has_pods = plan.pod_template(live) is not None
    replicas = spec.get("replicas", 1)
    is_old = (status.get("updatedReplicas") or 0) < (status.get("replicas") or 0)
    return Child(
        kind=name.kind,
        name=name.name,
        standing=plan.standing(live, *of).value,
        owner=f"{controller.get('kind')}/{controller.get('name')}" if controller else "",
        is_wanted=is_wanted,
        is_as_rendered=None if rendered is None else plan.matches(rendered, live),
        is_being_deleted=plan.is_being_deleted(live),
        created=metadata.get("creationTimestamp") or "",
        replicas=replicas if has_pods else None,
        ready_replicas=(status.get("readyReplicas") or 0) if has_pods else None,
        is_rolling_out=has_pods and is_old,
        trouble=trouble,
        trouble_since=trouble_since,
    )


def pod(manifest: Manifest, workloads: Iterable[Manifest]) -> Pod:
    """Return how a pod stands, and whose of the workloads it is."""
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    conditions = {str(found.get("type")): found for found in entries(status, "conditions")}
    scheduled = conditions.get("PodScheduled")
    trouble = trouble_of(manifest)
    created = metadata.get("creationTimestamp") or ""
    since = created
    if scheduled is not None and scheduled.get("status") == "False":
        since = scheduled.get("lastTransitionTime") or created
    return Pod(
        name=metadata["name"],
        workload=_workload(metadata.get("labels") or {}, workloads),
        phase="Terminating" if plan.is_being_deleted(manifest) else status.get("phase") or "",
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        is_ready=conditions.get("Ready", {}).get("status") == "True",
        is_scheduled=None if scheduled is None else scheduled.get("status") == "True",
        created=created,
        reason=trouble.reason.value if trouble else "",
        message=trouble.message if trouble else "",
        since=since,
    )


def _edits(metadata: Mapping[str, Any]) -> list[str]:
    """Return when each manager last wrote the resource itself, not its status."""
    return [
        entry["time"]
        for entry in entries(metadata, "managedFields")
        if entry.get("time") and not entry.get("subresource")
    ]


def _conditions(status: Mapping[str, Any]) -> Iterable[Condition]:
    for found in entries(status, "conditions"):
        try:
            yield msgspec.convert(found, Condition)
        except msgspec.ValidationError:
            continue


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    references = entries(metadata, "ownerReferences")
    return next((reference for reference in references if reference.get("controller")), {})


def _trouble(status: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a workload's controller cannot make its pods, or is late, and since when."""
    said = {(one.get("type"), one.get("status")): one for one in entries(status, "conditions")}
    found = said.get(("ReplicaFailure", "True")) or said.get(("Progressing", "False")) or {}
    message = str(found.get("message") or found.get("reason") or "")
    return message, str(found.get("lastTransitionTime") or "")


def _is_group(live: Manifest) -> bool:
    """Return whether it is a LeaderWorkerSet: of its conditions, all but one are always False."""
    return bool(live.get("kind") == LEADER_WORKER_SET.kind)


def _workload(labels: Mapping[str, str], workloads: Iterable[Manifest]) -> str:
    for live in workloads:
        wanted = ((live.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        if _is_group(live):
            wanted = {GROUP_LABEL: live["metadata"]["name"]}
        elif GROUP_LABEL in labels:
            continue  # of a group whose labels this workload has, too: one succeeds the other
        if wanted and all(labels.get(key) == value for key, value in wanted.items()):
            return f"{live['kind']} {live['metadata']['name']}"
    return ""
