"""The bus on a real nats-server, which moves on, goes away, or is made anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge import streams
from bridge.jetstream import (
    REQUEST_SECONDS,
    Bus,
    BusUnavailable,
    StreamMissing,
    WrongSequence,
)
from bridge.nats_connection import connect_nats, public
from bridge.settings import Settings, SettingsError
from handlers.cli.devstack.nats_server import NatsServer
from tests.stack.eventually import PATIENCE_SECONDS, eventually

SUBJECT = "weir.s.k.a.x"
NAMES = (streams.QUEUE, streams.LOCK, streams.STATE, streams.DEAD, streams.HISTORY)


@asynccontextmanager
async def _connected(server: NatsServer) -> AsyncIterator[Bus]:
    async with connect_nats(Settings(nats_url=server.url), "handlers") as bus:
        yield bus


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    async with _connected(nats_server) as bus:
        await bus.declare()
        yield bus


async def _config(bus: Bus, verb: str) -> streams.Config:
    said = await bus.api(verb)
    assert said is not None
    config: streams.Config = said["config"]
    return config


# ---------------------------------------------------------------------------------- publish


async def test_a_publish_says_where_it_went_and_a_known_id_goes_nowhere(bus: Bus) -> None:
    first = await bus.publish("weir.w.k.a.x.0", b"1", headers={"Nats-Msg-Id": "i"})
    again = await bus.publish("weir.w.k.a.x.0", b"2", headers={"Nats-Msg-Id": "i"})
    assert (first.stream, first.duplicate) == (streams.QUEUE, False)
    assert (again.seq, again.duplicate) == (first.seq, True)
    stored = await bus.last(streams.QUEUE, "weir.w.k.a.x.0")
    assert stored is not None
    assert (stored.payload, stored.sequence, stored.subject) == (b"1", first.seq, "weir.w.k.a.x.0")


async def test_a_subject_that_moved_on_refuses_a_compare_and_set(bus: Bus) -> None:
    ack = await bus.publish(SUBJECT, b"1", expect_last_subject_sequence=0)
    for wrong in (0, ack.seq + 1):
        with pytest.raises(WrongSequence):
            await bus.publish(SUBJECT, b"2", expect_last_subject_sequence=wrong)
    await bus.publish(SUBJECT, b"3", expect_last_subject_sequence=ack.seq)
    stored = await bus.last(streams.STATE, SUBJECT)
    assert stored is not None
    assert stored.payload == b"3"


async def test_a_subject_of_no_stream_is_told_from_a_server_that_is_away(bus: Bus) -> None:
    with pytest.raises(StreamMissing):
        await bus.publish("nobody.listens", b"")


async def test_a_message_that_is_too_large_is_refused_in_the_servers_words(bus: Bus) -> None:
    with pytest.raises(BusUnavailable, match="message size exceeds"):
        await bus.publish(SUBJECT, b"x" * (streams.MESSAGE_BYTES_MAX + 1))


async def test_nothing_is_sent_late(nats_server: NatsServer, bus: Bus) -> None:
    nats_server.kill()
    await eventually(lambda: not bus.is_connected)
    started = time.monotonic()
    for _ in range(20):
        with pytest.raises(BusUnavailable, match="not connected"):
            await bus.publish(SUBJECT, b"late")
    assert time.monotonic() - started < PATIENCE_SECONDS  # less than 20 requests could wait
    nats_server.start()

    async def serves() -> bool:
        try:
            await bus.publish("weir.s.k.a.other", b"")
        except BusUnavailable:
            return False
        return True

    await eventually(serves)
    assert await bus.last(streams.STATE, SUBJECT) is None


async def test_what_is_only_told_is_kept_until_nats_is_back(
    nats_server: NatsServer, bus: Bus
) -> None:
    nats_server.kill()
    await eventually(lambda: not bus.is_connected)
    await bus.tell("weir.h.k.a.x", b"told", {"a": "b"})
    for _ in range(40):
        await bus.tell("weir.h.k.a.y", b"x" * 100_000, {})  # more than the client keeps
    nats_server.start()

    async def arrived() -> bool:
        try:
            return await bus.last(streams.HISTORY, "weir.h.k.a.x") is not None
        except BusUnavailable:
            return False

    await eventually(arrived)


async def test_a_server_that_is_silent_is_unavailable_after_the_time_given(
    nats_server: NatsServer, bus: Bus
) -> None:
    nats_server.pause()
    started = time.monotonic()
    with pytest.raises(BusUnavailable):
        await bus.publish(SUBJECT, b"", timeout_seconds=0.3)
    assert 0.25 < time.monotonic() - started < REQUEST_SECONDS
    nats_server.resume()


# ---------------------------------------------------------------------------------- read, remove


async def test_what_is_not_there_is_none(bus: Bus) -> None:
    assert await bus.last(streams.STATE, SUBJECT) is None
    assert await bus.stream_info("NO_SUCH") is None
    assert await bus.consumer_info("no-such-group") is None
    with pytest.raises(StreamMissing):
        await bus.last("NO_SUCH", SUBJECT)


async def test_a_message_is_deleted_once(bus: Bus) -> None:
    ack = await bus.publish(SUBJECT, b"1")
    assert await bus.delete(streams.STATE, ack.seq)
    assert not await bus.delete(streams.STATE, ack.seq)
    assert not await bus.delete("NO_SUCH", 1)
    assert await bus.last(streams.STATE, SUBJECT) is None


async def test_a_purge_takes_one_subject_and_may_be_repeated(bus: Bus) -> None:
    await bus.publish(SUBJECT, b"1")
    await bus.publish("weir.s.k.a.other", b"1")
    await bus.purge(streams.STATE, SUBJECT)
    await bus.purge(streams.STATE, SUBJECT)
    assert await bus.last(streams.STATE, SUBJECT) is None
    assert await bus.last(streams.STATE, "weir.s.k.a.other") is not None


async def test_a_consumer_says_what_waits(bus: Bus) -> None:
    for number in range(3):
        await bus.publish(f"weir.w.inferadeployment.a.x{number}.0")
    state = await bus.consumer_info("kubernetes")
    assert state is not None
    assert (state.pending, state.ack_pending) == (3, 0)


# ---------------------------------------------------------------------------------- declare


async def test_declaring_again_changes_nothing(bus: Bus) -> None:
    async def infos() -> list[object]:
        return [
            (info.created, info.last_sequence)
            for name in NAMES
            if (info := await bus.stream_info(name))
        ]

    before = await infos()
    assert len(before) == len(NAMES)
    await bus.declare()
    assert await infos() == before


async def test_many_may_declare_at_once(nats_server: NatsServer) -> None:
    async with _connected(nats_server) as a, _connected(nats_server) as b:
        await asyncio.gather(*(bus.declare() for bus in (a, b, a, b, a, b)))
        for name in NAMES:
            assert await a.stream_info(name) is not None
        assert await b.consumer_info("kubernetes") is not None


@pytest.mark.parametrize("name", NAMES)
async def test_a_stream_that_is_missing_is_made_again_with_its_consumers(
    bus: Bus, name: str
) -> None:
    old = await bus.stream_info(name)
    await bus.api(f"STREAM.DELETE.{name}")
    await bus.declare()
    new = await bus.stream_info(name)
    assert old is not None
    assert new is not None
    assert new.created != old.created
    assert new.age_seconds < 60
    assert await bus.consumer_info("kubernetes") is not None


async def _declared_by(bus: Bus, version: int, age_hours: int) -> None:
    """Give the state stream a configuration that another version made."""
    config = await _config(bus, f"STREAM.INFO.{streams.STATE}")
    config["metadata"] = {streams.VERSION_KEY: str(version)}
    config["max_age"] = age_hours * 3600 * 1_000_000_000
    await bus.api(f"STREAM.UPDATE.{streams.STATE}", config)


async def test_what_an_older_version_made_is_brought_up_to_date(bus: Bus) -> None:
    await bus.publish(SUBJECT, b"kept")
    await _declared_by(bus, streams.CONFIG_VERSION - 1, 5)
    await bus.declare()
    config = await _config(bus, f"STREAM.INFO.{streams.STATE}")
    assert config["max_age"] == 0
    assert config["metadata"][streams.VERSION_KEY] == str(streams.CONFIG_VERSION)
    assert await bus.last(streams.STATE, SUBJECT) is not None


@pytest.mark.parametrize("version", [streams.CONFIG_VERSION, streams.CONFIG_VERSION + 1])
async def test_what_this_or_a_newer_version_made_is_left_as_it_is(bus: Bus, version: int) -> None:
    await _declared_by(bus, version, 5)
    await bus.declare()
    config = await _config(bus, f"STREAM.INFO.{streams.STATE}")
    assert config["max_age"] == 5 * 3600 * 1_000_000_000


async def test_a_consumer_of_an_older_version_is_brought_up_to_date(bus: Bus) -> None:
    name = f"{streams.QUEUE}.{streams.consumer_name('kubernetes')}"
    config = await _config(bus, f"CONSUMER.INFO.{name}")
    config["metadata"] = {streams.VERSION_KEY: "0"}
    config["ack_wait"] = 99_000_000_000
    await bus.api(f"CONSUMER.CREATE.{name}", {"stream_name": streams.QUEUE, "config": config})
    await bus.declare()
    config = await _config(bus, f"CONSUMER.INFO.{name}")
    assert config["ack_wait"] == 10_000_000_000


CONSUMER = f"{streams.QUEUE}.{streams.consumer_name('kubernetes')}"


async def test_who_starts_brings_its_settings_and_who_only_looks_leaves_them(
    nats_server: NatsServer, bus: Bus
) -> None:
    patient = Settings(nats_url=nats_server.url, ack_wait_seconds=60, duplicate_window_seconds=30)
    async with connect_nats(patient, "tests") as other:
        await other.declare(brings="CONSUMER")
        assert (await _config(bus, f"CONSUMER.INFO.{CONSUMER}"))["ack_wait"] == 60_000_000_000
        queue = await _config(bus, f"STREAM.INFO.{streams.QUEUE}")
        assert queue["duplicate_window"] == 120_000_000_000

        await other.declare(brings="STREAM")
        queue = await _config(bus, f"STREAM.INFO.{streams.QUEUE}")
        assert queue["duplicate_window"] == 30_000_000_000
    await bus.declare()
    assert (await _config(bus, f"CONSUMER.INFO.{CONSUMER}"))["ack_wait"] == 60_000_000_000
    assert await _config(bus, f"STREAM.INFO.{streams.QUEUE}") == queue


@pytest.mark.parametrize("version", [streams.CONFIG_VERSION, streams.CONFIG_VERSION + 1])
async def test_a_kind_that_joins_a_group_is_served_beside_those_of_other_versions(
    bus: Bus, version: int
) -> None:
    config = await _config(bus, f"CONSUMER.INFO.{CONSUMER}")
    config["metadata"] = {streams.VERSION_KEY: str(version)}
    await bus.api(f"CONSUMER.CREATE.{CONSUMER}", {"stream_name": streams.QUEUE, "config": config})
    known = bus.groups["kubernetes"]
    for joined in ("modelpool", "routingpolicy"):
        bus.groups["kubernetes"] = (*known, joined)
        await bus.declare()
    bus.groups["kubernetes"] = known
    await bus.declare()
    config = await _config(bus, f"CONSUMER.INFO.{CONSUMER}")
    served = [f"weir.w.{kind}.>" for kind in (*known, "modelpool", "routingpolicy")]
    assert config["filter_subjects"] == served
    assert config["metadata"][streams.VERSION_KEY] == str(version)


async def test_the_queue_keeps_one_message_of_a_subject_and_dead_letters_a_month(bus: Bus) -> None:
    for _ in range(3):
        await bus.publish("weir.w.inferadeployment.a.x.1", b"")
    state = await bus.stream_info(streams.QUEUE)
    assert state is not None
    assert state.messages == 1
    dead = await _config(bus, f"STREAM.INFO.{streams.DEAD}")
    assert dead["max_age"] == 30 * 24 * 3600 * 1_000_000_000


# ---------------------------------------------------------------------------------- connect


async def test_what_starts_before_nats_waits_for_it(nats_server: NatsServer) -> None:
    nats_server.kill()

    async def connect() -> bool:
        async with _connected(nats_server) as bus:
            return bus.is_connected

    connecting = asyncio.create_task(connect())
    await asyncio.sleep(0.5)
    assert not connecting.done()
    nats_server.start()
    assert await asyncio.wait_for(connecting, PATIENCE_SECONDS)


async def test_a_person_is_told_that_nats_is_away(nats_server: NatsServer) -> None:
    nats_server.kill()
    with pytest.raises(BusUnavailable):
        async with connect_nats(Settings(nats_url=nats_server.url), "cli", within_seconds=0.5):
            pytest.fail("connected to nobody")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Settings(nats_creds="/no/such/file"), "WEIR_NATS_CREDS"),
        (Settings(nats_ca="/no/such/file"), "WEIR_NATS_CA"),
        (Settings(nats_url="nats://[bad"), "WEIR_NATS_URL"),
    ],
)
async def test_what_cannot_be_read_is_told_by_its_variable(settings: Settings, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        async with connect_nats(settings, "handlers"):
            pytest.fail("connected with nothing")


async def test_a_certificate_that_is_none_is_told_by_its_variable(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(SettingsError, match="WEIR_NATS_CA"):
        async with connect_nats(Settings(nats_ca=str(path)), "handlers"):
            pytest.fail("connected with nothing")


@pytest.mark.parametrize(
    ("urls", "shown"),
    [
        ("nats://a:4222", "nats://a:4222"),
        ("nats://user:p@ss@a:4222, tls://token@b", "nats://a:4222,tls://b"),
        ("user:secret@a", "a"),
    ],
)
def test_no_password_is_shown(urls: str, shown: str) -> None:
    assert public(urls) == shown
