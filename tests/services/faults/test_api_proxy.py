"""The HTTP proxy, between a client and a real API server."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
import yaml
from yarl import URL

from handlers.cli.devstack.control_plane import ControlPlane
from tests.faults.answers import (
    Answer,
    conflict,
    gone,
    gone_in_stream,
    internal_error,
    quota_exceeded,
    throttled,
    unavailable_html,
)
from tests.faults.api_proxy import DROP_AFTER, DROP_BEFORE, ApiProxy, Request, hold
from tests.faults.own_loop import in_thread
from tests.stack.eventually import PATIENCE_SECONDS, eventually


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    async with ApiProxy(control_plane.kubeconfig()) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: ApiProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(proxy.url, headers={"User-Agent": "a-client/1"}) as session:
        yield session


def _config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}


def _path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


async def _exists(client: aiohttp.ClientSession, namespace: str, name: str) -> bool:
    async with client.get(_path(namespace, name)) as reply:
        return reply.status == 200


async def _next_name(watch: aiohttp.ClientResponse) -> str | None:
    """Return the name of the next object that a watch tells of, None for a bookmark."""
    name: str | None = json.loads(await watch.content.readline())["object"]["metadata"].get("name")
    return name


async def test_requests_and_answers_pass_as_they_are_and_are_recorded(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str, control_plane: ControlPlane
) -> None:
    url = URL(f"{proxy.url}{_path(namespace)}?fieldManager=x%2Fy", encoded=True)
    async with client.post(url, json=_config_map("a")) as reply:
        made = await reply.json()
        assert reply.status == 201
        assert reply.headers["Audit-Id"]

    assert made["metadata"]["managedFields"][0]["manager"] == "x/y"
    record = proxy.records[-1]
    assert (record.n, record.method, record.path) == (1, "POST", _path(namespace))
    assert record.query == {"fieldManager": ("x/y",)}
    assert (record.status, record.user_agent) == (201, "a-client/1")
    audit = control_plane.audit_log.read_text().splitlines()
    assert any(
        '"userAgent":"a-client/1"' in line and 'configmaps?fieldManager=x%2Fy"' in line
        for line in audit
    )


async def test_the_token_of_the_client_decides_what_it_may(
    proxy: ApiProxy, client: aiohttp.ClientSession
) -> None:
    async with client.get("/api/v1/nodes", headers={"Authorization": "Bearer wrong"}) as reply:
        assert reply.status == 401
    async with client.get("/api/v1/nodes") as reply:
        assert reply.status == 200  # without a token of its own it has that of the kubeconfig
    assert [record.status for record in proxy.records] == [401, 200]


async def test_a_large_answer_arrives_compressed_as_the_client_asked(
    client: aiohttp.ClientSession,
) -> None:
    headers = {"Accept-Encoding": "gzip"}
    async with client.get("/openapi/v2", headers=headers) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        assert "swagger" in await reply.json()
    async with client.get("/openapi/v2", headers={"Accept-Encoding": "identity"}) as reply:
        assert "Content-Encoding" not in reply.headers
        assert "swagger" in await reply.json()


async def test_a_watch_streams_each_event_when_it_happens(
    client: aiohttp.ClientSession, namespace: str
) -> None:
    query = "?watch=1&allowWatchBookmarks=true&timeoutSeconds=100"
    async with client.get(_path(namespace) + query) as watch:
        for name in ("a", "b"):
            async with client.post(_path(namespace), json=_config_map(name)) as reply:
                assert reply.status == 201
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await _next_name(watch) != name:
                    pass  # a bookmark, or the root certificate that a controller puts there


async def test_a_watch_ends_for_the_client_when_it_is_cut(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    async with client.get(_path(namespace) + "?watch=true&timeoutSeconds=100") as watch:
        assert proxy.cut() == 1
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(watch.content.read(), PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (throttled(3), 429, "TooManyRequests"),
        (internal_error(), 500, "InternalError"),
        (gone(), 410, "Expired"),
        (quota_exceeded("a"), 403, "Forbidden"),
        (conflict("a"), 409, "Conflict"),
    ],
)
async def test_a_rule_answers_in_place_of_the_server(
    proxy: ApiProxy,
    client: aiohttp.ClientSession,
    namespace: str,
    *,
    answer: Answer,
    status: int,
    reason: str,
) -> None:
    remove = proxy.on_request(lambda request: answer if request.is_mutating else None)
    async with client.post(_path(namespace), json=_config_map("a")) as reply:
        assert reply.status == status
        assert (await reply.json())["reason"] == reason
        assert reply.headers.get("Retry-After") == ("3" if status == 429 else None)
    assert not await _exists(client, namespace, "a")
    assert proxy.records[0].status == status

    remove()
    async with client.post(_path(namespace), json=_config_map("a")) as reply:
        assert reply.status == 201


async def test_answers_need_not_be_json_nor_end_a_watch_cleanly(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    proxy.on_request(lambda request: gone_in_stream() if request.is_watch else unavailable_html())
    async with client.get(_path(namespace)) as reply:
        assert (reply.status, reply.content_type) == (503, "text/html")
    async with client.get(_path(namespace) + "?watch=1") as reply:
        assert reply.status == 200
        assert json.loads(await reply.content.readline())["object"]["code"] == 410
        assert await reply.content.readline() == b""


async def test_a_connection_dropped_before_leaves_no_trace(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    remove = proxy.on_request(lambda _: DROP_BEFORE)
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(_path(namespace), json=_config_map("a"))
    remove()

    assert proxy.records[0].status is None
    assert not await _exists(client, namespace, "a")


async def test_a_connection_dropped_after_loses_only_the_reply(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    remove = proxy.on_request(lambda _: DROP_AFTER)
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(_path(namespace), json=_config_map("a"))
    remove()

    assert await _exists(client, namespace, "a")


async def test_a_held_write_lands_although_its_client_has_gone(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    remove = proxy.on_request(lambda _: hold(60))

    async def post() -> None:
        await client.post(_path(namespace), json=_config_map("a"))

    posting = asyncio.create_task(post())
    await eventually(lambda: proxy.records)
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting
    remove()
    assert not await _exists(client, namespace, "a")

    proxy.release()

    async with client.get(_path(namespace) + "?watch=1&timeoutSeconds=100") as watch:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await _next_name(watch) != "a":
                pass  # the root certificate that a controller puts there


async def test_a_hold_lasts_as_long_as_it_was_asked_to(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    proxy.on_request(lambda request: hold(0.5) if request.is_mutating else None)
    began = time.monotonic()
    async with client.post(_path(namespace), json=_config_map("a")) as reply:
        assert reply.status == 201
    assert time.monotonic() - began >= 0.5


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_client_is_killed_at_its_nth_request(
    proxy: ApiProxy,
    client: aiohttp.ClientSession,
    namespace: str,
    *,
    tmp_path: Path,
    control_plane: ControlPlane,
    when: Literal["before", "after"],
) -> None:
    """The third write of four: two are there, the third only where it was killed after it."""
    documents = tmp_path / "maps.yaml"
    documents.write_text(yaml.safe_dump_all([_config_map(name) for name in "abcd"]))
    kubectl = await asyncio.create_subprocess_exec(
        str(control_plane.binaries.kubectl),
        f"--kubeconfig={proxy.kubeconfig(control_plane.kubeconfig(), tmp_path / 'kubeconfig')}",
        f"--cache-dir={tmp_path / 'cache'}",
        f"--namespace={namespace}",
        "create",
        "--validate=false",
        f"--filename={documents}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    killed = proxy.kill_at(3, kubectl, when=when, matching=lambda request: request.method == "POST")

    assert await asyncio.wait_for(kubectl.wait(), PATIENCE_SECONDS) == -signal.SIGKILL
    assert killed.is_set()
    there = [name for name in "abcd" if await _exists(client, namespace, name)]
    assert there == (["a", "b"] if when == "before" else ["a", "b", "c"])
    assert any("kubectl/" in record.user_agent for record in proxy.records)


async def test_a_rule_sees_the_whole_request(
    proxy: ApiProxy, client: aiohttp.ClientSession, namespace: str
) -> None:
    seen: list[Request] = []
    proxy.on_request(seen.append)
    await client.post(_path(namespace) + "?dryRun=All", json=_config_map("a"))

    (request,) = seen
    assert (request.n, request.method, request.path) == (1, "POST", _path(namespace))
    assert request.query == {"dryRun": ("All",)}
    assert request.headers["user-agent"] == "a-client/1"
    assert json.loads(request.body) == _config_map("a")
    assert (request.is_mutating, request.is_watch) == (True, False)


async def test_a_proxy_in_a_thread_serves_a_test_that_blocks(control_plane: ControlPlane) -> None:
    with in_thread(ApiProxy(control_plane.kubeconfig())) as proxy:
        reached = threading.Event()
        proxy.on_request(lambda _: reached.set())
        path = control_plane.directory / "through-the-proxy.kubeconfig"
        proxy.kubeconfig(control_plane.kubeconfig(), path)
        control_plane.kubectl("get", "namespaces", f"--kubeconfig={path}")
        assert reached.is_set()
        proxy.cut()
