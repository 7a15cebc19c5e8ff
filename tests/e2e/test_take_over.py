"""
A cluster that AMD's operator serves is taken over, handed back, and taken over again.

Its part is played by a stand-in that writes as it does: the goldens' children, whole objects by
PUT. No pod restarts but those of what somebody edits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from crds.kubernetes import (
    DEPLOYMENT,
    ROLE,
    SERVICE,
    STATEFUL_SET,
    Manifest,
)
from handlers.cli.devstack.control_plane import Binaries, ControlPlane
from handlers.cli.devstack.weir import shipped_manifests
from handlers.kept import KEPT
from tests.builders import InferaDeploymentBuilder
from tests.e2e.live import DECODE, DISAGGREGATED, KINDS, OF_OTHERS, SILENT_SECONDS, Live
from tests.e2e.stage import Stage, container, uid
from tests.e2e.terminal import Said
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.installing import LEADER_WORKER_SETS, install_crds
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.faults.stand_ins.reference_operator import (
    OF_ITS_IMAGE,
)
from tests.stack.eventually import eventually
from tests.witness.quiet import quiet

SETTINGS: Mapping[str, Any] = {"other_operator_seconds": SILENT_SECONDS, "not_ready_seconds": 1}
ENGINES_NATS = "nats://weir.infra:4222"
SHARED_BY_DEFAULT: Mapping[str, str] = {"nats_default": "shared", "nats_engine_url": ENGINES_NATS}
MULTI_NODE = "multinode"
SCALED = f"replicas are left to their scaler: Deployment {DECODE} by horizontal-pod-autoscaler"


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane in which `-A` is what these tests make, with LeaderWorkerSets."""
    own = ControlPlane(control_plane_binaries, manifests=shipped_manifests())
    own.start()
    install_crds(own, [LEADER_WORKER_SETS])
    with in_thread(StandInLeaderWorkerSets(own)):
        yield own
    own.stop()


@pytest.fixture
def cluster(plane: ControlPlane) -> ControlPlane:
    return plane


def _assert_others_marks_survived(children: Mapping[str, Manifest]) -> None:
    for name, child in children.items():
        assert child["metadata"]["labels"][OF_OTHERS] == "1", name
        assert child["metadata"]["annotations"][OF_OTHERS] == "1", name


def _stop(stage: Stage) -> None:
    stage.handlers.terminate()
    stage.bridge.terminate()


def _start_again(stage: Stage) -> None:
    for process in (stage.bridge, stage.handlers):
        process.start()
        process.wait_ready()


@contextmanager
def nothing_restarts(live: Live) -> Iterator[None]:
    """The pods after the block are those before it, and nothing is left that would replace them."""
    before = live.made_from(), live.pods()
    assert all(before)
    yield
    assert (live.made_from(), live.pods()) == before


async def test_a_live_cluster_changes_hands_and_back_and_no_pod_restarts_but_what_is_edited(
    stage: Stage,
) -> None:
    live = Live(stage, DISAGGREGATED, MULTI_NODE, manager=OF_ITS_IMAGE)
    live.apply()
    await live.is_served_by_the_reference()
    live.mark_as_others_do()
    live.scale(5)
    await eventually(lambda: len(live.pods()) == 16, 60)
    before = live.pods()

    # Before the switch: it is said what would change, and that no pod would restart.
    offset = stage.audit.offset()
    _assert_tells_of_no_restart(live.diff(), live.children())
    assert stage.audit.mutating(from_offset=offset) == []

    with nothing_restarts(live):
        stage.start(**SETTINGS)
        children = await live.is_ours()
        _assert_others_marks_survived(children)
        kept = {
            name for name, child in children.items() if KEPT in child["metadata"]["annotations"]
        }
        assert kept == {f"StatefulSet/{name}-nats" for name in live.names}
        await stage.says(DISAGGREGATED, "Warning", "True", "TemplateKept", SCALED)
        assert stage.get(DEPLOYMENT, DECODE)["spec"]["replicas"] == 5
    assert live.diff() == (0, "", "Nothing differs: 2 resources compared.\n")

    # Back to AMD's operator: all that goes is what it takes from an autoscaler.
    _stop(stage)
    await live.is_served_by_the_reference()
    await eventually(lambda: len(live.pods()) == 15, 60)
    went = before.keys() - live.pods().keys()
    assert live.pods().keys() <= before.keys()
    assert [before[one].rsplit("-", 2)[0] for one in went] == [DECODE]

    live.mark_as_others_do()
    with nothing_restarts(live):
        _start_again(stage)
        _assert_others_marks_survived(await live.is_ours())

    await _assert_what_is_removed_goes_and_nothing_else_restarts(live)
    async with quiet(stage.cluster, stage.namespace, kinds=KINDS):
        await stage.looked_at_again(*live.names)
    assert live.diff().code == 0


def _assert_tells_of_no_restart(said: Said, children: Mapping[str, Manifest]) -> None:
    assert said.code == 1, said.err
    for name in children:
        assert f"  ~ {name}\n" in said.out
    fields = [line for line in said.out.splitlines() if line.startswith("      ")]
    assert {*fields} == {"      only Weir's marks, and whose its fields are"}
    last = said.out.splitlines()[-1]
    assert last.startswith(f"2 of 2 resources differ; change {len(children)}; no pod restarts")


async def _assert_what_is_removed_goes_and_nothing_else_restarts(live: Live) -> None:
    """A service, a variable, and rules that others added before and that were never ours."""
    stage, before = live.stage, live.pods()
    edit: list[Manifest] = [
        {"op": "remove", "path": "/spec/services/prefill"},
        {"op": "remove", "path": "/spec/services/decode/env"},
    ]
    stage.kubectl("patch", "idep", DISAGGREGATED, "--type=json", f"--patch={json.dumps(edit)}")
    await stage.ready(DISAGGREGATED, within_seconds=60)
    await stage.vanish(f"Deployment/{DISAGGREGATED}-prefill")
    decode = container(stage.get(DEPLOYMENT, DECODE))
    assert "INFERA_DRAIN_TIMEOUT" not in [variable["name"] for variable in decode["env"]]
    await eventually(lambda: len(live.pods()) == 13, 60)

    after = live.pods()
    stayed = {name for one, name in before.items() if one in after}
    edited = (f"{DISAGGREGATED}-prefill-", f"{DECODE}-")
    assert stayed == {name for name in before.values() if not name.startswith(edited)}
    fresh = [name for one, name in after.items() if one not in before]
    assert len(fresh) == 4
    assert all(name.startswith(f"{DECODE}-") for name in fresh)
    assert DISAGGREGATED in stage.get(ROLE, f"{DISAGGREGATED}-disc")["rules"][1]["resourceNames"]


async def test_the_default_of_nats_is_switched_and_no_broker_goes_and_no_engine_moves(
    stage: Stage,
) -> None:
    """Neither of a deployment that was taken over nor of one of ours; a new one takes it."""
    live = Live(stage, "nats-absent")
    live.apply()
    await live.is_served_by_the_reference()
    stage.start(**SETTINGS)
    stage.apply(_which_does_not_say("ours"))
    await live.is_ours()
    await stage.ready("ours")
    brokers = ["nats-absent-nats", "ours-nats"]

    with nothing_restarts(live):
        await _started_with(stage, "nats-absent", "ours", **SHARED_BY_DEFAULT)
        assert live.diff(**SHARED_BY_DEFAULT).code == 0
        assert _brokers(stage) == brokers

    stage.apply(_which_does_not_say("late"))
    await stage.ready("late")
    await stage.says("late", "SharedBus", "True", "SharedBus")
    assert _bus_of(stage, "late") == ENGINES_NATS

    # A broker that somebody deletes by accident is made again, and no engine moves meanwhile.
    engines = _engines(live)
    for lost in (["statefulset"], ["service"], ["statefulset", "service"]):
        broker = _uids(stage, "nats-absent-nats")
        stage.kubectl("delete", *(",".join(lost), "nats-absent-nats"))

        def is_made_again(lost: Sequence[str] = lost, broker: Any = broker) -> bool:
            now = _uids(stage, "nats-absent-nats")
            return all(now[kind] != broker[kind] for kind in lost) and all(now.values())

        await eventually(is_made_again)
        await stage.ready("nats-absent")
        assert _bus_of(stage, "nats-absent") == "nats://nats-absent-nats:4222"
    assert _engines(live) == engines

    with nothing_restarts(live):
        back = {**SHARED_BY_DEFAULT, "nats_default": "managed"}
        await _started_with(stage, "nats-absent", "ours", "late", **back)
        assert _brokers(stage) == brokers
        assert _bus_of(stage, "late") == ENGINES_NATS


def _which_does_not_say(name: str) -> InferaDeploymentBuilder:
    """Return a small deployment without a word of NATS."""
    small = InferaDeploymentBuilder(name=name).with_image("registry.example/infera:1")
    return small.with_server().with_worker()


async def _started_with(stage: Stage, *names: str, **settings: Any) -> None:
    """Start handlers with other settings, and return once they have looked at these resources."""
    stage.handlers.terminate()
    stage.handlers = stage.weir.handlers(**SETTINGS, **settings)
    stage.handlers.wait_ready()
    await stage.looked_at_again(*names)


def _brokers(stage: Stage) -> list[str]:
    return sorted(
        name.partition("/")[2] for name in stage.children() if name.startswith(STATEFUL_SET.kind)
    )


def _bus_of(stage: Stage, name: str) -> str:
    """Return the NATS that the workers of a deployment are told to use."""
    (found,) = (
        variable["value"]
        for variable in container(stage.get(DEPLOYMENT, f"{name}-worker"))["env"]
        if variable["name"] == "NATS_SERVER"
    )
    return str(found)


def _uids(stage: Stage, name: str) -> dict[str, str]:
    """Return which stateful set and Service of that name there are; empty where there is none."""
    found = {kind.kind.lower(): stage.find(kind, name) for kind in (STATEFUL_SET, SERVICE)}
    return {kind: uid(live) if live else "" for kind, live in found.items()}


def _engines(live: Live) -> tuple[dict[str, Manifest], set[str]]:
    """Return what all pods but brokers are made from, and which pods those are."""
    made_from = {
        name: template
        for name, template in live.made_from().items()
        if not name.startswith(STATEFUL_SET.kind)
    }
    return made_from, {one for one, name in live.pods().items() if not name.endswith("-nats-0")}
