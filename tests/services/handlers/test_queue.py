"""The pull consumer, timers, state and marks on a real nats-server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from bridge import streams
from bridge.events import STATE_SUBJECT, WORK_SUBJECT, ChangeEvent, EventType, ObjectKey, encode
from bridge.jetstream import Bus, BusUnavailable
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from handlers.cli.devstack.nats_server import NatsServer
from handlers.dead import bury, exhume
from handlers.inferadeployment import HANDLER
from handlers.queue import EXPIRES_SECONDS, Pull
from handlers.renderers import mark
from handlers.state import EMPTY, FailState, load_state, save_state
from handlers.suspects import acquit, crashes_to_convict, is_storm
from tests.stack.eventually import PATIENCE_SECONDS, eventually

GROUP = "kubernetes"
KEY = ObjectKey("inferadeployment", "a", "chat")
TIMER = f"weir.t.{KEY.token}"
NEVER_SECONDS = 600.0
"""What comes sooner than that has not come because nobody answered for it."""


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    settings = Settings(nats_url=nats_server.url, ack_wait_seconds=NEVER_SECONDS)
    async with connect_nats(settings, "handlers") as bus:
        await bus.declare()
        yield bus


@pytest.fixture
async def pull(bus: Bus) -> AsyncIterator[Pull]:
    pull = Pull(bus, GROUP)
    await pull.start()
    yield pull
    await pull.stop()


async def _publish(bus: Bus, *names: str) -> None:
    for name in names:
        key = ObjectKey(KEY.kind, KEY.namespace, name)
        event = ChangeEvent(key=key, type=EventType.CHANGED, id=f"{key.token}:u:1")
        headers, payload = encode(event)
        await bus.publish(f"{WORK_SUBJECT}.{key.token}.0", payload, headers=headers)


async def _is_empty(bus: Bus) -> bool:
    state = await bus.consumer_info(GROUP)
    return state is not None and state.pending == state.ack_pending == 0


async def test_never_more_comes_than_was_asked_for(bus: Bus, pull: Pull) -> None:
    await _publish(bus, *(f"n{number}" for number in range(10)))
    await pull.ask(3)
    assert pull.owed == 3
    got = [await pull.take(PATIENCE_SECONDS) for _ in range(3)]
    assert all(got)
    assert pull.owed == 0
    assert await pull.take(0.3) is None

    await pull.ask(2)
    await pull.ask(1)
    assert all([await pull.take(PATIENCE_SECONDS) for _ in range(3)])
    assert await pull.take(0.3) is None


async def test_a_standing_request_is_answered_when_a_message_comes(bus: Bus, pull: Pull) -> None:
    await pull.ask(1)
    taking = asyncio.create_task(pull.take(PATIENCE_SECONDS))
    await _publish(bus, "late")
    delivery = await taking
    assert delivery is not None
    assert delivery.key.name == "late"
    assert delivery.event.type is EventType.CHANGED
    assert delivery.delivered == 1
    await delivery.acknowledge()
    await eventually(lambda: _is_empty(bus))


async def test_what_is_given_back_comes_again_after_its_time(bus: Bus, pull: Pull) -> None:
    await _publish(bus, "x")
    await pull.ask(2)
    delivery = await pull.take(PATIENCE_SECONDS)
    assert delivery is not None
    started = time.monotonic()
    await delivery.give_back(0.4)
    again = await pull.take(PATIENCE_SECONDS)
    assert again is not None
    assert again.delivered == 2
    assert time.monotonic() - started >= 0.35

    await pull.ask(1)
    await again.give_back(0)
    third = await pull.take(PATIENCE_SECONDS)
    assert third is not None
    assert third.delivered == 3


async def test_a_look_at_more_still_knows_that_what_was_lacking_may_be_there(
    bus: Bus, pull: Pull
) -> None:
    events = {"0": EventType.REFERRED, "1": EventType.RESYNC}
    for slot, type_ in events.items():
        headers, payload = encode(ChangeEvent(key=KEY, type=type_, id=f"{KEY.token}:{slot}"))
        await bus.publish(f"{WORK_SUBJECT}.{KEY.token}.{slot}", payload, headers=headers)
    await pull.ask(2)
    found = [await pull.take(PATIENCE_SECONDS) for _ in events]
    pair = {one.event.type: one for one in found if one is not None}
    resync, referred = pair[EventType.RESYNC], pair[EventType.REFERRED]
    assert (resync.is_referred, referred.is_referred) == (False, True)
    assert resync.absorb(referred)
    assert resync.event.type is EventType.RESYNC
    assert resync.is_referred
    await resync.acknowledge()


async def test_what_answers_for_others_answers_for_all_of_them(bus: Bus, pull: Pull) -> None:
    events = {"0": EventType.CHANGED, "1": EventType.CHANGED, "2": EventType.OBSERVED}
    for slot, type_ in events.items():
        headers, payload = encode(ChangeEvent(key=KEY, type=type_, id=f"{KEY.token}:{slot}"))
        await bus.publish(f"{WORK_SUBJECT}.{KEY.token}.{slot}", payload, headers=headers)
    await pull.ask(6)
    first, second, third = [await pull.take(PATIENCE_SECONDS) for _ in range(3)]
    assert first is not None and second is not None and third is not None  # noqa: PT018 - for mypy
    assert third.absorb(first)
    assert third.event.type is EventType.CHANGED
    assert third.absorb(second)
    await third.give_back(0)
    again = [await pull.take(PATIENCE_SECONDS) for _ in range(3)]
    assert [delivery.delivered for delivery in again if delivery] == [2, 2, 2]
    one, *others = [delivery for delivery in again if delivery]
    for other in others:
        assert one.absorb(other)
    assert one.delivered == 2
    await one.acknowledge()
    await eventually(lambda: _is_empty(bus))


async def test_a_message_in_work_is_nobody_elses_and_a_silent_one_comes_again(
    nats_server: NatsServer,
) -> None:
    ack_wait_seconds = 3.0
    settings = Settings(nats_url=nats_server.url, ack_wait_seconds=ack_wait_seconds)
    async with connect_nats(settings, "handlers") as bus:
        await bus.declare()
        pull = Pull(bus, GROUP)
        await pull.start()
        await _publish(bus, "x")
        await pull.ask(2)
        delivery = await pull.take(PATIENCE_SECONDS)
        assert delivery is not None
        again = None
        said = begun = time.monotonic()
        while again is None and said < begun + ack_wait_seconds:
            again = await pull.take(0.5)
            said = time.monotonic()
            await delivery.beat()
        again = again or await pull.take(PATIENCE_SECONDS)
        assert again is not None
        assert (again.sequence, again.delivered) == (delivery.sequence, 2)
        assert time.monotonic() - said >= ack_wait_seconds
        await pull.stop()


async def test_a_subject_that_names_nothing_is_dropped(bus: Bus, pull: Pull) -> None:
    await bus.publish(f"{WORK_SUBJECT}.{KEY.kind}.too.many.tokens.0")
    await bus.publish(f"{WORK_SUBJECT}.{KEY.kind}.few")
    await _publish(bus, "good")
    await pull.ask(3)
    delivery = await pull.take(PATIENCE_SECONDS)
    assert delivery is not None
    assert delivery.key.name == "good"
    await delivery.acknowledge()
    await eventually(lambda: _is_empty(bus))


async def test_a_hint_that_makes_no_sense_costs_nothing_but_the_hint(bus: Bus, pull: Pull) -> None:
    subject = f"{WORK_SUBJECT}.{KEY.token}.0"
    await bus.publish(subject, b"\xff[", headers={"ce-type": "x", "traceparent": "\u00fc"})
    await pull.ask(1)
    delivery = await pull.take(PATIENCE_SECONDS)
    assert delivery is not None
    assert delivery.key == KEY
    assert delivery.event.children == ()


async def test_credit_comes_back_with_the_connection(
    bus: Bus, pull: Pull, nats_server: NatsServer
) -> None:
    asked = time.monotonic()
    await pull.ask(16)
    nats_server.restart()
    # A wake-up, and nothing that waits for the request to expire.
    await eventually(lambda: bus.is_connected and pull.owed <= 1)
    assert time.monotonic() - asked < EXPIRES_SECONDS

    async def arrives() -> bool:
        try:
            await _publish(bus, "after")
        except BusUnavailable:
            return False
        return True

    await pull.ask(1)
    await eventually(arrives)
    await pull.ask(1)
    delivery = await eventually(lambda: pull.take(PATIENCE_SECONDS))
    assert delivery is not None
    assert delivery.key.name == "after"


async def test_a_consumer_that_was_deleted_is_noticed_and_works_once_made_again(
    bus: Bus, pull: Pull
) -> None:
    consumer = f"{streams.QUEUE}.{streams.consumer_name(GROUP)}"

    async def stands() -> bool:
        return bool((await bus.api(f"CONSUMER.INFO.{consumer}") or {})["num_waiting"])

    await pull.ask(4)
    await eventually(stands)
    await bus.api(f"CONSUMER.DELETE.{consumer}")
    await eventually(lambda: pull.is_missing)
    assert pull.owed <= 1  # a wake-up

    while await pull.take(0.05) is not None:
        pass
    await pull.ask(4)  # there is nobody to ask
    await eventually(lambda: pull.is_missing)

    await bus.declare()
    await _publish(bus, "x")
    await pull.ask(1)
    assert await eventually(lambda: pull.take(PATIENCE_SECONDS))


async def test_what_nobody_took_is_given_back_at_the_stop(bus: Bus) -> None:
    pull = Pull(bus, GROUP)
    await pull.start()
    await _publish(bus, "x")
    await pull.ask(1)
    await eventually(lambda: pull.owed == 1 and not pull._arrived.empty())
    await pull.stop()

    other = Pull(bus, GROUP)
    await other.start()
    await other.ask(1)
    given = await other.take(PATIENCE_SECONDS)
    assert given is not None
    assert given.delivered == 2
    await other.stop()


# ---------------------------------------------------------------------------------- state


async def test_state_is_remembered_replaced_and_forgotten(bus: Bus) -> None:
    assert await load_state(bus, KEY) == EMPTY
    state = FailState(uid="u", generation=2, failures=3, error="x: y", retry_at=7.5)
    await save_state(bus, KEY, state)
    assert await load_state(bus, KEY) == state
    await save_state(bus, KEY, FailState(uid="u", failures=4))
    assert (await load_state(bus, KEY)).failures == 4
    await save_state(bus, KEY, EMPTY)
    assert await load_state(bus, KEY) == EMPTY
    assert await bus.last(streams.STATE, f"{STATE_SUBJECT}.{KEY.token}") is None


async def test_state_goes_by_itself_in_the_end(bus: Bus) -> None:
    await save_state(bus, KEY, FailState(failures=1))
    stored = await bus.last(streams.STATE, f"{STATE_SUBJECT}.{KEY.token}")
    assert stored is not None
    assert stored.headers["Nats-TTL"] == "3600s"


@pytest.mark.parametrize("payload", [b"", b"\xff", b"{", b'{"failures":"x"}', b"[1]"])
async def test_a_state_that_cannot_be_read_is_none(bus: Bus, payload: bytes) -> None:
    await bus.publish(f"{STATE_SUBJECT}.{KEY.token}", payload)
    assert await load_state(bus, KEY) == EMPTY


async def test_a_state_stream_that_is_missing_is_no_state(bus: Bus) -> None:
    await bus.api(f"STREAM.DELETE.{streams.STATE}")
    assert await load_state(bus, KEY) == EMPTY


async def test_a_dead_letter_lies_until_it_is_taken_out(bus: Bus) -> None:
    state = FailState(uid="u", generation=2, failures=10, error="boom", since=1.0)
    await bury(bus, KEY, state, "ValueError", "me")
    await bury(bus, KEY, state, "TypeError", "me")
    stored = await bus.last(streams.DEAD, f"weir.d.{KEY.token}")
    assert stored is not None
    assert b"TypeError" in stored.payload
    await exhume(bus, KEY)
    await exhume(bus, KEY)
    assert await bus.last(streams.DEAD, f"weir.d.{KEY.token}") is None


async def test_the_mark_of_a_renderer_goes_with_its_last_holder(bus: Bus) -> None:
    """What such a header does is shown by `test_renderer_marks.py`."""
    await mark(bus, [HANDLER])
    subject = f"{STATE_SUBJECT}._renderer.inferadeployment.{HANDLER.renderer}"
    stored = await bus.last(streams.STATE, subject)
    assert stored is not None
    assert stored.headers["Nats-TTL"] == "60s"


async def test_a_suspect_that_lived_makes_three_deaths_too_few_for_a_while(bus: Bus) -> None:
    assert (await crashes_to_convict(bus), await is_storm(bus)) == (3, False)
    await acquit(bus)
    await acquit(bus)
    assert (await crashes_to_convict(bus), await is_storm(bus)) == (10, True)
    for token, seconds in (("_acquitted", "600s"), ("_acquitted-lately", "60s")):
        stored = await bus.last(streams.STATE, f"{STATE_SUBJECT}.{token}")
        assert stored is not None
        assert stored.headers["Nats-TTL"] == seconds

    await bus.api(f"STREAM.DELETE.{streams.STATE}")
    assert (await crashes_to_convict(bus), await is_storm(bus)) == (3, False)


# ---------------------------------------------------------------------------------- timers


async def _arm(bus: Bus, seconds: float, mark_: str) -> float:
    """Arm the one timer of the object; return when it is due."""
    due = time.time() + seconds
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(due)) + f".{int(due % 1 * 1e6):06}Z"
    headers = {
        "Nats-Schedule": f"@at {stamp}",
        "Nats-Schedule-Target": f"{WORK_SUBJECT}.{KEY.token}.t",
        "ce-type": EventType.TIMER.value,
        "ce-id": mark_,
    }
    await bus.publish(TIMER, headers=headers)
    return due


async def test_a_timer_becomes_a_message_and_arming_again_replaces_it(bus: Bus, pull: Pull) -> None:
    await pull.ask(4)
    await _arm(bus, NEVER_SECONDS, "early")
    due = await _arm(bus, 1, "late")
    delivery = await pull.take(PATIENCE_SECONDS)
    assert delivery is not None
    assert time.time() >= due
    assert delivery.key == KEY
    assert (delivery.event.type, delivery.event.id) == (EventType.TIMER, "late")
    await delivery.acknowledge()

    async def is_armed_no_more() -> bool:
        return await bus.last(streams.QUEUE, TIMER) is None

    await eventually(is_armed_no_more)


async def test_a_timer_outlives_its_server(bus: Bus, pull: Pull, nats_server: NatsServer) -> None:
    await _arm(bus, 1.0, "x")
    nats_server.restart()
    await eventually(lambda: bus.is_connected)

    async def fires() -> bool:
        await pull.ask(1)
        return await pull.take(0.5) is not None

    await eventually(fires)
