"""What pods run on goes after them, at a real API server."""

from __future__ import annotations

import pytest

from crds.kubernetes import Manifest
from handlers.handler import ChildName, Rendering
from handlers.state import EMPTY
from tests.services.handlers.conftest import Desk
from tests.services.handlers.giving_way import FORMER, Scene, cut_at_every_write
from tests.services.handlers.renderings import ORDINARY, a_container, a_deployment

BROKER = ChildName("Service", "child")


def moved(scene: Scene, image: str = "registry.example/a:2", replicas: int = 1) -> Rendering:
    """Return what is asked for once the workload is to do without the broker."""
    pod = {"containers": [a_container(image=image)]}
    workload = a_deployment(pod, replicas=replicas)(scene.desk)
    return Rendering(children=(workload,), underlying=(BROKER,))


@pytest.fixture
async def scene(desk: Desk) -> Scene:
    """A workload and what it runs on are there, and it serves."""
    scene = Scene(desk)
    scene.former = a_deployment(replicas=1)(desk)
    scene.known.append(BROKER)
    scene.serving.add(FORMER)
    broker = ORDINARY["a headless service"](desk)
    await desk.make(scene.former, broker)
    scene.rendering = Rendering(children=(scene.former, broker), underlying=(BROKER,))
    return scene


async def said(scene: Scene) -> str:
    """Return what the Warning says."""
    warning: Manifest = await scene.condition("Warning") or {"message": ""}
    return str(warning["message"])


async def test_it_stays_until_the_workloads_serve_as_asked_and_the_pods_of_before_ended(
    scene: Scene,
) -> None:
    scene.rendering = moved(scene)
    scene.serving.clear()
    outcome = await scene.by_event()
    assert "apply Deployment/child" in scene.desk.written
    assert (scene.deletes(), outcome.handing_over) == ([], (BROKER,))
    assert await said(scene) == (
        "Service child kept for pods of before until these are ready as asked (Ready says what "
        "they lack): Deployment child"
    )
    for look in (scene.by_timer, scene.by_event, scene.by_timer):
        outcome = await look()
        assert (outcome.handing_over, scene.desk.written) == ((BROKER,), [])
        assert outcome.requeue_seconds is not None

    scene.serving.add(FORMER)
    await scene.a_pod("drains", "Deployment", finalizers=["example.com/drain"])
    await scene.a_pod("serves", "Deployment")
    await scene.a_pod("forgotten", "StatefulSet")
    await scene.pod_ends("drains")
    outcome = await scene.by_timer()
    assert (scene.deletes(), outcome.handing_over) == ([], (BROKER,))
    assert (await said(scene)).endswith("until these have ended: drains, forgotten")
    await scene.by_timer()
    assert scene.desk.written == []

    await scene.pod_is_let_go("drains")
    await scene.pod_ends("forgotten")
    await scene.by_timer()
    assert scene.deletes() == ["delete Service/child"]
    assert (scene.state, await said(scene)) == (EMPTY, "")
    await scene.by_event()
    assert scene.desk.written == []


async def test_a_workload_whose_update_is_refused_serves_as_before_and_needs_it(
    scene: Scene,
) -> None:
    scene.rendering = moved(scene, replicas=-1)
    outcome = await scene.by_event()
    assert (outcome.reason, scene.deletes()) == ("Refused", [])
    assert BROKER in outcome.handing_over
    assert [what for what in (await scene.foretold()).written if what.startswith("delete")] == []


async def test_one_that_is_to_have_no_pods_and_is_not_there_needs_nothing(scene: Scene) -> None:
    pods = scene.former["spec"]["template"]
    spec = {"replicas": 0, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}}
    groups = scene.desk.child("LeaderWorkerSet", spec=spec)
    scene.rendering = Rendering(children=(groups,), underlying=(BROKER,))
    outcome = await scene.by_event()
    assert outcome.reason == "KindNotInstalled"
    assert sorted(scene.deletes()) == ["delete Deployment/child", "delete Service/child"]


async def test_asked_for_again_it_was_never_touched(scene: Scene) -> None:
    asked, before = scene.rendering, await scene.uid(BROKER)
    scene.rendering = moved(scene)
    scene.serving.clear()
    await scene.by_event()
    scene.rendering = asked
    outcome = await scene.by_event()
    assert (outcome.handing_over, scene.deletes()) == ((), [])
    assert await scene.uid(BROKER) == before


async def test_a_dry_run_foretells_that_it_goes(scene: Scene) -> None:
    scene.rendering = moved(scene)
    scene.serving.clear()
    dry_run = await scene.foretold()
    assert {"apply Deployment/child", "delete Service/child"} <= {*dry_run.written}
    assert await scene.is_there(BROKER)


async def test_who_dies_at_any_write_is_followed_by_one_who_ends_it(scene: Scene) -> None:
    """It is found again by the bridge's hint or by a list; what the dead one remembered is lost."""
    scene.rendering = moved(scene)
    alive = scene.desk.lease
    for serving in (set[ChildName](), {FORMER}):
        scene.serving = serving

        async def is_kept(*, is_served: bool = bool(serving)) -> bool:
            return is_served or await scene.is_there(BROKER)

        assert await cut_at_every_write(scene, is_kept) >= 1
        alive.predecessor_died = True
        await scene.by_timer()
        alive.predecessor_died = False
        assert scene.state.owes_look
        await scene.by_timer()
        assert await scene.is_there(BROKER) is (not serving)
