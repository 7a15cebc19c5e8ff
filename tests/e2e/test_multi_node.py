"""Workers of several nodes: LeaderWorkerSets on a fleet whose GPUs are all in use, or are not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, Manifest
from handlers.cli.devstack.control_plane import Binaries, ControlPlane
from handlers.cli.devstack.weir import shipped_manifests
from tests.builders import an_infera_deployment
from tests.e2e.full_fleet import (
    FLEET,
    NODES,
    SPARE,
    WORKER,
    chat,
    finds_no_node,
    is_gone,
    of,
    other,
    room,
    serves,
    serves_alone,
    told,
)
from tests.e2e.stage import Stage
from tests.e2e.terminal import Terminal
from tests.faults import policies
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.installing import LEADER_WORKER_SETS, installed
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.stack.eventually import eventually
from tests.witness.audit import AuditEvent
from tests.witness.pods import PodsSeen
from tests.witness.quiet import quiet


@pytest.fixture(scope="module")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane whose autoscalers look every second."""
    own = ControlPlane(
        control_plane_binaries,
        manifests=shipped_manifests(),
        fleet=FLEET,
        controller_manager_flags=["--horizontal-pod-autoscaler-sync-period=1s"],
    )
    own.start()
    own.kubectl("cordon", *SPARE)
    with installed(own, LEADER_WORKER_SETS):
        yield own
    own.stop()


@pytest.fixture(scope="module")
def company_settings() -> Mapping[str, Any]:
    """Pods that wait for a node are asked soon."""
    return {"not_ready_seconds": 1}


_WORKERS: Manifest = {
    "apiVersion": LEADER_WORKER_SET.api_version,
    "kind": LEADER_WORKER_SET.kind,
    "metadata": {"name": "tried"},
    "spec": {
        "leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "main"}]}}}
    },
}
"""One that leaves open all that can be left open."""


@pytest.fixture(params=["by its schema", "by its webhook"])
async def webhook(
    request: pytest.FixtureRequest, control_plane: ControlPlane, namespace: str
) -> AsyncIterator[None]:
    """What a LeaderWorkerSet leaves open is filled in, before or after it is decoded."""
    if request.param == "by its schema":
        yield
        return
    policy = policies.filling_in_groups(namespace)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    crd = f"crd/{LEADER_WORKER_SET.crd_name}"

    def patch(verb: str) -> None:
        patches = [
            {"op": verb, "path": f"{path}/{field}/default", "value": {}}
            for field in ("rolloutStrategy", "networkConfig")
        ]
        control_plane.kubectl("patch", crd, "--type=json", f"--patch={json.dumps(patches)}")

    def is_filled_in() -> bool:
        tried = control_plane.kubectl(
            *(f"--namespace={namespace}", "create", "--dry-run=server", "-ojson", "-f-"),
            document=_WORKERS,
        )
        return "rolloutStrategy" in json.loads(tried.stdout)["spec"]

    patch("remove")
    await eventually(lambda: not is_filled_in())
    control_plane.kubectl("create", "-f-", document=policy)
    try:
        await eventually(is_filled_in)
        yield
    finally:
        control_plane.kubectl("delete", "-f-", document=policy)
        patch("add")


@pytest.fixture(params=[True, False], ids=["says-generation", "silent-about-generation"])
def served(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[None]:
    """LeaderWorkerSets are served, by a new release of their controller and by an old one."""
    with in_thread(StandInLeaderWorkerSets(control_plane, says_generation=request.param)):
        yield


@pytest.mark.usefixtures("served")
async def test_one_node_becomes_two_and_one_again_on_a_fleet_that_is_full(running: Stage) -> None:
    """The old pods stay until a new one finds no node, and then make room for it."""
    running.apply(chat(nodes=1))
    await running.ready("chat")
    for nodes, kind in ((2, LEADER_WORKER_SET), (1, DEPLOYMENT)):
        with in_thread(PodsSeen(running.cluster, running.namespace)) as seen:
            running.apply(chat(nodes))
            await serves_alone(running, kind)
        before = other(kind)
        for pods in seen.moments:
            if any(map(finds_no_node, of(pods, kind))):
                break  # what is old may go now
            assert serves(pods, before), told(pods)
        else:
            pytest.fail("the fleet was not full")
    await is_gone(running)


@pytest.mark.usefixtures("served")
async def test_where_there_is_room_one_of_both_serves_at_every_moment(running: Stage) -> None:
    running.apply(chat(nodes=1))
    await running.ready("chat")
    with room(running), in_thread(PodsSeen(running.cluster, running.namespace)) as seen:
        for nodes, kind in ((2, LEADER_WORKER_SET), (1, DEPLOYMENT)):
            begun = len(seen.moments)
            running.apply(chat(nodes))
            await serves_alone(running, kind)
            moments = seen.moments[begun:]
            assert not serves(moments[0], kind)
            for pods in moments:
                assert not any(map(finds_no_node, pods.values())), told(pods)
                assert serves(pods, kind) or serves(pods, other(kind)), told(pods)
    await is_gone(running)


async def test_edits_to_and_fro_on_a_full_fleet_end_with_what_was_asked_for_last(
    running: Stage,
) -> None:
    """Each of them meets the one before half done: two workloads, one of them on its way out."""
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        running.apply(chat(nodes=1))
        await running.ready("chat")
        for nodes in (2, 1, 2, 1, 4, 1, 2):
            running.apply(chat(nodes))
        await serves_alone(running, LEADER_WORKER_SET)
        await is_gone(running)


async def test_a_group_that_no_node_would_take_takes_no_pod_away(running: Stage) -> None:
    """The end of what serves would not help it; who is on call is told what would."""
    terminal = Terminal(running.weir.nats.url, running.cluster.kubeconfig())
    where = f"{running.namespace}/chat"
    picky = (
        an_infera_deployment("chat")
        .with_worker(nodes=2, replicas=NODES // 2)
        .with_pod_spec(
            "worker",
            containers=[{"name": "main", "image": "registry.example/infera:1"}],
            nodeSelector={"pool": "none"},
        )
    )
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        running.apply(chat(nodes=1))
        await running.ready("chat")
        with in_thread(PodsSeen(running.cluster, running.namespace)) as seen:
            running.apply(picky)
            said = await running.says("chat", "Ready", "False", "Unschedulable", "affinity")
            assert said["message"].startswith("service worker has 0 of 2 groups ready: ")
            _, row = running.kubectl("get", "idep", "chat", "-o", "wide").splitlines()
            name, _, state, *_, reason = row.split()
            assert (name, state, reason) == ("chat", "pending", "Unschedulable")
            handing_over = await running.says("chat", "Warning", "True", "HandingOver", WORKER)
            assert "goes on serving" in handing_over["message"]
            offset = running.audit.offset()
            await running.read_since(offset, "chat")
            why = terminal.does("why", "idep", where)
            assert why.startswith(
                f"chat is waiting for: room for {NODES} pods of LeaderWorkerSet {WORKER}: "
                "no node has the labels that the pod asks for"
            )
            assert f"Deployment {WORKER} goes on serving" in why
            assert all(serves(pods, DEPLOYMENT) for pods in seen.moments)
            foretold = terminal.weir("render", "--diff", "idep", where)
            assert (foretold.code, foretold.err) == (1, "")
            assert f"- Deployment/{WORKER}: {NODES} pods would end" in foretold.out
        running.apply(chat(nodes=2))
        await serves_alone(running, LEADER_WORKER_SET)
        assert terminal.does("why", "idep", where).startswith("chat is waiting for: nothing")
        assert terminal.weir("render", "--diff", "idep", where).code == 0
        await is_gone(running)


async def test_an_autoscaler_of_groups_keeps_its_number_through_edits(running: Stage) -> None:
    """It is told of in the status; an edit of the number itself is made once, and no more."""
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        small = chat(nodes=2).with_server().with_service("worker", replicas=1)
        running.apply(small)
        await running.ready("chat")
        running.apply(_autoscaler(replicas=2))
        # Its controller learns of kinds that are new within 30 s.
        await eventually(
            lambda: running.get(LEADER_WORKER_SET, WORKER)["spec"]["replicas"] == 2, 60
        )
        await running.says(
            "chat",
            "Warning",
            "True",
            "ScaledByOther",
            f"LeaderWorkerSet {WORKER} by kube-controller-manager",
        )
        await running.ready("chat")
        offset = running.audit.offset()

        for edited in (
            small.with_service("worker", args=["--edited"]),
            small.with_service("worker", image="registry.example/infera:2"),
            small.with_service("server", replicas=2).with_env("LEVEL", "high"),
            small,
        ):
            running.apply(edited)
            resource = await running.ready("chat")
            counted = resource["status"]["services"]["worker"]
            assert (counted["replicas"], counted["readyReplicas"]) == (2, 2)
        assert len(_numbers_written(running, offset)) >= 4
        assert set(_numbers_written(running, offset)) == {None}

        running.apply(small.with_service("worker", replicas=3))
        await running.ready("chat")

        def is_scaled_back() -> bool:
            live = running.get(LEADER_WORKER_SET, WORKER)
            assert _numbers_written(running, offset).count(3) == 1
            return bool(live["spec"]["replicas"] == 2)

        await eventually(is_scaled_back)
        await running.ready("chat")
        async with quiet(running.cluster, running.namespace):
            await running.looked_at_again("chat")
        assert _numbers_written(running, offset).count(3) == 1
        await is_gone(running)


async def test_what_the_controller_of_groups_fills_in_is_not_fought(
    running: Stage, webhook: None
) -> None:
    """Neither after the birth, nor after an edit that takes a field away; what others set stays."""
    del webhook
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        offset = running.audit.offset()
        running.apply(chat(nodes=2).with_env("LEVEL", "high"))
        await running.ready("chat")
        assert _filled_in(running) == _DEFAULTS
        async with quiet(running.cluster, running.namespace):
            await running.looked_at_again("chat")
        assert [event.verb for event in _writes_of_groups(running, offset)] == ["create"]

        strategy = {"rollingUpdateConfiguration": {"maxUnavailable": 2}}
        running.patch(f"lws/{WORKER}", {"spec": {"rolloutStrategy": strategy}}, "--type=merge")
        offset = running.audit.offset()
        running.apply(chat(nodes=2))
        await running.ready("chat")
        assert _filled_in(running) == {
            **_DEFAULTS,
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"partition": 0, "maxUnavailable": 2, "maxSurge": 0},
            },
        }
        async with quiet(running.cluster, running.namespace):
            await running.looked_at_again("chat")
        # The fields become ours before one of them can go: a write of its own.
        assert len(_writes_of_groups(running, offset)) == 2
        await is_gone(running)


async def test_what_only_a_leader_worker_set_refuses_or_drops_is_named_and_heals(
    running: Stage,
) -> None:
    """Its CRD is typed: what a Deployment takes as it is may be unknown there."""
    main = {"name": "main", "image": "registry.example/infera:1"}
    twice = [{"name": "TWICE", "value": "first"}, {"name": "TWICE", "value": "last"}]
    good = an_infera_deployment("chat").with_server().with_worker(nodes=2)
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        running.apply(
            good.with_pod_spec(
                "worker", containers=[{**main, "env": twice, "gpuPartition": "half"}], warp=True
            )
        )
        await running.ready("chat")
        await running.says("chat", "Warning", "True", "Duplicates", "service worker", "TWICE")
        said = await running.says(
            "chat", "Degraded", "True", "FieldNotKnown", f"LeaderWorkerSet {WORKER}"
        )
        assert "gpuPartition" in said["message"]
        assert "warp" in said["message"]

        running.apply(
            good.with_server(replicas=2).with_pod_spec(
                "worker", containers=[{**main, "env": [{"name": "LEVEL", "value": 5}]}]
            )
        )
        await running.says(
            *("chat", "Degraded", "True", "Refused", f"LeaderWorkerSet {WORKER}"),
            'env[name="LEVEL"].value: expected string',
        )
        await eventually(
            lambda: running.get(DEPLOYMENT, "chat-server")["status"]["readyReplicas"] == 2
        )

        running.apply(good)
        await running.ready("chat")
        await running.says("chat", "Degraded", "False", "AsAsked")
        assert running.condition("chat", "Warning") == {}
        async with quiet(running.cluster, running.namespace):
            await running.looked_at_again("chat")
        await is_gone(running)


def _autoscaler(replicas: int) -> Manifest:
    """Return one that needs no metrics: its bounds leave a single number."""
    target = {
        "apiVersion": LEADER_WORKER_SET.api_version,
        "kind": LEADER_WORKER_SET.kind,
        "name": WORKER,
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": WORKER},
        "spec": {"scaleTargetRef": target, "minReplicas": replicas, "maxReplicas": replicas},
    }


_DEFAULTS: Manifest = {
    "startupPolicy": "LeaderCreated",
    "networkConfig": {"subdomainPolicy": "Shared"},
    "rolloutStrategy": {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {"partition": 0, "maxUnavailable": 1, "maxSurge": 0},
    },
    "restartPolicy": "RecreateGroupOnPodRestart",
}
"""What a LeaderWorkerSet holds beside what we render."""


def _filled_in(stage: Stage) -> Manifest:
    spec = stage.get(LEADER_WORKER_SET, WORKER)["spec"]
    groups = dict(spec["leaderWorkerTemplate"])
    assert groups.pop("size") == 2
    del groups["workerTemplate"]
    return {
        **{key: spec[key] for key in spec.keys() - {"replicas", "leaderWorkerTemplate"}},
        **groups,
    }


def _writes_of_groups(stage: Stage, offset: int) -> list[AuditEvent]:
    return [
        event
        for event in stage.audit.mutating(
            user_agent_prefix="weir-handlers", namespace=stage.namespace, from_offset=offset
        )
        if event.object_ref.resource == LEADER_WORKER_SET.plural
    ]


def _numbers_written(stage: Stage, offset: int) -> list[int | None]:
    """Return the number of groups in every write of ours, None where it is not in it."""
    return [
        (event.body.get("spec") or {}).get("replicas") for event in _writes_of_groups(stage, offset)
    ]
