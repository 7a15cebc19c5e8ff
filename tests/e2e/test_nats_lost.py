"""Whatever becomes of NATS and what it holds, every edit and deletion lands, with no restart."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import nats
import pytest

from bridge import streams
from crds.inferadeployment import CONTRACT
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.weir import Setting, WeirProcess
from tests.e2e.crowd import (
    PRODUCTION,
    QUICK,
    Crowd,
    a_bridge,
    a_crowd,
    a_handler,
    http_get,
    log_lines,
    names,
)
from tests.e2e.population import queue_depth
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir

LOG_LINES_PER_SECOND_MAX = 1


class Pids:
    """Remembers which processes ran, so that a restart would show."""

    def __init__(self, *processes: WeirProcess) -> None:
        self._pids = {process: process.pid for process in processes}

    def are_the_same(self) -> bool:
        """Whether each still runs, and was never replaced."""
        return all(p.is_running and p.pid == pid for p, pid in self._pids.items())


def start_two_of_each(weir: Weir, namespace: str, settings: Mapping[str, Setting]) -> Pids:
    processes = [a_bridge(weir, settings, namespace) for _ in range(2)]
    processes += [a_handler(weir, settings) for _ in range(2)]
    for process in processes:
        process.wait_ready()
    return Pids(*processes)


def handlers_of(weir: Weir) -> list[WeirProcess]:
    return [process for process in weir.processes if process.component == "handlers"]


@pytest.mark.parametrize(
    ("settings", "size", "edits", "deletes", "down_seconds"),
    [
        pytest.param(QUICK, 60, 150, 50, 10, id="10-seconds"),
        pytest.param(PRODUCTION, 100, 150, 50, 30, id="30-seconds", marks=pytest.mark.soak),
        pytest.param(PRODUCTION, 100, 150, 50, 180, id="3-minutes", marks=pytest.mark.soak),
        pytest.param(PRODUCTION, 500, 500, 0, 60, id="500-edits", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_edits_and_deletes_made_while_nats_is_stopped_all_land(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    settings: Mapping[str, Setting],
    size: int,
    edits: int,
    deletes: int,
    down_seconds: float,
) -> None:
    """Cases 2: a bus that restarts must not drop what happened meanwhile."""
    pids = start_two_of_each(weir, namespace, settings)
    bridge = weir.processes[0]
    async with a_crowd(control_plane, namespace, size) as crowd:
        await crowd.converge(nats_server.url)

        nats_server.stop()
        stopped = time.monotonic()
        said_before = len(list(log_lines(bridge)))
        targets = [f"r{number % size:03}" for number in range(edits)]
        for begin in range(0, edits, 25):
            await crowd.edit(*dict.fromkeys(targets[begin : begin + 25]))
        await crowd.delete(*names(deletes))
        await crowd.create(*names(deletes // 2))  # again, under the same names
        await eventually(partial(keeps, bridge, size))
        status, text = await readyz(bridge)
        assert status == 503
        assert "NATS" in text
        await asyncio.sleep(down_seconds - (time.monotonic() - stopped))
        said = len(list(log_lines(bridge))) - said_before
        was_down_seconds = time.monotonic() - stopped
        nats_server.start()

        assert said <= 1 + was_down_seconds * LOG_LINES_PER_SECOND_MAX
        await crowd.converge(nats_server.url)
        await eventually(partial(is_ready, bridge))
        await crowd.never_two_at_once(handlers_of(weir), nats_server.url)
    assert pids.are_the_same()


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        pytest.param(QUICK, 40, id="short"),
        pytest.param(PRODUCTION, 200, id="production", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_wiped_jetstream_data_cost_nothing_but_time(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    settings: Mapping[str, Setting],
    size: int,
) -> None:
    pids = start_two_of_each(weir, namespace, settings)
    async with a_crowd(control_plane, namespace) as crowd:
        await in_the_middle(crowd, size, nats_server.wipe)

        await crowd.converge(nats_server.url)
        await crowd.never_two_at_once(handlers_of(weir), nats_server.url)
    assert pids.are_the_same()


@pytest.mark.parametrize(
    "doomed",
    [
        streams.QUEUE,
        streams.LOCK,
        pytest.param(streams.STATE, marks=pytest.mark.soak),
        pytest.param(streams.HISTORY, marks=pytest.mark.soak),
        pytest.param("the consumer", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(
    ("settings", "size"),
    [
        pytest.param(QUICK, 40, id="short"),
        pytest.param(PRODUCTION, 200, id="production", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_what_is_deleted_under_load_is_made_again_and_nothing_is_lost(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    settings: Mapping[str, Setting],
    size: int,
    doomed: str,
) -> None:
    pids = start_two_of_each(weir, namespace, settings)
    async with (
        a_crowd(control_plane, namespace) as crowd,
        await nats.connect(nats_server.url) as client,
    ):
        jetstream = client.jetstream()

        async def destroy() -> None:
            if doomed == "the consumer":
                durable = streams.consumer_name(CONTRACT.consumer)
                await jetstream.delete_consumer(streams.QUEUE, durable)
            else:
                await jetstream.delete_stream(doomed)

        await in_the_middle(crowd, size, destroy)

        await crowd.converge(nats_server.url)
        await crowd.never_two_at_once(handlers_of(weir), nats_server.url)
        there = {info.config.name for info in await jetstream.streams_info()}
        assert {streams.QUEUE, streams.LOCK, streams.STATE, streams.HISTORY} <= there
    assert pids.are_the_same()


async def test_a_purged_queue_is_healed_by_the_periodic_resync(
    control_plane: ControlPlane, namespace: str, nats_server: NatsServer, weir: Weir
) -> None:
    """A purge looks like consumption: nobody can notice it."""
    a_bridge(weir, {**QUICK, "resync_seconds": 10}, namespace).wait_ready()
    handlers = a_handler(weir, QUICK)
    handlers.wait_ready()
    async with a_crowd(control_plane, namespace, 30) as crowd:
        await crowd.converge(nats_server.url)
        handlers.terminate()
        await crowd.edit(*names(30))
        await crowd.delete(*names(5))

        async def are_queued() -> bool:
            return (await queue_depth(nats_server.url)).pending >= 30

        await eventually(are_queued)
        async with await nats.connect(nats_server.url) as client:
            await client.jetstream().purge_stream(streams.QUEUE)
        handlers.start()

        await crowd.converge(nats_server.url)


async def in_the_middle(
    crowd: Crowd, size: int, fault: Callable[[], Awaitable[None] | None]
) -> None:
    """Load the handlers with a crowd; the fault strikes when a part of it has been reconciled."""
    half = size // 2
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(crowd.create(*names(half)))
        await eventually(lambda: reconciled(crowd, at_least=half // 2), every_seconds=0.02)
        tasks.create_task(crowd.create(*names(size, begin=half)))
        if (striking := fault()) is not None:
            await striking
        # Else it came too late to show anything.
        assert not await reconciled(crowd, at_least=size)
    await crowd.edit(*names(size))
    await crowd.delete(*names(size // 10))


async def reconciled(crowd: Crowd, at_least: int) -> bool:
    return len(await crowd.items(CONTRACT.owns[0].kind)) >= at_least


async def keeps(bridge: WeirProcess, keys: int) -> bool:
    return await pending(bridge) >= keys


async def is_ready(process: WeirProcess) -> bool:
    return (await readyz(process))[0] == 200


async def pending(bridge: WeirProcess) -> float:
    """Return how many keys the bridge says that it keeps for NATS."""
    _, text = await http_get(bridge.http_url + "/metrics")
    found = re.search(r"^weir_publish_pending(?:{[^}]*})? ([0-9.e+]+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


async def readyz(process: WeirProcess) -> tuple[int, str]:
    return await http_get(process.http_url + "/readyz")
