"""Whatever the API server does, every edit and deletion lands, and no wanted child is deleted."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from crds.inferadeployment import KIND
from crds.kubernetes import DEPLOYMENT
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.etcd import Etcd
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.weir import Setting, WeirProcess
from tests.e2e.crowd import PRODUCTION, QUICK, Crowd, a_bridge, a_crowd, a_handler, names
from tests.e2e.stage import uid
from tests.e2e.weather import is_list, is_resumed
from tests.faults.answers import gone, gone_in_stream
from tests.faults.api_proxy import DROP_BEFORE, Action, ApiProxy
from tests.faults.own_loop import in_thread
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir

A_KEY = base64.b64encode(b"/registry").decode()


@pytest.mark.parametrize(
    ("settings", "size", "restarts"),
    [
        pytest.param(QUICK, 40, 2, id="short"),
        pytest.param(PRODUCTION, 200, 5, id="production", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_an_api_server_that_is_killed_under_load_loses_no_edit_and_no_deletion(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    settings: Mapping[str, Setting],
    size: int,
    restarts: int,
) -> None:
    started = start(weir, namespace, settings, bridges=2, handlers=2)
    async with a_crowd(control_plane, namespace, size // 2) as crowd:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load(crowd, size))
            for number in range(restarts):
                threshold = size * (8 + number) // 16
                await eventually(partial(is_beyond, crowd, threshold), within_seconds=60)
                await asyncio.to_thread(control_plane.restart_api_server)

        await crowd.converge(nats_server.url)
        assert crowd.deletes() == []
        await crowd.never_two_at_once(started, nats_server.url)
    assert all(process.is_running for process in weir.processes)


@pytest.mark.parametrize("expired", [gone, gone_in_stream])
async def test_edits_and_deletes_made_while_watches_were_cut_and_then_expired_land(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    api_proxy: ApiProxy,
    api_way: Path,
    expired: Callable[[], Action],
) -> None:
    async with a_crowd(control_plane, namespace, 30) as crowd:
        start(weir, namespace, QUICK, bridges=1, handlers=1, kubeconfig=api_way)
        await crowd.converge(nats_server.url)
        end_outage = api_proxy.on_request(lambda _: DROP_BEFORE)
        api_proxy.cut()

        await crowd.edit(*names(20))
        await crowd.delete(*names(5))
        await crowd.create(*names(3), *names(33, begin=30))
        # A child goes, of which only its owner's children tell that it should be there.
        await crowd.request("DELETE", DEPLOYMENT.path(namespace, "r029-server"))
        asked = len(api_proxy.records)
        api_proxy.on_request(lambda request: expired() if is_resumed(request) else None)
        end_outage()

        await crowd.converge(nats_server.url)
        assert any(is_resumed(record) for record in api_proxy.records[asked:])
        assert crowd.deletes() == []


async def test_a_bridge_that_slept_through_a_compaction_learns_what_happened(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    api_proxy: ApiProxy,
    api_way: Path,
) -> None:
    """The API server itself answers 410 here: neither it nor etcd knows the version any more."""
    async with a_crowd(control_plane, namespace, 20) as crowd:
        start(weir, namespace, QUICK, bridges=1, handlers=1, kubeconfig=api_way)
        bridge = weir.processes[0]
        await crowd.converge(nats_server.url)
        bridge.pause()
        api_proxy.cut()  # or what is changed now would wait for the bridge in its sockets

        await crowd.edit(*names(10))
        await crowd.delete(*names(20, begin=15))
        await crowd.create("r019", "new")
        await compact(control_plane.etcd)
        await asyncio.to_thread(control_plane.restart_api_server)
        asked = len(api_proxy.records)
        bridge.resume()

        await crowd.converge(nats_server.url)
        resumed = [record for record in api_proxy.records[asked:] if is_resumed(record)]
        listed = [record for record in api_proxy.records[asked:] if is_list(record)]
        assert {record.path for record in listed} >= {KIND.path(namespace)}, resumed
        assert crowd.deletes() == []


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        pytest.param({**QUICK, "duplicate_window_seconds": 1}, 24, id="short"),
        pytest.param(PRODUCTION, 200, id="production", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_a_bridge_that_lags_behind_another_makes_no_handler_delete_what_is_wanted(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    settings: Mapping[str, Setting],
    size: int,
) -> None:
    """Its news is old: deletions of what was made again, children that came back."""
    handlers = start(weir, namespace, settings, bridges=2, handlers=2)
    lagging, up_to_date = weir.processes[:2]
    async with a_crowd(control_plane, namespace, size) as crowd:
        await crowd.converge(nats_server.url)
        lagging.pause()

        again = names(size // 4)
        await crowd.delete(*again)
        await crowd.create(*again)
        await crowd.edit(*names(size, begin=size // 2))
        await rename_the_server_and_back(crowd, names(size // 2, begin=size // 4))
        await crowd.converge(nats_server.url)
        pruned = crowd.deletes()
        before = {name: uid(item) for name, item in (await crowd.items(DEPLOYMENT)).items()}
        lagging.resume()
        # Now the news of all this comes again, and that of two changes from nobody else.
        up_to_date.kill()
        await crowd.edit("r000")
        await crowd.request("DELETE", DEPLOYMENT.path(namespace, "r001-server"))
        await crowd.converge(nats_server.url)

        after = {name: uid(item) for name, item in (await crowd.items(DEPLOYMENT)).items()}
        del before["r001-server"], after["r001-server"]
        assert after == before
        assert crowd.deletes() == pruned
        await crowd.never_two_at_once(handlers, nats_server.url)


@pytest.fixture
def api_proxy(control_plane: ControlPlane) -> Iterator[ApiProxy]:
    """A way to the API server, for bridges."""
    with in_thread(ApiProxy(control_plane.kubeconfig(access.BRIDGE))) as proxy:
        yield proxy


@pytest.fixture
def api_way(control_plane: ControlPlane, api_proxy: ApiProxy) -> Path:
    """The bridge's kubeconfig that leads through it."""
    return control_plane.kubeconfig_through(api_proxy.url, access.BRIDGE)


def start(
    weir: Weir,
    namespace: str,
    settings: Mapping[str, Setting],
    *,
    bridges: int,
    handlers: int,
    kubeconfig: Path | None = None,
) -> list[WeirProcess]:
    """Start so many of each, bridges first; return the handlers once all are ready."""
    for _ in range(bridges):
        a_bridge(weir, settings, namespace, kubeconfig=kubeconfig)
    started = [a_handler(weir, settings) for _ in range(handlers)]
    for process in weir.processes:
        process.wait_ready()
    return started


async def load(crowd: Crowd, size: int) -> None:
    """The crowd grows to its size while those that were there are edited, and some deleted."""
    half = size // 2
    for number in range(half):
        await crowd.create(f"r{half + number:03}")
        await crowd.edit(f"r{number:03}")
        if number % 5 == 0:
            await crowd.delete(f"r{number:03}")


def is_beyond(crowd: Crowd, size: int) -> bool:
    return len(crowd.wanted) > size


async def rename_the_server_and_back(crowd: Crowd, targets: list[str]) -> None:
    """The children of two services come, go, and come again under the same names."""
    server = {"componentType": "server", "replicas": 0}
    for services in ({"server": None, "front": server}, {"server": server, "front": None}):
        for name in targets:
            path = KIND.path(crowd.namespace, name)
            await crowd.request("PATCH", path, {"spec": {"services": services}})
        wanted = {
            f"{name}-{service}": given is not None
            for name in targets
            for service, given in services.items()
        }

        async def are_made_and_pruned(wanted: Mapping[str, bool] = wanted) -> bool:
            there = await crowd.items(DEPLOYMENT)
            return all((name in there) is exists for name, exists in wanted.items())

        await eventually(are_made_and_pruned, within_seconds=40, every_seconds=0.3)


async def compact(etcd: Etcd) -> None:
    """Let etcd forget every version but the present one (its HTTP gateway: /v3/kv)."""
    async with aiohttp.ClientSession(etcd.url, raise_for_status=True) as session:
        async with session.post("/v3/kv/range", json={"key": A_KEY}) as reply:
            revision = (await reply.json())["header"]["revision"]
        await session.post("/v3/kv/compaction", json={"revision": revision, "physical": True})
