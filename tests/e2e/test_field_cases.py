"""Bug reports of neighbouring systems (cases.md, by number): none of them is one of ours."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.msg import Msg

from bridge import streams
from bridge.events import WORK_SUBJECT, ObjectKey, seen_id
from crds.inferadeployment import CONTRACT, KIND
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION, Manifest
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.weir import Setting
from tests.builders import an_infera_deployment
from tests.e2e.crowd import (
    PRODUCTION,
    QUICK,
    Crowd,
    a_bridge,
    a_crowd,
    a_handler,
    http_get,
    image,
    names,
)
from tests.e2e.population import condition
from tests.e2e.weather import Weather, is_resumed, listed_since
from tests.faults.answers import gone
from tests.faults.api_proxy import ApiProxy
from tests.faults.own_loop import in_thread
from tests.faults.tcp_proxy import TcpProxy
from tests.stack.eventually import eventually
from tests.stack.fixtures import Kubectl, Weir
from tests.witness.history import read_history
from tests.witness.quiet import quiet

# Case 1: sources that silently miss changes


class Changes:
    """Resources of many namespaces, changed at random, and what must be told of them."""

    def __init__(self, crowd: Crowd, namespaces: list[str], seed: int) -> None:
        self._crowd = crowd
        self._namespaces = namespaces
        self._random = random.Random(seed)
        self._live: dict[ObjectKey, str] = {}
        self._number = 0
        self.newest: dict[ObjectKey, str] = {}
        """Id of the event that tells the newest state of every live object that was changed."""
        self.deleted: dict[ObjectKey, str] = {}
        """Uid of what was deleted."""

    async def make(self, count: int) -> None:
        """So many more resources exist."""
        for _ in range(count):
            await self._create()

    async def go_on(self, count: int) -> None:
        """So many changes are made: a third of each sort."""
        for number in range(count):
            match number % 3:
                case 0:
                    await self._create()
                case 1:
                    await self._modify(self._random.choice(sorted(self._live)))
                case _:
                    await self._delete(self._random.choice(sorted(self._live)))

    async def _create(self) -> None:
        self._number += 1
        namespace = self._namespaces[self._number % len(self._namespaces)]
        resource = an_infera_deployment(f"r{self._number:04}").with_server(replicas=0).manifest()
        made = await self._crowd.request("POST", KIND.path(namespace), resource)
        key = ObjectKey(KIND.queue_name, namespace, made["metadata"]["name"])
        self._live[key] = made["metadata"]["uid"]
        self._remember(key, made)

    async def _modify(self, key: ObjectKey) -> None:
        self._number += 1
        patch = {"spec": {"image": image(self._number)}}
        path = KIND.path(key.namespace, key.name)
        self._remember(key, await self._crowd.request("PATCH", path, patch))

    async def _delete(self, key: ObjectKey) -> None:
        await self._crowd.request("DELETE", KIND.path(key.namespace, key.name))
        self.deleted[key] = self._live.pop(key)
        self.newest.pop(key, None)

    def _remember(self, key: ObjectKey, made: Manifest) -> None:
        metadata = made["metadata"]
        self.newest[key] = seen_id(key, metadata["uid"], metadata["resourceVersion"])


@pytest.mark.parametrize(
    ("namespaces", "objects", "changes", "recovery_seconds"),
    [
        pytest.param(10, 100, 200, 30, id="80-watches"),
        pytest.param(125, 1000, 5000, 5, id="1000-watches", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(900)
async def test_watches_that_are_cut_at_random_miss_no_newest_state_and_no_deletion(
    control_plane: ControlPlane,
    nats_server: NatsServer,
    weir: Weir,
    namespaces: int,
    objects: int,
    changes: int,
    recovery_seconds: float,
) -> None:
    """
    Case 1. Told soon after the end of the last gap: what a handler would be given.

    Soon beyond what this machine needs for as many watches where nothing was missed.
    """
    with in_thread(ApiProxy(control_plane.kubeconfig(access.BRIDGE))) as proxy:
        weather = Weather(proxy, seed=1)
        kubeconfig = control_plane.kubeconfig_through(proxy.url, access.BRIDGE)
        async with (
            a_crowd(control_plane, "default") as crowd,
            namespaces_of(crowd, namespaces) as made,
            told(nats_server) as ids,
        ):
            changing = Changes(crowd, made, seed=2)
            await changing.make(objects)
            begun = time.monotonic()
            a_bridge(weir, QUICK, *made, kubeconfig=kubeconfig).wait_ready(60)
            first_seconds = time.monotonic() - begun
            watched = listed_since(proxy, 0)
            before = set(changing.newest)
            changing.newest.clear()

            storm = asyncio.create_task(weather.storm())
            await changing.go_on(changes)
            storm.cancel()
            weather.turn("gap")
            known = before | told_of(ids)
            await changing.go_on(changes // 4)
            fair = len(proxy.records)
            weather.turn("fair")

            def each_watch_asks_again() -> bool:
                silent = watched - {record.path for record in proxy.records[fair:]}
                assert not silent, f"{len(silent)} of {len(watched)}: {sorted(silent)[:3]}"
                return True

            def all_is_told() -> bool:
                deletions = {
                    i.removesuffix(":deleted").rpartition(":")[0] for i in ids if is_end(i)
                }
                missed = {i for i in changing.newest.values() if i not in ids}
                missed |= {
                    f"deletion of {key}"
                    for key, uid in changing.deleted.items()
                    if key in known and f"{key.token}:{uid}" not in deletions
                }
                assert not missed, f"{len(missed)} missed: {sorted(missed)[:3]}"
                return True

            assert len(known & set(changing.deleted)) > changes // 8
            await eventually(all_is_told, recovery_seconds + first_seconds)
            await eventually(each_watch_asks_again)


@asynccontextmanager
async def namespaces_of(crowd: Crowd, count: int) -> AsyncIterator[list[str]]:
    """Give so many new namespaces; their deletion goes on afterwards."""
    prefix = f"test-{uuid.uuid4().hex[:8]}"
    made = [f"{prefix}-{number}" for number in range(count)]
    for name in made:
        await crowd.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield made
    for name in made:
        await crowd.request("DELETE", f"/api/v1/namespaces/{name}")


@asynccontextmanager
async def told(nats_server: NatsServer) -> AsyncIterator[dict[str, None]]:
    """Give the ids of the events that are published to the queue, as they are, in order."""
    ids: dict[str, None] = {}

    async def note(message: Msg) -> None:
        ids[(message.headers or {})["ce-id"]] = None

    async with await nats.connect(nats_server.url) as client:
        await client.subscribe(f"{WORK_SUBJECT}.>", cb=note)
        await client.flush()
        yield ids


def told_of(ids: Mapping[str, None]) -> set[ObjectKey]:
    return {ObjectKey.from_token(i.partition(":")[0]) for i in ids}


def is_end(identity: str) -> bool:
    return identity.endswith(":deleted")


# Case 4: a watch that is established anew looks like updates


@pytest.mark.parametrize(
    "size", [pytest.param(60, id="60"), pytest.param(2000, id="2000", marks=pytest.mark.soak)]
)
@pytest.mark.timeout(900)
async def test_a_relist_of_unchanged_objects_writes_nothing(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    size: int,
) -> None:
    """Case 4."""
    with in_thread(ApiProxy(control_plane.kubeconfig(access.BRIDGE))) as proxy:
        kubeconfig = control_plane.kubeconfig_through(proxy.url, access.BRIDGE)
        async with (
            a_crowd(control_plane, "default") as user,
            namespaces_of(user, 1) as (elsewhere,),
            a_crowd(control_plane, namespace, size) as crowd,
            a_crowd(control_plane, elsewhere) as witness,
            told(nats_server) as ids,
        ):
            a_handler(weir, QUICK).wait_ready()
            a_bridge(weir, QUICK, namespace, elsewhere, kubeconfig=kubeconfig).wait_ready()
            await crowd.converge(nats_server.url, within_seconds=60 + size / 4)
            watched = listed_since(proxy, 0)

            async with quiet(control_plane, namespace):
                history = len(await read_history(nats_server.url))
                ids.clear()
                begun = len(proxy.records)
                proxy.on_request(lambda request: gone() if is_resumed(request) else None)
                proxy.cut()
                await eventually(lambda: watched <= listed_since(proxy, begun))
                await witness.create("last")  # behind whatever the relist caused
                await witness.converge(nats_server.url)

            assert {key.namespace for key in told_of(ids)} == {elsewhere}
            later = (await read_history(nats_server.url))[history:]
            assert {moment.owner for moment in later} == {f"{elsewhere}/last"}


# Case 5: a dead watch behind a healthy face


@pytest.mark.parametrize(
    ("settings", "idle_seconds"),
    [
        pytest.param({**QUICK, "watch_seconds": 5, "watch_idle_seconds": 6}, 6, id="short"),
        pytest.param(PRODUCTION, 70, id="production", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_a_half_open_connection_is_noticed_and_told_by_readiness(
    control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    settings: Mapping[str, Setting],
    idle_seconds: float,
) -> None:
    """Case 5: neither a byte nor a FIN. The server ends a quiet watch after 5 s."""
    with in_thread(TcpProxy("127.0.0.1", control_plane.port)) as proxy:
        url = f"https://127.0.0.1:{proxy.port}"
        kubeconfig = control_plane.kubeconfig_through(url, access.BRIDGE)
        a_handler(weir, settings).wait_ready()
        bridge = a_bridge(weir, settings, namespace, kubeconfig=kubeconfig)
        bridge.wait_ready()
        async with a_crowd(control_plane, namespace, 10) as crowd:
            await crowd.converge(nats_server.url)
            assert (await http_get(bridge.http_url + "/readyz"))[0] == 200

            proxy.freeze()
            accepted = proxy.counters.accepted
            await crowd.edit(*names(10))
            await crowd.delete(*names(3))
            await eventually(lambda: proxy.counters.accepted > accepted, idle_seconds + 20)

            async def is_told() -> bool:
                status, text = await http_get(bridge.http_url + "/readyz")
                return status == 503 and "InferaDeployment silent for" in text

            await eventually(is_told, 2 * idle_seconds + 20)
            assert (await http_get(bridge.http_url + "/healthz"))[0] == 200
            proxy.thaw()

            async def is_ready() -> bool:
                return (await http_get(bridge.http_url + "/readyz"))[0] == 200

            await crowd.converge(nats_server.url)
            await eventually(is_ready, idle_seconds + 20)


# Case 7: one undecodable object stops the kind


async def test_an_object_of_the_wrong_shape_stops_neither_the_bridge_nor_its_kind(
    fresh_control_plane: ControlPlane,
    namespace: str,
    nats_server: NatsServer,
    weir: Weir,
    kubectl: Kubectl,
) -> None:
    """Case 7. Only an API server with an open schema takes it: an older CRD, for one."""
    open_the_schema(fresh_control_plane, kubectl)
    a_handler(weir, QUICK).wait_ready()
    bridge = a_bridge(weir, QUICK, namespace)
    bridge.wait_ready()
    async with a_crowd(fresh_control_plane, namespace) as crowd:
        await crowd.create(*names(10))
        bad: Manifest = {
            "apiVersion": KIND.api_version,
            "kind": KIND.kind,
            "metadata": {"name": "bad"},
            "spec": "nonsense",
            "status": [1, {"conditions": 7}],
        }
        await crowd.request("POST", KIND.path(namespace), bad)
        await crowd.create(*names(20, begin=10))
        await crowd.edit(*names(10))

        async def bad_is_told() -> bool:
            found = (await crowd.items(KIND))["bad"]
            return condition(found).get("reason") == "InvalidSpec"

        await eventually(bad_is_told)
        await crowd.request("DELETE", KIND.path(namespace, "bad"))
        await crowd.converge(nats_server.url)
    assert bridge.is_running


def open_the_schema(cluster: ControlPlane, kubectl: Kubectl) -> None:
    """Let the API server take any spec and status of our kind."""
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    crd = cluster.get(CUSTOM_RESOURCE_DEFINITION.path(None, KIND.crd_name))
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    kubectl("replace", "-f", "-", document=crd)


# Case 12: what was deleted on the server is never made again


async def test_a_consumer_and_then_its_stream_may_be_deleted_while_handlers_run(
    control_plane: ControlPlane, namespace: str, nats_server: NatsServer, weir: Weir
) -> None:
    """Case 12."""
    bridge = a_bridge(weir, QUICK, namespace)
    handlers = a_handler(weir, QUICK)
    bridge.wait_ready()
    handlers.wait_ready()
    async with (
        a_crowd(control_plane, namespace, 20) as crowd,
        await nats.connect(nats_server.url) as client,
    ):
        await crowd.converge(nats_server.url)
        jetstream = client.jetstream()
        durable = streams.consumer_name(CONTRACT.consumer)

        await jetstream.delete_consumer(streams.QUEUE, durable)
        await crowd.edit(*names(20))
        await crowd.converge(nats_server.url)

        await jetstream.delete_stream(streams.QUEUE)
        await crowd.edit(*names(20))
        await crowd.delete(*names(5))
        await crowd.converge(nats_server.url)

        await crowd.never_two_at_once([handlers], nats_server.url)
