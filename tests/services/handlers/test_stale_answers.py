"""Answers to messages of a queue that is no more, on a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest

from bridge import streams
from bridge.events import WORK_SUBJECT, ObjectKey
from bridge.jetstream import Bus, BusError
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT
from handlers.cli.devstack.nats_server import NatsServer
from handlers.queue import Delivery, Pull
from tests.stack.eventually import PATIENCE_SECONDS, eventually

OLD = ObjectKey("inferadeployment", "default", "old")
NEW = ObjectKey("inferadeployment", "default", "new")


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    async with connect_nats(Settings(nats_url=nats_server.url), "handlers") as bus:
        await bus.declare()
        yield bus


@pytest.fixture
async def other_bus(nats_server: NatsServer, bus: Bus) -> AsyncIterator[Bus]:
    async with connect_nats(Settings(nats_url=nats_server.url), "handlers") as other:
        yield other


async def delete_stream(bus: Bus, _: NatsServer) -> None:
    await bus.client.jetstream().delete_stream(streams.QUEUE)


async def wipe(_: Bus, server: NatsServer) -> None:
    await asyncio.to_thread(server.wipe)


async def declared(*buses: Bus) -> bool:
    """Whether what is missing was made, and everybody can see it."""
    try:
        for each in buses:
            await each.declare()
    except BusError:
        return False
    return True


@pytest.mark.parametrize("lose", [delete_stream, wipe])
async def test_an_answer_to_a_message_of_a_lost_queue_answers_none_of_the_new_queue(
    bus: Bus,
    other_bus: Bus,
    nats_server: NatsServer,
    lose: Callable[[Bus, NatsServer], Awaitable[None]],
) -> None:
    """Stream and consumer have the same names again, and their messages the same numbers."""
    pull, other = Pull(bus, CONTRACT.consumer), Pull(other_bus, CONTRACT.consumer)
    await pull.start()
    await other.start()
    old = await next_of(pull, OLD)

    await lose(other_bus, nats_server)
    await eventually(partial(declared, bus, other_bus))
    new = await next_of(other, NEW)
    assert new.sequence == old.sequence
    await bus.client.flush()
    await old.acknowledge()
    await bus.client.flush()
    await new.give_back(0)

    again = await next_of(other, None)
    assert again.key == NEW
    assert again.delivered == 2
    await again.acknowledge()
    await pull.stop()
    await other.stop()


async def next_of(pull: Pull, key: ObjectKey | None) -> Delivery:
    """Return the next message, after one about *key* was put into the queue."""
    if key is not None:
        await pull._bus.publish(f"{WORK_SUBJECT}.{key.token}.0")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            await pull.ask(1)
            if (delivery := await pull.take(1)) is not None:  # None also after a reconnect
                return delivery
