"""InferaDeployment: what it renders, what its status says."""

from __future__ import annotations

from crds.inferadeployment import CONTRACT, InferaDeployment
from crds.kubernetes import Manifest
from handlers.handler import ChildName, Handler
from handlers.inferadeployment import names
from handlers.inferadeployment.nats import depends_on
from handlers.inferadeployment.render import RENDERER, render
from handlers.inferadeployment.status import recorded, refused, serves, status
from handlers.inferadeployment.workloads import pods_due


def _pod_selector(resource: InferaDeployment) -> str:
    return names.pod_selector(resource.metadata.name)


def _pods_of(resource: InferaDeployment, child: ChildName) -> str:
    return names.pods_of(resource.metadata.name, child)


def _workload_of(resource: InferaDeployment, pod: Manifest) -> ChildName | None:
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return names.workload_of(resource.metadata.name, labels)


HANDLER: Handler[InferaDeployment] = Handler(
    contract=CONTRACT,
    renderer=RENDERER,
    render=render,
    depends_on=depends_on,
    status=status,
    refused=refused,
    recorded=recorded,
    pod_selector=_pod_selector,
    serves=serves,
    pods_of=_pods_of,
    workload_of=_workload_of,
    pods_due=pods_due,
)
