"""That another operator writes is said once, by whichever handler, on a real nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest

from bridge import streams
from bridge.events import ObjectKey
from bridge.jetstream import Bus
from bridge.kube_errors import AlreadyExists
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from crds.kubernetes import Manifest
from handlers.cli.devstack.nats_server import NatsServer
from handlers.errors import LeaseLost, OtherOperator
from handlers.other_operator import (
    EVENT_SECONDS,
    SUBJECT,
    Episode,
    load_episode,
    tell_other_operator,
)
from handlers.writes import Writer
from tests.stack.eventually import eventually

KEY = ObjectKey("inferadeployment", "team-a", "chat")
FOUND = OtherOperator("infera-operator wrote Service chat", "infera-operator", 3.0)


class FakeWriter:
    """The Events of a cluster by their names; a handler that writes there may die over it."""

    def __init__(self) -> None:
        self.events: dict[str, Manifest] = {}
        self.dies = ""

    async def post_event(self, namespace: str, manifest: Manifest) -> None:
        """Keep an Event that is not there; die before or after."""
        assert namespace == "team-a"
        name = manifest["metadata"]["name"]
        if self.dies == "before":
            raise LeaseLost("late")
        if name in self.events:
            raise AlreadyExists(409, "AlreadyExists", "x")
        self.events[name] = manifest
        if self.dies == "after":
            raise LeaseLost("late")


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    settings = Settings(nats_url=nats_server.url, other_operator_seconds=60)
    async with connect_nats(settings, "handlers") as bus:
        await bus.declare()
        yield bus


async def _tell(bus: Bus, writer: FakeWriter, uid: str = "u-1", version: str = "7") -> None:
    resource: Manifest = {
        "apiVersion": "infera.amd.com/v1alpha1",
        "kind": "InferaDeployment",
        "metadata": {"name": "chat", "namespace": "team-a", "uid": uid, "resourceVersion": version},
    }
    await tell_other_operator(FOUND, KEY, resource, cast("Writer", writer), bus, "handlers-1")


async def test_one_event_tells_of_it_whoever_looks_and_however_often(
    bus: Bus, nats_server: NatsServer
) -> None:
    writer = FakeWriter()
    async with connect_nats(Settings(nats_url=nats_server.url), "handlers") as other:
        for version, whose in enumerate((bus, other, bus, other)):
            await _tell(whose, writer, version=str(version))

    (event,) = writer.events.values()
    assert (event["type"], event["reason"]) == ("Warning", "OtherOperator")
    assert event["message"] == str(FOUND)
    assert event["involvedObject"]["uid"] == "u-1"
    # It is remembered for ten times as long as handlers wait, from the last such look on.
    stored = await bus.last(streams.STATE, f"{SUBJECT}.{KEY.token}")
    assert stored is not None
    assert stored.headers["Nats-TTL"] == "600s"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_handler_that_dies_over_it_leaves_neither_none_nor_two(bus: Bus, when: str) -> None:
    writer = FakeWriter()
    writer.dies = when
    with pytest.raises(LeaseLost):
        await _tell(bus, writer)

    writer.dies = ""
    for _ in range(2):
        await _tell(bus, writer)

    assert len(writer.events) == 1


async def test_another_resource_of_that_name_is_told_of_anew(bus: Bus) -> None:
    writer = FakeWriter()
    for uid in ("u-1", "u-2", "u-2"):
        await _tell(bus, writer, uid)

    assert [event["involvedObject"]["uid"] for event in writer.events.values()] == ["u-1", "u-2"]


async def test_it_is_told_again_when_the_api_server_has_forgotten_it(bus: Bus) -> None:
    writer = FakeWriter()
    await _tell(bus, writer)
    told = await load_episode(bus, KEY)
    assert told is not None

    hours_ago = msgspec.structs.replace(told, told_at=told.told_at - EVENT_SECONDS)
    await bus.publish(f"{SUBJECT}.{KEY.token}", msgspec.json.encode(hours_ago))
    for _ in range(2):
        await _tell(bus, writer)

    assert len(writer.events) == 2
    episode = await load_episode(bus, KEY)
    assert episode is not None
    assert (episode.since, episode.events) == (told.since, 2)


async def test_an_episode_ends_by_itself_and_what_cannot_be_read_is_none(
    bus: Bus, nats_server: NatsServer
) -> None:
    settings = Settings(nats_url=nats_server.url, other_operator_seconds=0.1)
    async with connect_nats(settings, "handlers") as hasty:
        await _tell(hasty, FakeWriter())

        async def is_over() -> bool:
            return await load_episode(hasty, KEY) is None

        await eventually(is_over)
    await bus.publish(f"{SUBJECT}.{KEY.token}", b"[")
    assert await load_episode(bus, KEY) is None
    await bus.publish(f"{SUBJECT}.{KEY.token}", msgspec.json.encode(Episode(uid="u", since=1.0)))
    assert await load_episode(bus, KEY) == Episode(uid="u", since=1.0)
