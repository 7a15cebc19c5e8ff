"""What the bridge makes of an API server that cuts, forgets, refuses and falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from bridge.events import EventType
from bridge.kube_errors import NotFound
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION, LEADER_WORKER_SET, SERVICE
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from tests.faults import answers
from tests.faults.api_proxy import Action, ApiProxy, Request
from tests.faults.kubeconfig import api_server
from tests.faults.tcp_proxy import TcpProxy
from tests.services.bridge.conftest import (
    RESOURCE,
    Bridge,
    Published,
    Resources,
    Taker,
    a_service_of,
    ready,
)
from tests.stack.eventually import eventually

STAND_IN = Path(__file__).parents[2] / "faults" / "stand_ins" / "leader_worker_set_crd.yaml"


def is_resuming_watch(request: Request) -> bool:
    return request.is_watch and "resourceVersion" in request.query


def is_streamed_list(request: Request) -> bool:
    return "sendInitialEvents" in request.query


def concerns_resources(request: Request) -> bool:
    return request.path.endswith(f"/{RESOURCE.plural}")


@pytest.mark.parametrize("gone", [answers.gone(), answers.gone_in_stream()], ids=["status", "line"])
async def test_after_a_gap_that_ends_in_410_changes_and_deletes_are_told(
    gone: answers.Answer,
    bridge: Bridge,
    taken: Taker,
    resources: Resources,
    api_proxy: ApiProxy,
    proxied: Path,
) -> None:
    for name in ("kept", "edited", "deleted", "replaced"):
        await resources.create(name)
    await resources.create_object(SERVICE, a_service_of("kept", "kept-s"))
    async with bridge(kubeconfig=proxied) as relay:
        await ready(relay)
        await eventually(lambda: len(taken.names(EventType.RESYNC)) == 4)
        taken.events.clear()

        blocked = True

        def rule(request: Request) -> Action | None:
            if not request.is_watch:
                return None
            if blocked:
                return answers.unavailable_html()
            return gone if is_resuming_watch(request) else None

        api_proxy.on_request(rule)
        api_proxy.cut()
        await resources.edit("edited", "i:2")
        await resources.delete("deleted")
        await resources.delete("replaced")
        await resources.create("replaced")
        await resources.create("born")
        await resources.delete("kept-s", SERVICE)
        blocked = False
        await eventually(lambda: {"edited", "deleted", "replaced", "born", "kept"} == taken.names())
        await eventually(lambda: taken.of("kept", EventType.DELETED))
        assert taken.names(EventType.DELETED) >= {"deleted", "kept"}
        assert taken.names(EventType.CHANGED) >= {"edited", "born"}


async def test_a_relist_of_unchanged_objects_publishes_nothing(
    bridge: Bridge,
    taken: Taker,
    resources: Resources,
    api_proxy: ApiProxy,
    proxied: Path,
    published: Published,
) -> None:
    names = {f"unchanged-{n}" for n in range(40)}
    for name in names:
        await resources.create(name)
    async with bridge(kubeconfig=proxied) as relay:
        await ready(relay)
        await eventually(lambda: taken.names() == names)
        lists = 0

        def rule(request: Request) -> Action | None:
            nonlocal lists
            if is_resuming_watch(request):
                return answers.gone()
            lists += is_streamed_list(request) and concerns_resources(request)
            return None

        api_proxy.on_request(rule)
        api_proxy.cut()
        await eventually(lambda: lists)
        await resources.create("marker")
        await eventually(lambda: "marker" in taken.names())
        assert published(EventType.CHANGED, "stored") == 1
        assert published(EventType.DELETED, "stored") == 0


async def test_a_server_without_streamed_lists_is_listed_in_pages(
    bridge: Bridge, taken: Taker, resources: Resources, api_proxy: ApiProxy, proxied: Path
) -> None:
    api_proxy.on_request(
        lambda request: (
            answers.refusal(422, "Invalid", "sendInitialEvents is forbidden for watch")
            if is_streamed_list(request)
            else None
        )
    )
    names = {f"paged-{n}" for n in range(5)}
    for name in names:
        await resources.create(name)
    async with bridge(kubeconfig=proxied, list_page_size=2) as relay:
        await ready(relay)
        await eventually(lambda: taken.names(EventType.RESYNC) == names)
        await resources.create("afterwards")
        await eventually(lambda: "afterwards" in taken.names(EventType.CHANGED))
    pages = [r for r in api_proxy.records if "limit" in r.query and RESOURCE.plural in r.path]
    assert len(pages) == 3


async def test_a_half_open_connection_is_noticed_and_replaced(
    bridge: Bridge, taken: Taker, resources: Resources, cluster: ControlPlane, scratch: Path
) -> None:
    own = cluster.kubeconfig(access.BRIDGE)
    server = urlsplit(api_server(own).url)
    async with TcpProxy(server.hostname or "", server.port or 443) as proxy:
        through = scratch / "half-open"
        through.write_text(own.read_text().replace(f":{server.port}", f":{proxy.port}"))
        async with bridge(kubeconfig=through, watch_seconds=2, watch_idle_seconds=5) as relay:
            await ready(relay)
            accepted = proxy.counters.accepted
            proxy.freeze()
            await resources.create("meanwhile")
            await eventually(lambda: proxy.counters.accepted > accepted + 3)
            await eventually(lambda: "silent" in (relay.checks()["watches"]() or ""))
            proxy.thaw()
            await eventually(lambda: taken.of("meanwhile"))


async def test_a_kind_that_may_not_be_watched_delays_no_other(
    bridge: Bridge, taken: Taker, resources: Resources, api_proxy: ApiProxy, proxied: Path
) -> None:
    allow = api_proxy.on_request(
        lambda request: (
            answers.refusal(403, "Forbidden", "services is forbidden")
            if request.path.endswith("/services")
            else None
        )
    )
    await resources.create("early")
    await resources.create_object(SERVICE, a_service_of("orphaned", "orphan"))
    async with bridge(kubeconfig=proxied) as relay:
        await eventually(lambda: taken.of("early", EventType.RESYNC))
        refused = "Service refused (403 Forbidden)"
        await eventually(lambda: refused in (relay.checks()["watches"]() or ""))
        await resources.create("later")
        await eventually(lambda: taken.of("later", EventType.CHANGED))
        allow()
        await eventually(lambda: taken.of("orphaned"), within_seconds=30)
        await ready(relay)


async def test_a_server_that_asks_for_patience_gets_it(
    bridge: Bridge, taken: Taker, resources: Resources, api_proxy: ApiProxy, proxied: Path
) -> None:
    refused = 0

    def rule(request: Request) -> Action | None:
        nonlocal refused
        if concerns_resources(request) and refused < 2:
            refused += 1
            return answers.throttled(retry_after_seconds=1)
        return None

    api_proxy.on_request(rule)
    await resources.create("patient")
    async with bridge(kubeconfig=proxied):
        await eventually(lambda: taken.of("patient"))
    times = [r.time for r in api_proxy.records if r.path.endswith(f"/{RESOURCE.plural}")]
    assert times[1] - times[0] >= 0.75
    assert times[2] - times[1] >= 0.75


@pytest.fixture
async def crd(resources: Resources) -> AsyncIterator[Resources]:
    """LeaderWorkerSet is not served when the test begins, nor after it."""
    await _remove_crd(resources)
    yield resources
    await _remove_crd(resources)


async def test_an_optional_kind_may_appear_and_vanish_while_the_bridge_runs(
    bridge: Bridge, taken: Taker, crd: Resources
) -> None:
    await crd.create("waits-for-lws")
    async with bridge() as relay:
        await ready(relay)
        await eventually(lambda: taken.of("waits-for-lws"))
        await _install_crd(crd)
        await eventually(lambda: taken.of("waits-for-lws", EventType.REFERRED))
        template = {"workerTemplate": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}
        group = a_service_of("grouped", "grouped-w")
        group["spec"] = {"leaderWorkerTemplate": template}
        await eventually(lambda: _can_create(crd, group))
        await eventually(lambda: taken.of("grouped", EventType.OBSERVED))
        taken.events.clear()
        await _remove_crd(crd)
        await eventually(lambda: taken.of("grouped", EventType.DELETED))
        await eventually(lambda: taken.of("waits-for-lws", EventType.REFERRED))
        await ready(relay)
        await _install_crd(crd)
        await eventually(lambda: _can_create(crd, group))
        await eventually(lambda: taken.of("grouped", EventType.OBSERVED))


async def _install_crd(resources: Resources) -> None:
    manifest = yaml.safe_load(STAND_IN.read_text())
    await resources.create_object(CUSTOM_RESOURCE_DEFINITION, manifest)


async def _remove_crd(resources: Resources) -> None:
    async def is_gone() -> bool:
        try:
            await resources.delete(LEADER_WORKER_SET.crd_name, CUSTOM_RESOURCE_DEFINITION)
        except NotFound:
            return True
        return False

    await eventually(is_gone)


async def _can_create(resources: Resources, manifest: dict[str, object]) -> bool:
    try:
        await resources.create_object(LEADER_WORKER_SET, manifest)
    except NotFound as exc:
        raise AssertionError from exc
    return True


async def test_changes_are_told_after_a_restart_of_the_api_server(
    cluster: ControlPlane, bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    for name in ("kept", "deleted", "edited"):
        await resources.create(name)
    async with bridge() as relay:
        await ready(relay)
        await eventually(lambda: len(taken.names()) == 3)
        taken.events.clear()
        await asyncio.to_thread(cluster.restart_api_server)
        await resources.delete("deleted")
        await resources.edit("edited", "i:2")
        await resources.create("born")
        await eventually(lambda: {"deleted", "edited", "born"} <= taken.names())
        assert taken.of("deleted", EventType.DELETED)
