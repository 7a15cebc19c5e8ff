"""Several messages of one object in one process, on a real nats-server and API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bridge.events import WORK_SUBJECT, ChangeEvent, EventType, ObjectKey, encode
from bridge.jetstream import Bus
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from handlers.budget import unlimited
from handlers.children import World
from handlers.cli.devstack.nats_server import NatsServer
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from handlers.lease import Leases
from handlers.worker import Worker
from tests.services.handlers.conftest import Desk
from tests.stack.eventually import eventually

GROUP = "kubernetes"
NEVER_SECONDS = 600.0


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    settings = Settings(nats_url=nats_server.url, ack_wait_seconds=NEVER_SECONDS, concurrency=2)
    async with connect_nats(settings, "handlers") as bus:
        await bus.declare()
        yield bus


@pytest.fixture
async def worker(bus: Bus, desk: Desk) -> AsyncIterator[Worker]:
    """A worker of two objects at once."""

    async def newest(_: str) -> int:
        return 0

    world = World(
        kube=desk.kube,
        settings=bus.settings,
        facts=Facts(),
        identity="worker",
        newest_renderer=newest,
        may_roll_out=unlimited,
    )
    leases = Leases(bus, bus.settings, "worker")
    worker = Worker(GROUP, {HANDLER.contract.kind.queue_name: HANDLER}, world, leases, {})
    running = asyncio.create_task(worker.run())
    yield worker
    worker.stop()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def a_key(name: str) -> ObjectKey:
    """Return the key of a resource that does not exist: a look at it ends at once."""
    return ObjectKey(HANDLER.contract.kind.queue_name, "nowhere", name)


async def publish(bus: Bus, key: ObjectKey, **slots: EventType) -> None:
    """Put an event into each of these slots."""
    for slot, type_ in slots.items():
        event = ChangeEvent(key=key, type=type_, id=f"{key.token}:{slot}:{type_}")
        headers, payload = encode(event)
        await bus.publish(f"{WORK_SUBJECT}.{key.token}.{slot[1:]}", payload, headers=headers)


async def in_hand(bus: Bus, count: int) -> bool:
    state = await bus.consumer_info(GROUP)
    assert state is not None
    assert (state.pending, state.ack_pending) == (0, count)
    return True


async def test_one_look_does_for_all_that_wait_and_a_timer_gets_its_own(
    bus: Bus, worker: Worker
) -> None:
    key = a_key("hot")
    async with worker._locks.held(key):
        await publish(bus, key, _0=EventType.CHANGED, _1=EventType.DELETED, _2=EventType.OBSERVED)
        await publish(bus, key, _t=EventType.TIMER)
        await eventually(lambda: in_hand(bus, 4))
        await eventually(lambda: worker._in_hand[key] == 2)
        assert worker._growing[key].event.type is not EventType.OBSERVED
    await eventually(lambda: in_hand(bus, 0))
    await eventually(lambda: not worker._in_hand)
    assert not worker._growing


async def test_what_comes_after_a_look_began_gets_a_look_of_its_own(
    bus: Bus, worker: Worker
) -> None:
    key = a_key("edited")
    async with worker._solitude.turn() as turn:
        await turn.alone()  # what has its object's lock waits here
        await publish(bus, key, _0=EventType.CHANGED)
        await eventually(lambda: key in worker._locks._locks and key not in worker._growing)
        await publish(bus, key, _1=EventType.CHANGED)
        await eventually(lambda: worker._in_hand[key] == 2)
        assert key in worker._growing
    await eventually(lambda: in_hand(bus, 0))


async def test_messages_of_one_object_take_no_place_from_others(bus: Bus, worker: Worker) -> None:
    key = a_key("hot")
    async with worker._locks.held(key):
        await publish(bus, key, _0=EventType.CHANGED, _1=EventType.CHANGED, _t=EventType.TIMER)
        await eventually(lambda: worker._in_hand[key] == 2)
        await publish(bus, a_key("other"), _0=EventType.CHANGED)
        await eventually(lambda: in_hand(bus, 3))
