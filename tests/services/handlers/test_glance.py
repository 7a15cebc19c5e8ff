"""A glance on a real API server: what it reads, and what makes it a full look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from bridge.events import ChangeEvent, EventType, ObjectKey
from crds.kubernetes import DEPLOYMENT, SERVICE, Manifest
from handlers import plan
from handlers.conditions import Reason
from handlers.errors import OtherOperator
from handlers.glance import glance
from handlers.handler import Rendering
from handlers.state import EMPTY, FailState
from tests.services.handlers.conftest import Desk
from tests.services.handlers.renderings import a_deployment

KEY = ObjectKey("inferadeployment", "a", "chat")
SEEN = ChangeEvent(key=KEY, type=EventType.OBSERVED, id="id")


class Scene:
    """A workload and a Service that are as rendered, of a resource that says so."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.workload = a_deployment()(desk)
        self.service = desk.child("Service", "serve", spec={"ports": [{"port": 80}]})
        self.state = EMPTY
        self.renderer = 1

    async def glance(self) -> list[str] | None:
        """Return the kinds of the children that a glance tells of, None where it is not enough."""
        making = self.desk.making(renderer=self.renderer)
        owner = {
            **making.owner,
            "status": {
                "observedGeneration": making.owner["metadata"]["generation"],
                "conditions": [
                    {
                        "type": "Degraded",
                        "reason": Reason.AS_ASKED,
                        "observedGeneration": making.owner["metadata"]["generation"],
                    }
                ],
            },
        }
        making = msgspec.structs.replace(making, owner=owner)
        rendering = Rendering(children=(self.workload, self.service))
        children = await glance(SEEN, rendering, self.state, making)
        assert self.desk.written == []
        return None if children is None else [child.name.kind for child in children]


@pytest.fixture
async def scene(desk: Desk) -> Scene:
    scene = Scene(desk)
    await desk.make(scene.workload, scene.service)
    assert await scene.glance() == ["Deployment", "Service"]
    return scene


async def test_a_child_whose_status_nobody_judges_is_not_read(scene: Scene, desk: Desk) -> None:
    await desk.admin.request("DELETE", SERVICE.path(desk.namespace, "serve"))
    assert await scene.glance() == ["Deployment", "Service"]


async def _edited(scene: Scene) -> None:
    await scene.desk.patched(scene.workload, {"spec": {"replicas": 7}}, by="kubectl-edit")


async def _deleted(scene: Scene) -> None:
    await scene.desk.admin.request("DELETE", DEPLOYMENT.path(scene.desk.namespace, "child"))


async def _given_away(scene: Scene) -> None:
    await scene.desk.patched(
        scene.workload, {"metadata": {"ownerReferences": None}}, by="kubectl-edit"
    )


async def _written_by_a_newer_renderer(scene: Scene) -> None:
    annotations = {"annotations": {plan.RENDERER: "2"}}
    await scene.desk.patched(scene.workload, {"metadata": annotations}, by="weir")


async def _rendered_differently(scene: Scene) -> None:
    changed: Manifest = {**scene.workload["spec"], "replicas": 3}
    scene.workload = {**scene.workload, "spec": changed}


async def _in_trouble(scene: Scene) -> None:
    scene.state = FailState(uid="u", generation=1, failures=1)


async def _being_deleted(scene: Scene) -> None:
    held = {"finalizers": ["tests.weir.dev/held"]}
    await scene.desk.patched(scene.workload, {"metadata": held}, by="somebody")
    await _deleted(scene)


async def _after_a_death(scene: Scene) -> None:
    scene.desk.lease.predecessor_died = True


@pytest.mark.parametrize(
    "happens",
    [
        _edited,
        _deleted,
        _given_away,
        _written_by_a_newer_renderer,
        _rendered_differently,
        _in_trouble,
        _being_deleted,
        _after_a_death,
    ],
)
async def test_whatever_there_is_to_do_takes_a_full_look(
    scene: Scene, happens: Callable[[Scene], Awaitable[None]]
) -> None:
    await happens(scene)
    assert await scene.glance() is None


async def test_what_another_operator_still_writes_is_noticed_by_a_glance_too(scene: Scene) -> None:
    scene.desk.other_operator_seconds = 60.0
    patch = {"metadata": {"annotations": {"a": "b"}}}
    await scene.desk.patched(scene.workload, patch, by="infera-operator")
    with pytest.raises(OtherOperator):
        await scene.glance()
