"""Leases when the stream that holds them is deleted, on a real nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from bridge import streams
from bridge.events import ObjectKey
from bridge.jetstream import Bus
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from handlers.cli.devstack.nats_server import NatsServer
from handlers.lease import Leases
from tests.stack.eventually import PATIENCE_SECONDS, eventually

KEY = ObjectKey("inferadeployment", "default", "chat")


@pytest.fixture
def settings(nats_server: NatsServer) -> Settings:
    return Settings(
        nats_url=nats_server.url, lease_seconds=2, write_timeout_seconds=PATIENCE_SECONDS
    )


@pytest.fixture
async def bus(settings: Settings) -> AsyncIterator[Bus]:
    async with connect_nats(replace(settings, identity="old"), "handlers") as bus:
        await bus.declare()
        yield bus


@pytest.fixture
async def other_bus(settings: Settings) -> AsyncIterator[Bus]:
    async with connect_nats(replace(settings, identity="new"), "handlers") as bus:
        yield bus


async def test_a_process_that_starts_beside_a_new_lease_stream_waits_for_leases_it_cannot_see(
    bus: Bus, other_bus: Bus, settings: Settings
) -> None:
    await outlive_the_installation(bus, settings)
    old = Leases(bus, settings, "old")
    await old.check()
    held = await old.acquire(KEY, 1)
    assert held is not None
    await bus.client.jetstream().delete_stream(streams.LOCK)

    starting = Leases(other_bus, settings, "new")
    await starting.check()
    await eventually(lambda: starting.acquire(KEY, 1))
    assert held.seconds_left <= 0


async def test_a_process_that_starts_where_everything_is_new_waits_for_nobody(
    bus: Bus, settings: Settings
) -> None:
    first = Leases(bus, settings, "first")
    await first.check()

    assert await first.acquire(KEY, 1) is not None


async def outlive_the_installation(bus: Bus, settings: Settings) -> None:
    """Return when the streams are older than a lease, as they nearly always are."""

    async def are_old() -> bool:
        state = await bus.stream_info(streams.LOCK)
        return state is not None and state.age_seconds > settings.lease_seconds

    await eventually(are_old)
