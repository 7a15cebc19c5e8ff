"""What the bridge makes of a NATS that goes away, forgets, and loses what it acknowledged."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from bridge.events import EventType
from bridge.jetstream import Bus, BusUnavailable
from bridge.streams import QUEUE, consumer_name
from crds import KINDS
from handlers.cli.devstack.nats_server import NatsServer
from tests.services.bridge.conftest import Bridge, Resources, Taker, ready
from tests.stack.eventually import eventually

GROUP = KINDS[0].consumer


async def test_changes_made_while_nats_is_away_arrive_when_it_is_back(
    bridge: Bridge,
    taken: Taker,
    resources: Resources,
    nats_server: NatsServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = {f"away-{n}" for n in range(30)}
    for name in names:
        await resources.create(name)
    async with bridge() as relay:
        await ready(relay)
        await eventually(lambda: taken.names(EventType.RESYNC) == names)
        taken.events.clear()
        caplog.clear()
        caplog.set_level("INFO", "weir.publish")

        nats_server.stop()
        for name in sorted(names):
            await resources.edit(name, "i:2")
        await resources.delete("away-0")
        await eventually(lambda: relay.checks()["queue"]() == "NATS is not connected; 30 keys wait")
        nats_server.start()

        await eventually(lambda: taken.names() == names)
        assert taken.of("away-0", EventType.DELETED)
        await ready(relay)
        lines = [record for record in caplog.records if record.name == "weir.publish"]
        # Once per loss, however many keys wait; a busy server may be lost again while it starts.
        told = [line.message for line in lines]
        assert told == ["cannot publish; trying for ever", "publishing again"] * (len(told) // 2)
        assert told


async def test_more_changes_than_are_remembered_are_healed_by_a_look_at_everything(
    bridge: Bridge, taken: Taker, resources: Resources, nats_server: NatsServer
) -> None:
    names = {f"many-{n}" for n in range(10)}
    for name in names:
        await resources.create(name)
    async with bridge(pending_max=3) as relay:
        await ready(relay)
        await eventually(lambda: taken.names() == names)
        taken.events.clear()
        nats_server.stop()
        for name in names:
            await resources.edit(name, "i:2")
        await eventually(lambda: relay.checks()["queue"]() == "NATS is not connected; 3 keys wait")
        nats_server.start()
        await eventually(lambda: taken.names() == names)


@pytest.mark.parametrize("what", ["stream", "wiped"])
async def test_a_queue_that_is_lost_is_made_again_and_filled(
    what: str,
    bridge: Bridge,
    bus: Bus,
    resources: Resources,
    nats_server: NatsServer,
) -> None:
    names = {f"lost-{n}" for n in range(10)}
    for name in names:
        await resources.create(name)
    async with bridge() as relay:
        await ready(relay)
        await eventually(lambda: _depth(bus, 10))
        if what == "stream":
            await bus.api(f"STREAM.DELETE.{QUEUE}")
        else:
            nats_server.wipe()
        await eventually(lambda: _depth(bus, 10))
        await ready(relay)
        await resources.create("lost-after")
        await eventually(lambda: _depth(bus, 11))


async def test_a_consumer_that_is_deleted_is_made_again(
    bridge: Bridge, bus: Bus, resources: Resources
) -> None:
    async with bridge() as relay:
        await ready(relay)
        await bus.api(f"CONSUMER.DELETE.{QUEUE}.{consumer_name(GROUP)}")
        await resources.create("still-there")
        await eventually(lambda: _depth(bus, 1))
        await ready(relay)


async def test_a_queue_that_goes_back_in_time_is_filled_again(
    bridge: Bridge, bus: Bus, taken: Taker, resources: Resources, nats_server: NatsServer
) -> None:
    """A restored backup: the same stream, with a lower last sequence than was acknowledged."""
    async with bridge() as relay:
        await ready(relay)
        nats_server.stop()
        backup = nats_server.store.with_name("backup")
        shutil.copytree(nats_server.store, backup)
        nats_server.start()
        await ready(relay)
        for n in range(3):
            await resources.create(f"restored-{n}")
        await eventually(lambda: len(taken.names(EventType.CHANGED)) == 3)
        taken.events.clear()
        nats_server.kill()
        shutil.rmtree(nats_server.store)
        shutil.copytree(backup, nats_server.store)
        nats_server.start()
        await eventually(lambda: len(taken.names(EventType.RESYNC)) == 3)


async def test_a_restart_of_nats_that_lost_nothing_causes_no_look_at_everything(
    bridge: Bridge, taken: Taker, resources: Resources, nats_server: NatsServer
) -> None:
    await resources.create("calm")
    async with bridge() as relay:
        await ready(relay)
        await eventually(lambda: taken.of("calm", EventType.RESYNC))
        nats_server.stop()
        nats_server.start()
        await ready(relay)
        await resources.create("marker")
        await eventually(lambda: taken.of("marker"))
        assert len(taken.of("calm")) == 1


async def test_a_hot_resource_keeps_its_place_and_never_more_than_two_messages(
    bridge: Bridge, bus: Bus, resources: Resources
) -> None:
    async with bridge() as relay:
        await ready(relay)
        await resources.create("hot")
        await eventually(lambda: _depth(bus, 1))
        for n in range(10):
            await resources.edit("hot", f"i:{n + 10}")
        await resources.create("cold")
        await eventually(lambda: _depth(bus, 3))
        info: dict[str, Any] | None = await bus.api(
            f"STREAM.INFO.{QUEUE}", {"subjects_filter": "weir.w.>"}
        )
        assert info is not None
        assert {subject.rpartition(".")[2] for subject in info["state"]["subjects"]} == {"0", "1"}


async def _depth(bus: Bus, messages: int) -> bool:
    try:
        state = await bus.stream_info(QUEUE)
    except BusUnavailable as exc:
        raise AssertionError from exc
    assert state is not None
    assert state.messages == messages
    return True
