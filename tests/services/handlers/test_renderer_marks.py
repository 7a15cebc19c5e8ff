"""Which renderers live, told by marks in a stream that may be deleted under them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from bridge import streams
from bridge.jetstream import Bus
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from handlers.cli.devstack.nats_server import NatsServer
from handlers.registry import HANDLERS
from handlers.renderers import mark, newest_renderer
from tests.stack.eventually import eventually

HANDLER = HANDLERS[0]
KIND = HANDLER.contract.kind.queue_name
NEWER = replace(HANDLER, renderer=HANDLER.renderer + 1)


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    settings = Settings(nats_url=nats_server.url, renderer_mark_seconds=5)
    async with connect_nats(settings, "handlers") as bus:
        await bus.declare()
        yield bus


async def test_a_newer_renderer_lives_while_its_mark_does(bus: Bus) -> None:
    await eventually(lambda: lives(bus, 0))

    await mark(bus, (HANDLER, NEWER))

    assert await lives(bus, NEWER.renderer)
    await eventually(lambda: lives(bus, 0))


async def test_while_the_marks_are_being_made_again_any_newer_renderer_may_live(bus: Bus) -> None:
    await bus.client.jetstream().delete_stream(streams.STATE)
    assert await newest_renderer(bus, KIND) > NEWER.renderer

    await bus.declare()

    assert await newest_renderer(bus, KIND) > NEWER.renderer


async def lives(bus: Bus, version: int) -> bool:
    return await newest_renderer(bus, KIND) == version
