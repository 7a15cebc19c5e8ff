"""
Whatever users, others and faults do in whatever order: at rest everything is as asked for last.

`make test` plays the sequences of fixed seeds, without pods; `make soak` those of fresh ones, with
pods, for as long as SOAK_SECONDS. A failure shows the seed and the sequence as Python, which
belongs into `machine/written.py` then. `WEIR_TEST_SEED=7` plays that seed alone, and
`WEIR_TEST_SHRINK=1` looks for a shorter sequence that fails, too: it takes many runs.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from crds.kubernetes import Manifest
from handlers.cli.devstack.control_plane import CONTROLLER_MANAGER, Binaries, ControlPlane
from handlers.cli.devstack.fleet import Fleet
from handlers.cli.devstack.weir import Setting, shipped_manifests
from tests.e2e.crowd import QUICK
from tests.e2e.machine.actions import Sequence, as_python
from tests.e2e.machine.draw import drawn
from tests.e2e.machine.play import play
from tests.e2e.machine.scene import Scene, a_scene
from tests.e2e.machine.shrink import shortest
from tests.e2e.machine.specs import GATEWAY_NAME, GATEWAY_NAMESPACE
from tests.e2e.machine.written import LONG, WRITTEN
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.gateways import GATEWAY, StandInGateways
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.stack.fixtures import shown_on_failure

SEED = os.environ.get("WEIR_TEST_SEED")
SHRINKS = bool(os.environ.get("WEIR_TEST_SHRINK"))

SEEDS = (4, 15)
LENGTH = 8
SOAK_LENGTH = 25
SOAK_SEQUENCES = 30
SOAK_SECONDS = 1200.0

NO_PODS: Mapping[str, Setting] = {
    **QUICK,
    "not_ready_seconds": 600,
    "child_retry_seconds": 1,
    "child_retry_max_seconds": 2,
}
"""Nothing gets ready, and nobody looks again before something changes."""
WITH_PODS: Mapping[str, Setting] = {"resync_seconds": 86_400, "child_retry_max_seconds": 5}
"""Those of production, but that no resync comes to the aid of what should heal by itself."""
COLLECTORS = "--controllers=garbage-collector-controller,namespace-controller"

ENTRY: Manifest = {
    "apiVersion": GATEWAY.api_version,
    "kind": GATEWAY.kind,
    "metadata": {"name": GATEWAY_NAME, "namespace": GATEWAY_NAMESPACE},
    "spec": {
        "gatewayClassName": "stand-in",
        "listeners": [
            {
                "name": "http",
                "port": 80,
                "protocol": "HTTP",
                "allowedRoutes": {"namespaces": {"from": "All"}},
            }
        ],
    },
}
"""The Gateway that takes the routes of all sequences."""

Failed = (AssertionError, pytest.fail.Exception)


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, control_plane_binaries: Binaries) -> Iterator[Scene]:
    """A control plane of its own that collects garbage, and makes nothing of workloads."""
    own = ControlPlane(
        control_plane_binaries,
        manifests=shipped_manifests(),
        controllers=(CONTROLLER_MANAGER,),
        controller_manager_flags=(COLLECTORS,),
    )
    own.start()
    with _stopped_at_the_end(own), a_scene(own, NO_PODS, request.node) as made:
        yield made


@pytest.fixture
def scene(request: pytest.FixtureRequest, stage: Scene) -> Scene:
    """What the sequences of `make test` are played on."""
    return _shown(request, stage)


@pytest.fixture
def whole_scene(
    request: pytest.FixtureRequest, control_plane_binaries: Binaries
) -> Iterator[Scene]:
    """
    A whole control plane, with stand-ins for the controllers of others.

    Its fleet holds all pods of a sequence and of its twin.
    """
    own = ControlPlane(control_plane_binaries, manifests=shipped_manifests(), fleet=Fleet(nodes=40))
    own.start()
    with (
        _stopped_at_the_end(own),
        in_thread(StandInLeaderWorkerSets(own)),
        in_thread(StandInGateways(own)),
        a_scene(own, WITH_PODS, request.node) as made,
    ):
        own.kubectl("create", "-f-", document=ENTRY)
        yield _shown(request, made)


@contextmanager
def _stopped_at_the_end(own: ControlPlane) -> Iterator[None]:
    try:
        yield
    finally:
        own.stop()


def _shown(request: pytest.FixtureRequest, made: Scene) -> Scene:
    for process in (*made.processes.values(), made.nats.process):
        shown_on_failure(request.node, process)
    return made


@pytest.mark.parametrize("seed", (int(SEED),) if SEED else SEEDS)
@pytest.mark.timeout(600)
async def test_a_random_sequence_ends_as_its_last_specs_say(scene: Scene, seed: int) -> None:
    await _played(scene, drawn(seed, LENGTH), 60.0)


@pytest.mark.parametrize("sequence", WRITTEN.values(), ids=WRITTEN.keys())
@pytest.mark.timeout(600)
async def test_a_sequence_that_was_written_down_ends_as_its_last_specs_say(
    scene: Scene, sequence: Sequence
) -> None:
    await _played(scene, sequence, 60.0)


@pytest.mark.soak
@pytest.mark.timeout(2 * SOAK_SECONDS)
async def test_written_sequences_with_pods_end_as_their_last_specs_say(
    whole_scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    for shown, sequence in {**WRITTEN, **LONG}.items():
        with capsys.disabled():
            sys.stdout.write(f"\n{shown} ")
            sys.stdout.flush()
        await _played(whole_scene, sequence, 120.0)


@pytest.mark.soak
@pytest.mark.timeout(2 * SOAK_SECONDS)
async def test_long_random_sequences_with_pods_end_as_their_last_specs_say(
    whole_scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    for seed in (int(SEED),) if SEED else random.sample(range(10**6), SOAK_SEQUENCES):
        if time.monotonic() > begun + SOAK_SECONDS:
            return
        with capsys.disabled():
            sys.stdout.write(f"\nWEIR_TEST_SEED={seed} ")
            sys.stdout.flush()
        await _played(whole_scene, drawn(seed, SOAK_LENGTH), 120.0)


async def _played(scene: Scene, sequence: Sequence, within_seconds: float) -> None:
    """The sequence was played; where it failed, and somebody asks for that, a shorter one, too."""

    async def fails(shorter: Sequence) -> bool:
        try:
            await play(scene, shorter, within_seconds=within_seconds)
        except Failed:
            return True
        return False

    try:
        await play(scene, sequence, within_seconds=within_seconds)
    except Failed as exc:
        if SHRINKS:
            exc.add_note(f"the shortest: {as_python(await shortest(sequence, fails))}")
        raise
