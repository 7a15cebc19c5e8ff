"""A CRD of somebody else that is installed later concerns every resource that waits for it."""

from __future__ import annotations

import asyncio
from functools import partial

from crds.kubernetes import DEPLOYMENT, HTTP_ROUTE, INFERENCE_POOL, LEADER_WORKER_SET
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from tests.builders import a_small_deployment, an_infera_deployment
from tests.e2e.stage import Stage, versions
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins import LEADER_WORKER_SET_CRD
from tests.faults.stand_ins.gateways import StandInGateways, a_gateway
from tests.faults.stand_ins.installing import (
    GAIE,
    LEADER_WORKER_SETS,
    install_crds,
    installed,
    remove_crds,
)
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.stack.eventually import eventually

COUNT = 50


async def test_fifty_resources_are_all_reconciled_when_the_leader_worker_set_crd_appears(
    fresh_control_plane: ControlPlane, stage: Stage
) -> None:
    """Before, each says what it lacks and its other services go on; nothing is restarted."""
    stage.start()
    names = [f"wide-{number:03}" for number in range(COUNT)]
    wide = an_infera_deployment("wide").with_server().with_worker("wide", nodes=2)
    stage.apply(*wide.many(COUNT))
    await asyncio.gather(
        *(stage.says(name, "Ready", "False", "KindNotInstalled", "wide") for name in names)
    )
    await stage.read_since(0, *names)
    offset = stage.audit.offset()
    assert len(stage.children()) == 5 * COUNT

    fresh_control_plane.kubectl("create", "-f", str(LEADER_WORKER_SET_CRD))

    await stage.read_since(offset, *names, within_seconds=30)
    for name in names:
        # No controller makes pods of it here: that it was made is what is shown.
        await stage.says(name, "Ready", "False", "WaitingForPods", "wide")


async def test_what_waits_for_a_crd_is_looked_at_again_and_again_and_writes_nothing(
    stage: Stage,
) -> None:
    stage.start(child_retry_seconds=0.5, child_retry_max_seconds=0.5)
    stage.apply(an_infera_deployment("wide").with_server().with_worker("wide", nodes=2))
    await stage.says("wide", "Ready", "False", "KindNotInstalled", "wide")
    await stage.read_since(stage.audit.offset(), "wide")
    offset = stage.audit.offset()
    for _ in range(3):
        await stage.read_since(stage.audit.offset(), "wide")
    await stage.looked_at_again("wide")
    assert stage.audit.mutating(from_offset=offset, namespace=stage.namespace) == []


async def test_the_bridge_stays_ready_while_an_optional_crd_comes_and_goes(
    fresh_control_plane: ControlPlane, stage: Stage
) -> None:
    stage.start()
    for _ in range(2):
        offset = stage.audit.offset()
        fresh_control_plane.kubectl("create", "-f", str(LEADER_WORKER_SET_CRD))
        await eventually(partial(_is_watched, stage, offset))
        fresh_control_plane.kubectl("delete", "-f", str(LEADER_WORKER_SET_CRD))

    stage.bridge.wait_ready()
    stage.apply(an_infera_deployment("chat").with_server())
    await stage.ready("chat")


async def test_a_gateway_comes_with_the_gateway_api_and_what_is_there_of_it_goes_on_without(
    control_plane: ControlPlane, stage: Stage
) -> None:
    """Nothing is restarted: neither our processes nor a pod."""
    stage.start()
    gaie = {"enabled": True, "gatewayName": "inference", "tokenizerPath": "org/model"}
    stage.apply(a_small_deployment("chat").with_spec(gaie=gaie))
    missing = (
        f"InferencePool chat-pool: the API server serves no {INFERENCE_POOL.kind}",
        INFERENCE_POOL.crd_name,
        f"HTTPRoute chat-route: the API server serves no {HTTP_ROUTE.kind}",
        HTTP_ROUTE.crd_name,
    )
    await stage.says("chat", "Degraded", "True", "KindNotInstalled", *missing)
    await eventually(partial(_serves_but_for_the_gateway, stage))
    await stage.says("chat", "Ready", "False", "KindNotInstalled", *missing)
    before = versions(stage)
    assert {"Deployment/chat-epp", "Service/chat-epp", "Deployment/chat-worker"} <= before.keys()

    for _ in range(2):
        with installed(control_plane, *GAIE), in_thread(StandInGateways(control_plane)):
            stage.kubectl("apply", "-f-", document=a_gateway())
            assert (await stage.ready("chat", within_seconds=30))["status"]["gaie"]["ready"]
        await stage.says("chat", "Ready", "False", "KindNotInstalled", *missing)
        _serves_but_for_the_gateway(stage)
    assert versions(stage) == before
    assert stage.bridge.is_running
    assert stage.handlers.is_running


def _serves_but_for_the_gateway(stage: Stage) -> bool:
    status = stage.resource("chat")["status"]
    assert status["state"] == "ready", status
    gaie = status["gaie"]
    assert (gaie["eppReadyReplicas"], gaie["ready"]) == (1, False), gaie
    assert (gaie["inferencePoolReady"], gaie["httpRouteAccepted"]) == (False, False), gaie
    return True


async def test_a_resource_of_several_nodes_follows_its_crd_as_it_comes_goes_and_comes_again(
    fresh_control_plane: ControlPlane, stage: Stage
) -> None:
    """
    What it lacks is said, its other services go on, and it is Ready within 30 s of the CRD.

    What served on one node serves until then. Bridge and handlers are the same processes from the
    beginning to the end.
    """
    stage.start()
    pids = stage.bridge.pid, stage.handlers.pid
    narrow = an_infera_deployment("wide").with_server().with_worker("small").with_worker("wide")
    stage.apply(narrow)
    await stage.ready("wide")
    stage.apply(narrow.with_worker("wide", nodes=2))
    for cycle in range(2):
        said = await stage.says(
            "wide", "Ready", "False", "KindNotInstalled", "LeaderWorkerSet wide-wide", "its CRD"
        )
        assert LEADER_WORKER_SET.crd_name in said["message"]
        await eventually(partial(_others_serve, stage))
        assert stage.resource("wide")["status"]["state"] == "pending"
        former = stage.find(DEPLOYMENT, "wide-wide")
        if cycle == 0:
            assert former is not None
            assert former["status"]["readyReplicas"] == 1
        else:
            assert former is None
        stage.apply(an_infera_deployment(f"other-{cycle}").with_server())
        await stage.ready(f"other-{cycle}")

        with in_thread(StandInLeaderWorkerSets(fresh_control_plane)):
            install_crds(fresh_control_plane, [LEADER_WORKER_SETS])
            await stage.ready("wide", within_seconds=30)
            await eventually(lambda: stage.find(DEPLOYMENT, "wide-wide") is None)
            remove_crds(fresh_control_plane, [LEADER_WORKER_SETS])
            await stage.says("wide", "Ready", "False", "KindNotInstalled", "its CRD")

    stage.bridge.wait_ready()
    stage.handlers.wait_ready()
    assert (stage.bridge.pid, stage.handlers.pid) == pids
    stage.apply(narrow)
    await stage.ready("wide")


def _others_serve(stage: Stage) -> bool:
    """Whether the services of one node are Ready as if the other were not there."""
    services = stage.resource("wide")["status"]["services"]
    ready = {name: services[name]["readyReplicas"] for name in ("server", "small", "wide")}
    assert ready == {"server": 1, "small": 1, "wide": 0}, ready
    return True


def _is_watched(stage: Stage, offset: int) -> bool:
    """Whether the bridge has had a watch of LeaderWorkerSets granted since."""
    return any(
        event.verb == "watch"
        and event.landed
        and event.object_ref.resource == LEADER_WORKER_SET.plural
        and event.user_agent.startswith("weir-bridge")
        for event in stage.audit.events(from_offset=offset, stage="ResponseStarted")
    )


async def test_a_deletion_waits_for_nothing_that_is_gone(
    control_plane: ControlPlane, nats_server: NatsServer, stage: Stage
) -> None:
    """Case 35: neither for the CRD of a child nor for NATS; there is no finalizer."""
    stage.start()
    wide = an_infera_deployment("wide").with_managed_nats().with_server()
    with installed(control_plane, LEADER_WORKER_SETS):
        stage.apply(wide.with_worker("wide", nodes=2))
        await eventually(lambda: stage.find(LEADER_WORKER_SET, "wide-wide"))
        await eventually(lambda: len(stage.children()) == 7)
    assert "finalizers" not in stage.resource("wide")["metadata"]
    nats_server.kill()
    children = tuple(stage.children())
    stage.kubectl("delete", "idep/wide", "--timeout=20s")
    await stage.vanish("InferaDeployment/wide", *children)

    nats_server.start()
    stage.apply(an_infera_deployment("next").with_server())
    await stage.ready("next", within_seconds=60)
    assert {name.partition("/")[2].partition("-")[0] for name in stage.children()} == {"next"}
    assert stage.bridge.is_running
    assert stage.handlers.is_running
