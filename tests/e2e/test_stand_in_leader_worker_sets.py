"""The stand-in for LeaderWorkerSet's controller does what other tests rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from crds.kubernetes import LEADER_WORKER_SET, SERVICE, Manifest
from handlers.cli.devstack.control_plane import Binaries, ControlPlane
from handlers.cli.devstack.fleet import Fleet, node_name
from handlers.cli.devstack.weir import shipped_manifests
from tests.e2e.stage import Stage, condition_of, controller_of, uid
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.groups import (
    GROUP_INDEX,
    REVISION,
    WORKER_INDEX,
    Group,
    revision_of,
    to_replace,
)
from tests.faults.stand_ins.installing import (
    LEADER_WORKER_SETS,
    install_crds,
    installed,
    remove_crds,
)
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir

NODES = 6
"""Of eight GPUs each: room for two groups of three pods."""
SPARE = [node_name(number) for number in range(NODES + 1, NODES + 4)]
"""Nodes that take no pods until they are uncordoned."""


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane whose fleet two groups fill."""
    fleet = Fleet(nodes=NODES + len(SPARE))
    own = ControlPlane(control_plane_binaries, manifests=shipped_manifests(), fleet=fleet)
    own.start()
    own.kubectl("cordon", *SPARE)
    yield own
    own.stop()


@pytest.fixture
def cluster(plane: ControlPlane) -> ControlPlane:
    return plane


@pytest.fixture
def stage(cluster: ControlPlane, namespace: str, weir: Weir) -> Stage:
    """A namespace in which Weir does not run."""
    return Stage(cluster, namespace, weir)


def _workers(replicas: int = 2, image: str = "registry.example/infera:1") -> Manifest:
    container = {
        "name": "infera",
        "image": image,
        "ports": [{"containerPort": 30000}],
        "resources": {"limits": {"amd.com/gpu": "8"}, "requests": {"amd.com/gpu": "8"}},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": LEADER_WORKER_SET.api_version,
        "kind": LEADER_WORKER_SET.kind,
        "metadata": {"name": "big"},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": 3, "workerTemplate": template},
        },
    }


def _status(stage: Stage) -> Manifest:
    """Return the status once it speaks of the present generation; empty before."""
    live = stage.get(LEADER_WORKER_SET, "big")
    status: Manifest = live.get("status") or {}
    return status if status.get("observedGeneration") == live["metadata"]["generation"] else {}


async def _is_available(stage: Stage, groups: int) -> None:
    def are_ready() -> bool:
        status = _status(stage)
        counts = [status.get(f) for f in ("replicas", "readyReplicas", "updatedReplicas")]
        assert counts == [groups] * 3, status
        return bool(condition_of({"status": status}, "Available")["status"] == "True")

    await eventually(are_ready)


@pytest.fixture(scope="module")
def served(plane: ControlPlane) -> Iterator[None]:
    """LeaderWorkerSets are served."""
    with installed(plane, LEADER_WORKER_SETS), in_thread(StandInLeaderWorkerSets(plane)):
        yield


@pytest.fixture
async def big(stage: Stage, served: None) -> AsyncIterator[Stage]:
    """A LeaderWorkerSet that fills the fleet; its end is awaited."""
    stage.kubectl("apply", "-f-", document=_workers())
    yield stage
    stage.kubectl("delete", "lws", "--all")
    await eventually(lambda: not stage.pods())


async def test_two_groups_of_three_pods_become_ready_with_the_names_that_engines_rely_on(
    big: Stage,
) -> None:
    await _is_available(big, 2)
    pods = big.pods()
    assert sorted(pods) == ["big-0", "big-0-1", "big-0-2", "big-1", "big-1-1", "big-1-2"]
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == NODES
    live = big.get(LEADER_WORKER_SET, "big")
    assert uid(live) == controller_of(pods["big-1"])["uid"]
    assert uid(pods["big-1"]) == controller_of(pods["big-1-2"])["uid"]
    labels = pods["big-1-2"]["metadata"]["labels"]
    assert labels == {
        "a": "b",
        "leaderworkerset.sigs.k8s.io/name": "big",
        GROUP_INDEX: "1",
        WORKER_INDEX: "2",
        REVISION: revision_of(live),
    }
    assert pods["big-1-2"]["spec"]["containers"][0]["env"] == [
        {"name": "LWS_LEADER_ADDRESS", "value": f"big-1.big.{big.namespace}"},
        {"name": "LWS_GROUP_SIZE", "value": "3"},
        {"name": "LWS_WORKER_INDEX", "value": "2"},
    ]
    assert big.get(SERVICE, "big")["spec"]["clusterIP"] == "None"
    # As the real CRD has it: typed, so that a default is filled in and lists merge by their keys.
    (container,) = live["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 30000, "protocol": "TCP"}]


async def test_an_image_rolls_group_by_group_on_a_full_fleet(big: Stage) -> None:
    await _is_available(big, 2)
    before = {uid(pod) for pod in big.pods().values()}
    offset = big.audit.offset()
    big.kubectl("apply", "-f-", document=_workers(image="registry.example/infera:2"))
    await _is_available(big, 2)

    pods = big.pods()
    assert before.isdisjoint(uid(pod) for pod in pods.values())
    images = {pod["spec"]["containers"][0]["image"] for pod in pods.values()}
    assert images == {"registry.example/infera:2"}
    said = [
        event.body["status"]
        for event in big.audit.mutating(from_offset=offset, user_agent_prefix="stand-in-lws")
        if event.object_ref.subresource == "status" and event.landed
    ]
    assert said[0]["updatedReplicas"] == 0
    assert condition_of({"status": said[0]}, "UpdateInProgress")["status"] == "True"
    assert condition_of({"status": said[0]}, "Available")["status"] == "False"
    assert min(status["readyReplicas"] for status in said) == 1
    assert condition_of({"status": said[-1]}, "UpdateInProgress")["status"] == "False"


async def test_a_full_fleet_keeps_the_last_group_pending_until_there_is_room(big: Stage) -> None:
    await _is_available(big, 2)
    big.kubectl("scale", "lws/big", "--replicas=3")

    def waits_for_room() -> bool:
        waiting = [condition_of(pod, "PodScheduled") for pod in big.pods().values()]
        reasons = [condition.get("reason") for condition in waiting]
        assert reasons.count("Unschedulable") == 3, reasons
        status = _status(big)
        assert (status["replicas"], status["readyReplicas"]) == (3, 2), status
        return bool(condition_of({"status": status}, "Available")["status"] == "False")

    await eventually(waits_for_room)
    big.cluster.kubectl("uncordon", *SPARE)
    try:
        await _is_available(big, 3)
    finally:
        big.cluster.kubectl("cordon", *SPARE)


async def test_a_group_that_loses_a_pod_is_made_anew_as_a_whole(big: Stage) -> None:
    await _is_available(big, 2)
    before = {name: uid(pod) for name, pod in big.pods().items()}
    big.kubectl("delete", "pod", "big-1-2")

    def is_anew() -> bool:
        now = {name: uid(pod) for name, pod in big.pods().items()}
        assert now.keys() == before.keys(), sorted(now)
        return {name for name in now if now[name] != before[name]} == {
            "big-1",
            "big-1-1",
            "big-1-2",
        }

    await eventually(is_anew)
    await _is_available(big, 2)


async def test_a_set_that_is_deleted_while_it_rolls_goes_with_its_pods_and_may_come_again(
    big: Stage,
) -> None:
    await _is_available(big, 2)
    before = {uid(pod) for pod in big.pods().values()}
    big.kubectl("apply", "-f-", document=_workers(image="registry.example/infera:2"))
    big.kubectl("delete", "lws/big")
    big.kubectl("apply", "-f-", document=_workers(replicas=1))
    await _is_available(big, 1)

    def is_alone() -> bool:
        pods = big.pods()
        assert sorted(pods) == ["big-0", "big-0-1", "big-0-2"]
        return before.isdisjoint(uid(pod) for pod in pods.values())

    await eventually(is_alone)


async def test_a_restart_of_the_api_server_is_followed(big: Stage) -> None:
    await _is_available(big, 2)
    big.cluster.restart_api_server()
    big.kubectl("scale", "lws/big", "--replicas=1")
    await _is_available(big, 1)


async def test_a_crd_that_is_removed_takes_sets_and_pods_along_and_comes_again(big: Stage) -> None:
    await _is_available(big, 2)
    remove_crds(big.cluster, [LEADER_WORKER_SETS])
    await eventually(lambda: not big.pods())
    assert install_crds(big.cluster, [LEADER_WORKER_SETS]) == [LEADER_WORKER_SETS]
    big.kubectl("apply", "-f-", document=_workers())
    await _is_available(big, 2)


READY, OLD, NEW = True, "old", "new"


@pytest.mark.parametrize(
    ("groups", "partition", "chosen"),
    [
        ([(READY, OLD), (READY, OLD), (READY, OLD)], 0, [2]),
        ([(READY, OLD), (READY, OLD), (not READY, NEW)], 0, []),
        ([(READY, OLD), (READY, OLD), (READY, NEW)], 0, [1]),
        ([(not READY, OLD), (READY, OLD), (READY, OLD)], 0, []),
        ([(not READY, OLD), (not READY, OLD)], 0, [1]),
        ([(READY, OLD), (READY, OLD)], 2, []),
        ([(READY, NEW), (READY, NEW)], 0, []),
    ],
)
def test_a_rollout_goes_from_the_last_group_to_the_first_and_never_ends_two_that_serve(
    groups: list[tuple[bool, str]], partition: int, chosen: list[int]
) -> None:
    workers = _workers()
    configuration = {"partition": partition, "maxUnavailable": 1}
    workers["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": configuration}
    revisions = {OLD: "0", NEW: revision_of(workers)}
    made = [
        Group(index=index, size=1, pods={0: _a_pod(revisions[of], is_ready=is_ready)})
        for index, (is_ready, of) in enumerate(groups)
    ]
    assert to_replace(workers, made) == chosen


def _a_pod(revision: str, *, is_ready: bool) -> Manifest:
    ready = {"type": "Ready", "status": str(is_ready)}
    return {"metadata": {"labels": {REVISION: revision}}, "status": {"conditions": [ready]}}
