"""InferaDeployment: what it renders, what its status says."""

from __future__ import annotations

from crds.inferadeployment import CONTRACT, InferaDeployment
from handlers.handler import Handler
from handlers.inferadeployment import names
from handlers.inferadeployment.nats import depends_on
from handlers.inferadeployment.render import RENDERER, render
from handlers.inferadeployment.status import recorded, refused, status


def _pod_selector(resource: InferaDeployment) -> str:
    return names.pod_selector(resource.metadata.name)


HANDLER: Handler[InferaDeployment] = Handler(
    contract=CONTRACT,
    renderer=RENDERER,
    render=render,
    depends_on=depends_on,
    status=status,
    refused=refused,
    recorded=recorded,
    pod_selector=_pod_selector,
)
