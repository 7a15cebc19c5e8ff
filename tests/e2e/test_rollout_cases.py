"""
Bug reports of neighbouring systems about rollouts (cases.md, by number): none is one of ours.

On a simulated fleet that the workers fill: there is no GPU for a pod more than runs.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from crds.inferadeployment import KIND
from crds.kubernetes import DEPLOYMENT, POD, Manifest
from handlers.cli.devstack.control_plane import Binaries, ControlPlane
from handlers.cli.devstack.fleet import Fleet
from handlers.cli.devstack.weir import shipped_manifests
from tests.builders import InferaDeploymentBuilder, an_infera_deployment
from tests.e2e.stage import Stage, condition_of, container, uid
from tests.stack.eventually import eventually
from tests.witness.quiet import quiet

GPUS = 8
"""Of a node; two nodes are the fleet, and a worker takes one whole."""
CRASHES = "registry.example/infera:crashes"
"""What the simulated fleet lets crash (stages.yaml)."""
STALL_SECONDS = 60
"""Within how long a stall is named."""


@pytest.fixture(scope="module")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane with two nodes."""
    fleet = Fleet(nodes=2, gpus_per_node=GPUS)
    own = ControlPlane(control_plane_binaries, manifests=shipped_manifests(), fleet=fleet)
    own.start()
    yield own
    own.stop()


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    """A namespace that Weir looks after; the fleet is empty again afterwards."""
    yield running
    running.kubectl("delete", KIND.plural, "--all", "--cascade=foreground", "--timeout=60s")


def a_pair(prefill: str = "infera:1", decode: str = "infera:1") -> InferaDeploymentBuilder:
    """Return disaggregated serving of one pod each, which fill the fleet."""
    return (
        an_infera_deployment("pd")
        .with_server()
        .with_worker("prefill", gpus=GPUS, role="prefill", image=f"registry.example/{prefill}")
        .with_worker("decode", gpus=GPUS, role="decode", image=f"registry.example/{decode}")
    )


def a_full_fleet(image: str = "registry.example/infera:1") -> InferaDeploymentBuilder:
    """Return workers that fill the fleet."""
    return (
        an_infera_deployment("full").with_server().with_worker(gpus=GPUS, image=image, replicas=2)
    )


def pods(stage: Stage, service: str) -> list[Manifest]:
    """Return the pods of a service that are not going."""
    label = f"infera.amd.com/service={service}"
    items: list[Manifest] = stage.cluster.get(f"{POD.path(stage.namespace)}?labelSelector={label}")[
        "items"
    ]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def image_of(pod: Manifest) -> str:
    """Return what a pod runs."""
    return str(container({"spec": {"template": pod}})["image"])


def is_pending(pod: Manifest) -> bool:
    """Say whether a pod has no node."""
    return bool(condition_of(pod, "PodScheduled").get("status") == "False")


async def test_a_rollout_on_a_full_fleet_completes_pod_by_pod(stage: Stage) -> None:
    """Case 27. A pod is not made before another has left its node to it."""
    stage.apply(a_full_fleet())
    await stage.ready("full")
    before = {uid(pod) for pod in pods(stage, "worker")}
    counts: Counter[int] = Counter()

    stage.apply(a_full_fleet("registry.example/infera:2"))

    def is_replaced() -> bool:
        now = pods(stage, "worker")
        counts[len(now)] += 1
        assert len([pod for pod in now if is_pending(pod)]) <= 1
        return len(now) == 2 and before.isdisjoint(map(uid, now))

    await eventually(is_replaced, 60)
    await stage.ready("full")
    assert max(counts) == 2
    assert not any(map(is_pending, pods(stage, "worker")))


async def test_a_rollout_to_an_image_that_crashes_is_not_ready_and_mended_by_the_next(
    stage: Stage,
) -> None:
    """Cases 25 and 28. Old pods serve on; what is asked for last comes without anybody's help."""
    stage.apply(a_full_fleet())
    await stage.ready("full")

    stage.apply(a_full_fleet(CRASHES))

    said = await stage.says("full", "Ready", "False", "Crashing", "service worker", "exit code 1")
    assert "kubectl logs --previous" in said["message"]
    status = stage.resource("full")["status"]
    assert status["services"]["worker"]["readyReplicas"] == 1
    assert status["state"] == "pending"
    assert Counter(map(image_of, pods(stage, "worker"))) == {
        CRASHES: 1,
        "registry.example/infera:1": 1,
    }

    # Another mistake, and then what is right, while the first is still under way.
    stage.apply(a_full_fleet("registry.example/other:crashes"))
    await eventually(
        lambda: "registry.example/other:crashes" in map(image_of, pods(stage, "worker")), 60
    )
    stage.apply(a_full_fleet("registry.example/infera:2"))
    await stage.ready("full", within_seconds=60)
    assert set(map(image_of, pods(stage, "worker"))) == {"registry.example/infera:2"}


async def test_a_birth_with_an_image_that_crashes_becomes_ready_once_it_is_mended(
    stage: Stage,
) -> None:
    """Case 28."""
    stage.apply(a_full_fleet(CRASHES))
    await stage.says("full", "Ready", "False", "Crashing", "service worker")
    assert stage.resource("full")["status"]["services"]["worker"]["readyReplicas"] == 0
    stage.apply(a_full_fleet("registry.example/infera:2"))
    await stage.ready("full", within_seconds=60)


async def test_an_edit_of_one_role_or_of_replicas_restarts_no_other_pod(stage: Stage) -> None:
    """Case 32."""
    stage.apply(a_pair())
    await stage.ready("pd")
    prefill, server = pods(stage, "prefill"), pods(stage, "server")
    decode = {uid(pod) for pod in pods(stage, "decode")}

    stage.apply(a_pair(decode="infera:2"))
    await eventually(lambda: decode.isdisjoint(map(uid, pods(stage, "decode"))), 60)
    await stage.ready("pd")
    assert [*map(uid, pods(stage, "prefill"))] == [*map(uid, prefill)]
    assert [*map(uid, pods(stage, "server"))] == [*map(uid, server)]

    before = {uid(pod) for name in ("prefill", "decode", "server") for pod in pods(stage, name)}
    begun = time.monotonic()
    for number in range(6):
        stage.apply(a_pair(decode="infera:2").with_server(replicas=2 + number % 2))
        await asyncio.sleep(2)
    assert time.monotonic() - begun < 30
    await stage.ready("pd")
    now = {uid(pod) for name in ("prefill", "decode", "server") for pod in pods(stage, name)}
    assert before <= now


async def test_a_rollout_within_a_quota_that_leaves_no_surge_completes(stage: Stage) -> None:
    """Case 34. One prefill, one decode, and a quota of just these."""
    stage.kubectl("apply", "-f-", document=a_quota(2 * GPUS))
    stage.apply(a_pair())
    await stage.ready("pd")
    before = {uid(pod) for name in ("prefill", "decode") for pod in pods(stage, name)}

    stage.apply(a_pair("infera:2", "infera:2"))
    await stage.ready("pd", within_seconds=60)
    after = {uid(pod) for name in ("prefill", "decode") for pod in pods(stage, name)}
    assert before.isdisjoint(after)


async def test_a_quota_that_is_too_small_is_named_and_nothing_else_waits(stage: Stage) -> None:
    """Case 34. Never a silent stall."""
    stage.kubectl("apply", "-f-", document=a_quota(GPUS))
    stage.apply(a_pair())
    begun = time.monotonic()

    said = await stage.says("pd", "Ready", "False", "Stalled", "cannot be made", "exceeded quota")
    assert time.monotonic() - begun < STALL_SECONDS
    assert "gpus" in said["message"]  # the quota's name
    services = stage.resource("pd")["status"]["services"]
    assert services["server"]["readyReplicas"] == 1
    assert {services[name]["readyReplicas"] for name in ("prefill", "decode")} == {0, 1}
    async with quiet(stage.cluster, stage.namespace, kinds=(KIND,)):
        await stage.looked_at_again("pd")

    stage.kubectl("apply", "-f-", document=a_quota(2 * GPUS))
    # The controller asks for its pods again by and by, with growing pauses.
    await stage.ready("pd", within_seconds=120)


async def test_a_pod_more_than_the_fleet_has_room_for_waits_and_says_for_what(
    stage: Stage,
) -> None:
    stage.apply(a_full_fleet().with_service("worker", replicas=3))
    said = await stage.says("full", "Ready", "False", "Unschedulable", "service worker", "2 of 3")
    assert "Insufficient amd.com/gpu" in said["message"]
    assert stage.get(DEPLOYMENT, "full-worker")["status"]["readyReplicas"] == 2


def a_quota(gpus: int) -> Manifest:
    """Return a quota of so many GPUs."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.amd.com/gpu": str(gpus)}},
    }
