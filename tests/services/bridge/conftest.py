"""A bridge in this test's own loop, against the real API server and a real nats-server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from prometheus_client.parser import text_string_to_metric_families

from bridge import telemetry
from bridge.events import ChangeEvent, EventType, decode
from bridge.jetstream import Bus
from bridge.kube import MERGE_PATCH, Kube, connect_kube
from bridge.nats_connection import connect_nats
from bridge.relay import Relay
from bridge.settings import Settings
from bridge.streams import QUEUE, consumer_name
from crds import KINDS
from crds.kind import Kind
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from tests.faults.api_proxy import ApiProxy
from tests.stack.eventually import eventually

TAKE_SECONDS = 0.05
RESOURCE = KINDS[0].kind


class Taker:
    """Takes every message off the queue as it comes, as the fastest of handlers would."""

    def __init__(self) -> None:
        self.events: list[ChangeEvent] = []

    def names(self, type: EventType | None = None) -> set[str]:  # noqa: A002 - as in events
        """Return the names of the resources that events were about."""
        return {event.key.name for event in self.events if type in (None, event.type)}

    def of(self, name: str, type: EventType | None = None) -> list[ChangeEvent]:  # noqa: A002
        """Return the events about a resource."""
        return [e for e in self.events if e.key.name == name and type in (None, e.type)]


class Resources:
    """What an administrator does to the objects of one namespace."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        """Take a client that may do everything."""
        self.kube = kube
        self.namespace = namespace

    async def create(self, name: str, **spec: Any) -> None:
        """Create a resource that is valid, with more in its spec."""
        await self.create_object(
            RESOURCE,
            {
                "metadata": {"name": name},
                "spec": {"image": "i:1", "services": {"s": {"componentType": "server"}}, **spec},
            },
        )

    async def edit(self, name: str, image: str) -> None:
        """Change the spec of a resource."""
        await self.patch(RESOURCE, name, {"spec": {"image": image}})

    async def delete(self, name: str, kind: Kind = RESOURCE) -> None:
        """Delete an object."""
        await self.kube.request("DELETE", kind.path(self.namespace, name))

    async def create_object(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Create an object of any kind."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        await self.kube.request(
            "POST",
            kind.path(self.namespace),
            body=msgspec.json.encode(body),
            content_type="application/json",
        )

    async def patch(
        self, kind: Kind, name: str, change: dict[str, Any], subresource: str | None = None
    ) -> None:
        """Merge a change into an object."""
        await self.kube.request(
            "PATCH",
            kind.path(self.namespace, name, subresource),
            body=msgspec.json.encode(change),
            content_type=MERGE_PATCH,
        )


async def ready(relay: Relay) -> None:
    """Every kind is listed, and the queue is there."""

    def is_ready() -> bool:
        wrong = {name: said for name, check in relay.checks().items() if (said := check())}
        assert not wrong
        return True

    await eventually(is_ready)


def a_service_of(owner: str, name: str) -> dict[str, Any]:
    return {"metadata": _metadata_of(owner, name), "spec": {"ports": [{"port": 80}]}}


def a_deployment_of(owner: str, name: str) -> dict[str, Any]:
    """Return a Deployment without pods."""
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "registry.example/a:1"}]}
    return {
        "metadata": _metadata_of(owner, name),
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _metadata_of(owner: str, name: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": owner,
    }
    return {"name": name, "labels": labels}


Published = Callable[[EventType, str], int]
Bridge = Callable[..., AbstractAsyncContextManager[Relay]]


def settings_for(nats: NatsServer, **changes: object) -> Settings:
    """Return settings whose times are a test's."""
    given: dict[str, object] = {
        "nats_url": nats.url,
        "http": "off",
        "stream_check_seconds": 0.3,
        "identity": "bridge-under-test",
        **changes,
    }
    return Settings(**given)  # type: ignore[arg-type]


@pytest.fixture
def bridge(
    cluster: ControlPlane,
    nats_server: NatsServer,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Bridge:
    """
    A factory of bridges with the bridge's own role, and of settings that are a test's.

    It watches the test's namespace, so that what other tests leave behind does not matter.
    """

    @asynccontextmanager
    async def run(*, kubeconfig: Path | None = None, **changes: object) -> AsyncIterator[Relay]:
        config = kubeconfig or cluster.kubeconfig(access.BRIDGE)
        monkeypatch.setenv("KUBECONFIG", str(config))
        settings = settings_for(nats_server, **{"watch_namespaces": namespace, **changes})
        async with (
            connect_kube(settings, "bridge") as kube,
            connect_nats(settings, "bridge") as bus,
        ):
            relay = Relay(kube, bus, settings, KINDS)
            running = asyncio.create_task(relay.run())
            try:
                yield relay
            finally:
                if running.done():
                    running.result()
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running

    return run


@pytest.fixture
async def resources(
    cluster: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Resources]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(access.ADMIN)))
    async with connect_kube(Settings(), "test") as kube:
        yield Resources(kube, namespace)


@pytest.fixture
async def api_proxy(cluster: ControlPlane) -> AsyncIterator[ApiProxy]:
    """A proxy in front of the API server; `proxied` is the kubeconfig that goes through it."""
    async with ApiProxy(cluster.kubeconfig(access.BRIDGE)) as proxy:
        yield proxy


@pytest.fixture
def proxied(cluster: ControlPlane, api_proxy: ApiProxy, scratch: Path) -> Path:
    return api_proxy.kubeconfig(cluster.kubeconfig(access.BRIDGE), scratch / "proxied")


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    """A connection of the test's own."""
    async with connect_nats(settings_for(nats_server), "handlers") as connected:
        yield connected


@pytest.fixture
async def taken(bus: Bus) -> AsyncIterator[Taker]:
    """All events that reached the queue, taken and acknowledged while the test runs."""
    taker = Taker()
    taking = asyncio.create_task(_take(bus.client, taker))
    yield taker
    taking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await taking


@pytest.fixture
def published() -> Iterator[Published]:
    """`published(type, result)` counts what the bridges of this test published."""
    telemetry.set_up("test", Settings())

    def count(type: EventType, result: str) -> int:  # noqa: A002 - as in events
        return sum(
            int(sample.value)
            for family in text_string_to_metric_families(telemetry.exposition().decode())
            for sample in family.samples
            if sample.name == "weir_published_total"
            and (sample.labels["type"], sample.labels["result"]) == (type, result)
        )

    yield count
    telemetry.shut_down()


async def _take(client: Client, taker: Taker) -> None:
    async def take(message: Msg) -> None:
        if message.reply:  # else it is the server's word on a request
            taker.events.append(decode(message.subject, message.headers, message.data))
            await message.respond(b"+ACK")

    inbox = client.new_inbox()
    await client.subscribe(inbox, cb=take)
    request = f"$JS.API.CONSUMER.MSG.NEXT.{QUEUE}.{consumer_name(KINDS[0].consumer)}"
    while True:
        with contextlib.suppress(NatsError, OSError):
            await client.publish(request, b'{"batch": 500, "no_wait": true}', reply=inbox)
        await asyncio.sleep(TAKE_SECONDS)
