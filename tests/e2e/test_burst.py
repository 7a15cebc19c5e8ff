"""Many resources at one instant while everything that carries them is killed, again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeAlias

import pytest

from handlers.cli.devstack.control_plane import CONTROLLERS, Binaries, ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.weir import WeirProcess, shipped_manifests
from tests.builders import a_small_deployment
from tests.e2e.crowd import log_lines
from tests.e2e.population import (
    Population,
    is_observed,
    is_ready,
    population,
    queue_depth,
)
from tests.stack.eventually import dwindles, eventually
from tests.stack.fixtures import Weir
from tests.witness.audit import AuditLog
from tests.witness.history import read_history, spans_of_history
from tests.witness.overlap import Ownership, overlaps, spans_of_writes

RESOURCES = 500
CHILDREN_EACH = 6
HANDLERS = 3
BRIDGES = 2
HANDLER_DIES_EVERY_SECONDS = 2.0
BRIDGE_DIES_EVERY_SECONDS = 5.0
NATS_DIES_AFTER_SECONDS = (6.0, 13.0)
UNHURRIED = {
    "lease_seconds": 8,
    "lease_renew_seconds": 2,
    "ack_wait_seconds": 6,
    "write_timeout_seconds": 5,
    "concurrency": 8,
    "stream_check_seconds": 1,
    "not_ready_seconds": 600,
}
"""A write keeps production's time: two cores carry the API server, etcd, NATS and all who die."""
KILLED_AT_LEAST = Counter(handlers=8, bridge=3, nats=2)

Component: TypeAlias = Literal["handlers", "bridge"]
Start: TypeAlias = Callable[[], WeirProcess]


@pytest.fixture
def fresh_control_plane(
    request: pytest.FixtureRequest, control_plane_binaries: Binaries
) -> Iterator[ControlPlane]:
    """
    An API server of this test's own, so that the burst meets it alone.

    No controllers unless the test is a soak: the children are objects then, and no pods.
    """
    controllers = CONTROLLERS if "soak" in request.keywords else ()
    own = ControlPlane(
        control_plane_binaries, manifests=shipped_manifests(), controllers=controllers
    )
    own.start()
    yield own
    own.stop()


class Killer:
    """Kills handlers, bridges and NATS by turns; each is replaced as a pod would be."""

    def __init__(self, weir: Weir, nats_server: NatsServer, settings: Mapping[str, Any]) -> None:
        self.killed = Counter[str]()
        self._nats_server = nats_server
        self._start: dict[Component, Start] = {
            "handlers": lambda: weir.handlers(**settings),
            "bridge": lambda: weir.bridge(**settings),
        }

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Processes run inside, and die; those that run in the end live on."""
        async with asyncio.TaskGroup() as tasks:
            killing = (
                tasks.create_task(self._by_turns("handlers", HANDLERS, HANDLER_DIES_EVERY_SECONDS)),
                tasks.create_task(self._by_turns("bridge", BRIDGES, BRIDGE_DIES_EVERY_SECONDS)),
                tasks.create_task(self._nats()),
            )
            yield
            for task in killing:
                task.cancel()

    async def _by_turns(self, component: Component, count: int, every_seconds: float) -> None:
        running = [self._start[component]() for _ in range(count)]
        while True:
            await asyncio.sleep(every_seconds)
            running.pop(0).kill()
            running.append(self._start[component]())
            self.killed[component] += 1

    async def _nats(self) -> None:
        begun = time.monotonic()
        for after in NATS_DIES_AFTER_SECONDS:
            await asyncio.sleep(begun + after - time.monotonic())
            await asyncio.to_thread(self._nats_server.restart)
            self.killed["nats"] += 1


async def _lacking(crowd: Population, *, ready: bool) -> list[str]:
    """Return the resources that have not come to where they should be."""
    is_there = is_ready if ready else is_observed
    resources, children = await crowd.resources(), await crowd.children()
    return [
        name
        for name, resource in resources.items()
        if len(children.get(name, ())) != CHILDREN_EACH or not is_there(resource)
    ]


async def _assert_all_converge(
    control_plane: ControlPlane, weir: Weir, killer: Killer, *, is_soak: bool
) -> None:
    """In a soak the killing goes on until everything is Ready, and pods exist."""
    control_plane.kubectl("create", "namespace", "burst")
    manifests = a_small_deployment("burst").many(RESOURCES)
    async with population(control_plane, "burst") as crowd:

        async def all_are_there() -> bool:
            lacking = await _lacking(crowd, ready=is_soak)
            assert not lacking, f"{len(lacking)} lack something: {lacking[:5]}, {killer.killed}"
            return True

        def enough_were_killed() -> bool:
            assert killer.killed >= KILLED_AT_LEAST, killer.killed
            return True

        async with killer.at_work():
            await crowd.create(manifests)
            await eventually(enough_were_killed, within_seconds=120, every_seconds=0.5)
            if is_soak:
                await eventually(all_are_there, within_seconds=900, every_seconds=2)
        await dwindles(partial(_lacking, crowd, ready=is_soak))

        async def queue_is_empty() -> bool:
            depth = await queue_depth(weir.nats.url)
            assert (depth.pending, depth.in_flight) == (0, 0), depth
            return True

        await eventually(queue_is_empty, within_seconds=60, every_seconds=0.5)
        assert len(await crowd.resources()) == RESOURCES

    moments = await read_history(weir.nats.url)
    writes = AuditLog(control_plane.audit_log).mutating(namespace="burst")
    written = spans_of_writes(writes, Ownership(), finished=_ends(weir))
    assert {span.owner for span in written} == {
        f"burst/{manifest['metadata']['name']}" for manifest in manifests
    }
    assert not [str(overlap) for overlap in overlaps(written)]
    assert not [str(overlap) for overlap in overlaps(spans_of_history(moments))]


def _ends(weir: Weir) -> dict[tuple[str, str], list[datetime]]:
    """Return when each (owner, handler) ended a reconcile; history loses that when NATS dies."""
    found: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for process in weir.processes:
        for said in log_lines(process):
            if said["message"] in {"reconciled", "delivery not settled"} and "name" in said:
                owner = f"{said['namespace']}/{said['name']}"
                found[owner, process.name].append(datetime.fromisoformat(said["time"]))
    return found


@pytest.mark.timeout(600)
async def test_a_burst_of_500_converges_while_handlers_bridges_and_nats_are_killed(
    fresh_control_plane: ControlPlane, nats_server: NatsServer, weir: Weir
) -> None:
    """Without pods: nothing gets ready, and nobody looks again before something changes."""
    killer = Killer(weir, nats_server, UNHURRIED)
    await _assert_all_converge(fresh_control_plane, weir, killer, is_soak=False)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_burst_of_500_gets_ready_at_production_settings_under_kills_without_end(
    fresh_control_plane: ControlPlane, nats_server: NatsServer, weir: Weir
) -> None:
    killer = Killer(weir, nats_server, {})
    await _assert_all_converge(fresh_control_plane, weir, killer, is_soak=True)
