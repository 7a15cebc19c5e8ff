"""A workload that changes its kind, at a real API server: the former one serves for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bridge.kube import MERGE_PATCH
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers.handler import ChildName, Rendering, Short
from handlers.pause import ANNOTATION
from handlers.state import EMPTY, FailState
from tests.services.handlers.conftest import OWNER, Desk
from tests.services.handlers.giving_way import (
    FORMER,
    NO_NODE,
    SUCCESSOR,
    Scene,
    cut_at_every_write,
)


@pytest.fixture
async def scene(desk: Desk) -> Scene:
    """The former workload is there, and another kind is asked for."""
    scene = Scene(desk)
    await desk.made(scene.former)
    return scene


@pytest.fixture
async def waiting(scene: Scene) -> Scene:
    """Both are there, and the former one serves."""
    outcome = await scene.by_event()
    assert "create StatefulSet/child" in scene.desk.written
    assert outcome.handing_over == (FORMER,)
    return scene


async def test_the_former_serves_until_the_successor_does_and_then_it_goes(waiting: Scene) -> None:
    assert waiting.deletes() == []
    warning, degraded = [await waiting.condition(type_) for type_ in ("Warning", "Degraded")]
    assert warning is not None
    assert (warning["status"], warning["reason"]) == ("True", "HandingOver")
    assert "Deployment child goes on serving" in warning["message"]
    assert degraded is not None
    assert degraded["status"] == "False"

    for look in (waiting.by_timer, waiting.by_event, waiting.by_timer):
        outcome = await look()
        assert (outcome.handing_over, waiting.desk.written) == ((FORMER,), [])
        assert outcome.requeue_seconds is not None
        assert not outcome.has_problems

    waiting.serving.add(SUCCESSOR)
    outcome = await waiting.by_timer()
    assert waiting.deletes() == ["delete Deployment/child"]
    assert (outcome.handing_over, waiting.state) == ((), EMPTY)
    assert await waiting.is_there(SUCCESSOR)
    assert await waiting.condition("Warning") is None
    await waiting.by_event()
    assert waiting.desk.written == []


async def test_one_pod_of_the_successor_that_finds_no_node_is_enough(waiting: Scene) -> None:
    await waiting.a_pod("runs", "StatefulSet", {"type": "PodScheduled", "status": "True"})
    await waiting.by_timer()
    assert waiting.deletes() == []
    await waiting.a_pod("waits", "StatefulSet", NO_NODE)
    await waiting.by_timer()
    assert waiting.deletes() == ["delete Deployment/child"]
    assert waiting.state == EMPTY


@pytest.mark.parametrize(
    ("of", "condition"),
    [
        ("Deployment", NO_NODE),
        ("StatefulSet", {**NO_NODE, "reason": "SchedulingGated"}),
        ("StatefulSet", {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}),
    ],
    ids=["a pod of the former", "a pod that waits for a gate", "a pod that starts"],
)
async def test_no_other_trouble_of_pods_is(waiting: Scene, of: str, condition: Manifest) -> None:
    await waiting.a_pod("pod", of, condition)
    outcome = await waiting.by_timer()
    assert (waiting.deletes(), outcome.handing_over) == ([], (FORMER,))


def _groups(scene: Scene) -> Manifest:
    """Of a kind that is not installed."""
    pods = scene.former["spec"]["template"]
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}}
    return scene.desk.child("LeaderWorkerSet", spec=spec)


def _invalid(scene: Scene) -> Manifest:
    return scene.desk.child("StatefulSet", spec={**scene.successor["spec"], "replicas": -1})


@pytest.mark.parametrize(
    ("refused", "reason"), [(_groups, "KindNotInstalled"), (_invalid, "Refused")]
)
async def test_a_successor_that_is_refused_leaves_the_former_serving(
    scene: Scene, refused: Callable[[Scene], Manifest], reason: str
) -> None:
    scene.rendering = scene.forwards(refused(scene))
    outcome = await scene.by_event()
    assert (scene.deletes(), outcome.handing_over) == ([], (FORMER,))
    assert (outcome.has_problems, outcome.reason) == (True, reason)
    assert outcome.requeue_seconds is not None
    warning = await scene.condition("Warning")
    assert warning is not None
    assert "could not be made yet" in warning["message"]

    scene.rendering, scene.serving = scene.forwards(), {SUCCESSOR}
    await scene.by_timer()
    assert scene.deletes() == ["delete Deployment/child"]
    assert scene.state == EMPTY


async def test_a_successor_that_has_too_few_pods_for_long_has_no_place(waiting: Scene) -> None:
    """A quota keeps them from being made, or a gate from being scheduled: no status says so."""
    waiting.due = 2
    await waiting.a_pod("runs", "StatefulSet", {"type": "PodScheduled", "status": "True"})
    await waiting.a_pod("waits", "StatefulSet", {**NO_NODE, "reason": "SchedulingGated"})
    for _ in range(2):
        outcome = await waiting.by_timer()
        assert (waiting.deletes(), outcome.handing_over) == ([], (FORMER,))
    warning = await waiting.condition("Warning")
    assert warning is not None
    assert (
        "lacking or gated, by a quota perhaps: if that lasts 120 s, it goes" in warning["message"]
    )
    (short,) = waiting.state.short
    assert short.workload == FORMER
    assert abs(time.time() - short.since) < 20

    def since(seconds: float) -> tuple[Short, ...]:
        return (Short(workload=FORMER, since=time.time() - seconds),)

    waiting.settings = msgspec.structs.replace(waiting.settings, successor_pods_seconds=1.0)
    await asyncio.sleep(1.2)
    waiting.due = 1
    waiting.state = msgspec.structs.replace(waiting.state, short=since(1.1))
    await waiting.by_timer()
    assert (waiting.deletes(), waiting.state.short) == ([], ())

    # A pod that was made since then says that nothing keeps its controller from that.
    waiting.due = 2
    waiting.state = msgspec.structs.replace(waiting.state, short=since(3600))
    await waiting.by_timer()
    (short,) = waiting.state.short
    assert waiting.deletes() == []
    assert abs(time.time() - short.since) < 20

    waiting.state = msgspec.structs.replace(waiting.state, short=since(1.1))
    await waiting.by_timer()
    assert waiting.deletes() == ["delete Deployment/child"]
    assert waiting.state == EMPTY


async def test_one_whose_update_is_refused_is_there_all_the_same(waiting: Scene) -> None:
    waiting.rendering = waiting.forwards(_invalid(waiting))
    outcome = await waiting.by_event()
    assert (outcome.reason, outcome.handing_over) == ("Refused", (FORMER,))
    warning = await waiting.condition("Warning")
    assert warning is not None
    assert "could not be made" not in warning["message"]
    await waiting.a_pod("waits", "StatefulSet", NO_NODE)
    await waiting.by_timer()
    assert waiting.deletes() == ["delete Deployment/child"]


async def test_changed_back_before_it_is_done_the_new_one_goes_and_the_former_was_never_touched(
    waiting: Scene,
) -> None:
    before = await waiting.uid(FORMER)
    waiting.rendering, waiting.serving = waiting.backwards(), {FORMER}
    outcome = await waiting.by_event()
    assert [what for what in waiting.desk.written if what.endswith("Deployment/child")] == []
    assert waiting.deletes() == ["delete StatefulSet/child"]
    assert (outcome.handing_over, waiting.state) == ((), EMPTY)
    assert await waiting.uid(FORMER) == before


async def test_a_former_that_somebody_deletes_is_waited_for_by_nobody(waiting: Scene) -> None:
    path = waiting.desk.kind("Deployment").path(waiting.desk.namespace, "child")
    await waiting.desk.admin.request("DELETE", path)
    outcome = await waiting.by_timer()
    assert (outcome.handing_over, waiting.state, waiting.desk.written[-1:]) == (
        (),
        EMPTY,
        [f"status InferaDeployment/{OWNER}"],
    )
    assert await waiting.condition("Warning") is None


async def test_what_is_not_asked_for_any_more_at_all_waits_for_nobody(waiting: Scene) -> None:
    waiting.rendering = Rendering(children=())
    await waiting.by_event()
    assert sorted(waiting.deletes()) == ["delete Deployment/child", "delete StatefulSet/child"]


async def test_while_it_is_paused_neither_is_made_or_deleted_and_it_goes_on_then(
    scene: Scene,
) -> None:
    paused: dict[str, Any] = {"metadata": {"annotations": {ANNOTATION: "true"}}}

    async def patch() -> None:
        await scene.desk.admin.request(
            "PATCH",
            CONTRACT.kind.path(scene.desk.namespace, OWNER),
            body=msgspec.json.encode(paused),
            content_type=MERGE_PATCH,
        )

    await patch()
    outcome = await scene.by_event()
    assert await scene.is_there(FORMER)
    assert not await scene.is_there(SUCCESSOR)
    assert outcome.handing_over == (FORMER,)
    progressing = await scene.condition("Progressing")
    assert progressing is not None
    assert "create StatefulSet/child" in progressing["message"]
    assert "delete" not in progressing["message"]

    paused["metadata"]["annotations"][ANNOTATION] = None
    await patch()
    await scene.by_event()
    assert "create StatefulSet/child" in scene.desk.written
    paused["metadata"]["annotations"][ANNOTATION] = "true"
    await patch()
    scene.serving.add(SUCCESSOR)
    await scene.by_event()
    assert scene.deletes() == []
    progressing = await scene.condition("Progressing")
    assert progressing is not None
    assert "delete Deployment/child" in progressing["message"]


async def test_a_dry_run_foretells_that_the_former_goes(scene: Scene) -> None:
    dry_run = await scene.foretold()
    assert {"create StatefulSet/child", "delete Deployment/child"} <= {*dry_run.written}
    assert await scene.is_there(FORMER)


async def test_but_not_where_the_successor_would_be_refused(scene: Scene) -> None:
    scene.rendering = scene.forwards(_invalid(scene))
    dry_run = await scene.foretold()
    assert [what for what in dry_run.written if what.startswith("delete")] == []


async def test_who_dies_at_any_write_is_followed_by_one_who_ends_it(scene: Scene) -> None:
    """At each of them one of the two serves; what the dead one remembered may be lost."""
    alive = scene.desk.lease
    for serving, goes in (set[ChildName](), None), ({SUCCESSOR}, FORMER):
        scene.serving = serving

        async def one_serves(*, is_served: bool = bool(serving)) -> bool:
            there = await scene.is_there(FORMER)
            return there or (is_served and await scene.is_there(SUCCESSOR))

        assert await cut_at_every_write(scene, one_serves) >= 2
        alive.predecessor_died = True
        await scene.by_event()
        alive.predecessor_died = False
        await scene.by_timer()
        assert await scene.is_there(SUCCESSOR)
        assert await scene.is_there(FORMER) is (goes is None)


async def test_a_look_that_was_failed_since_the_last_still_meets_it(waiting: Scene) -> None:
    """What is remembered is of another generation, and of a failure."""
    waiting.state = FailState(uid="u", generation=99, failures=2, error="x", handing_over=(FORMER,))
    waiting.serving.add(SUCCESSOR)
    await waiting.by_timer()
    assert waiting.deletes() == ["delete Deployment/child"]
