"""Leases on a real nats-server: one holder at a time; the next learns how the last ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from bridge.events import LEASE_SUBJECT, ObjectKey
from bridge.jetstream import BusUnavailable, StreamMissing
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from bridge.streams import LOCK
from handlers.cli.devstack.nats_server import NatsServer
from handlers.lease import Lease, Leases
from tests.faults.tcp_proxy import TcpProxy
from tests.stack.eventually import PATIENCE_SECONDS, eventually

KEY = ObjectKey("inferadeployment", "a", "chat")
SUBJECT = f"{LEASE_SUBJECT}.{KEY.token}"
LEASE_SECONDS = 300.0
"""So long that no test comes to its end."""
SOON_SECONDS = 1.0

Process = Callable[..., AbstractAsyncContextManager[Leases]]


@pytest.fixture
def process(nats_server: NatsServer) -> Process:
    """What one handlers process has, under the identity that it is given."""

    @asynccontextmanager
    async def run(
        identity: str,
        *,
        url: str = "",
        lease: float = LEASE_SECONDS,
        write: float = PATIENCE_SECONDS,
    ) -> AsyncIterator[Leases]:
        settings = Settings(
            nats_url=url or nats_server.url, lease_seconds=lease, write_timeout_seconds=write
        )
        async with connect_nats(settings, "handlers") as bus:
            await bus.declare()
            leases = Leases(bus, settings, identity)
            await leases.check()
            yield leases

    return run


async def _taken(leases: Leases, key: ObjectKey = KEY) -> Lease:
    lease = await leases.acquire(key, 1)
    assert lease is not None
    return lease


async def _answers(leases: Leases) -> bool:
    try:
        await leases.check()
    except BusUnavailable:
        return False
    return True


async def test_an_object_has_one_holder_and_a_release_leaves_nothing(process: Process) -> None:
    async with process("a") as a, process("b") as b:
        lease = await _taken(a)
        assert not lease.predecessor_died
        assert 0 < lease.seconds_left <= LEASE_SECONDS
        assert await b.acquire(KEY, 2) is None
        assert await b.acquire(ObjectKey("inferadeployment", "a", "other"), 3) is not None

        await a.release(lease)
        assert lease.seconds_left == 0
        assert await a.bus.last(LOCK, SUBJECT) is None
        assert not (await _taken(b)).predecessor_died


async def test_of_many_that_ask_at_once_one_gets_it(process: Process) -> None:
    async with process("a") as a, process("b") as b, process("c") as c:
        for _ in range(5):
            got = await asyncio.gather(*(leases.acquire(KEY, 1) for leases in (a, b, c)))
            held = [(one, lease) for one, lease in zip((a, b, c), got, strict=True) if lease]
            assert len(held) == 1
            await held[0][0].release(held[0][1])


async def test_a_renewed_lease_outlives_its_time(process: Process) -> None:
    async with process("a", lease=5) as a, process("b") as b:
        lease = await _taken(a)
        keeping = asyncio.create_task(lease.keep(0.5))
        begun = time.monotonic()
        while time.monotonic() < begun + 5:
            await asyncio.sleep(0.5)
            if await b.acquire(KEY, 2) is not None:
                assert lease.seconds_left <= 0
        assert lease.seconds_left > 0
        keeping.cancel()


async def test_the_next_holder_learns_that_the_last_one_never_let_go(process: Process) -> None:
    async with process("a", lease=SOON_SECONDS) as a, process("b") as b:
        lease = await _taken(a)
        found = await eventually(lambda: b.acquire(KEY, 2))
        assert found is not None
        assert found.predecessor_died
        assert lease.seconds_left <= 0
        await lease.renew()
        await a.release(lease)
        assert await a.acquire(KEY, 3) is None, "the release of a lost lease took another's away"
        found.is_fenced = True
        await b.release(found)
        assert not (await _taken(a)).predecessor_died


async def test_a_holder_that_fenced_nothing_leaves_the_duty_to_the_next(process: Process) -> None:
    async with process("a", lease=SOON_SECONDS) as a, process("b") as b:
        await _taken(a)
        for _ in range(2):
            found = await eventually(lambda: b.acquire(KEY, 2))
            assert found is not None
            assert found.predecessor_died
            assert not found.is_fenced
            await b.release(found)


async def test_a_lease_that_the_server_forgot_to_end_locks_an_object_for_a_lease_time_only(
    process: Process,
) -> None:
    """A killed server brings back what was renewed or released, and never ends it."""
    async with process("a", lease=SOON_SECONDS) as a, process("b", lease=SOON_SECONDS) as b:
        await a.bus.publish(SUBJECT, b'{"holder":"x","incarnation":"gone","sequence":1}')
        assert await b.acquire(KEY, 2) is None
        found = await eventually(lambda: b.acquire(KEY, 2))
        assert found is not None
        assert found.predecessor_died


async def test_of_two_that_race_for_what_a_dead_one_left_one_gets_it(process: Process) -> None:
    async with process("a", lease=SOON_SECONDS) as a, process("b") as b, process("c") as c:
        await _taken(a)

        async def has_ended() -> bool:
            stored = await b.bus.last(LOCK, SUBJECT)
            return stored is not None and "Nats-Marker-Reason" in stored.headers

        await eventually(has_ended)
        got = [
            lease for lease in await asyncio.gather(b.acquire(KEY, 2), c.acquire(KEY, 2)) if lease
        ]
        assert [lease.predecessor_died for lease in got] == [True]


async def test_a_lease_ends_here_no_later_than_at_the_server(process: Process) -> None:
    async with process("a", lease=SOON_SECONDS) as a, process("b") as b:
        lease = await _taken(a)
        await eventually(lambda: b.acquire(KEY, 2), every_seconds=0.005)
        assert lease.seconds_left <= 0


async def test_what_stood_still_finds_its_lease_used_up_before_anything_else(
    process: Process, nats_server: NatsServer
) -> None:
    async with process("a", lease=SOON_SECONDS) as a:
        lease = await _taken(a)
        keeping = asyncio.create_task(lease.keep(0.2))
        nats_server.pause()
        # It ends by itself. A renewal that is answered before it gave up would have renewed.
        await keeping
        nats_server.resume()
        assert lease.seconds_left <= 0


async def test_a_renewal_in_flight_does_not_outlive_its_release(
    process: Process, nats_server: NatsServer
) -> None:
    async with TcpProxy("127.0.0.1", nats_server.port) as proxy:
        url = f"nats://127.0.0.1:{proxy.port}"
        async with process("a", url=url) as a, process("b") as b:
            lease = await _taken(a)
            proxy.delay(0.2)
            sent = proxy.counters.bytes_up
            keeping = asyncio.create_task(lease.keep(0.01))
            await eventually(lambda: proxy.counters.bytes_up > sent, every_seconds=0.01)
            keeping.cancel()
            await a.release(lease)
            assert await b.acquire(KEY, 2) is not None


async def test_a_lease_whose_answer_was_lost_is_found_again(
    process: Process, nats_server: NatsServer
) -> None:
    async with TcpProxy("127.0.0.1", nats_server.port) as proxy:
        url = f"nats://127.0.0.1:{proxy.port}"
        async with process("a", url=url, write=0.5) as a, process("b") as b:
            proxy.delay(0.4)  # each way: the request lands, and its answer is too late
            with pytest.raises(BusUnavailable):
                await a.acquire(KEY, 1)
            await eventually(lambda: b.bus.last(LOCK, SUBJECT))
            proxy.delay(0.0)
            lease = await eventually(lambda: _found(a))
            assert not lease.predecessor_died


async def _found(leases: Leases) -> Lease:
    try:
        lease = await leases.acquire(KEY, 1)
    except BusUnavailable as exc:
        raise AssertionError from exc
    assert lease is not None
    return lease


async def test_a_lease_stream_made_anew_drops_all_leases_and_gives_none_for_one_lease_time(
    process: Process,
) -> None:
    async with process("a", lease=SOON_SECONDS) as a:
        lease = await _taken(a)
        await a.bus.api(f"STREAM.DELETE.{LOCK}")
        with pytest.raises(StreamMissing):
            await a.acquire(ObjectKey("k", "a", "other"), 1)
        dropped = time.monotonic()
        await a.check()
        assert lease.seconds_left == 0
        await eventually(lambda: a.acquire(KEY, 1))
        assert time.monotonic() - dropped >= SOON_SECONDS


async def test_a_wiped_server_is_noticed_at_the_reconnect(
    process: Process, nats_server: NatsServer
) -> None:
    async with process("a") as a:
        await _taken(a, ObjectKey("k", "a", "one"))
        lease = await _taken(a)
        nats_server.wipe()
        await eventually(lambda: lease.seconds_left == 0)


async def test_a_restarted_server_keeps_every_lease(
    process: Process, nats_server: NatsServer
) -> None:
    async with process("a") as a, process("b") as b:
        lease = await _taken(a)
        nats_server.restart()
        await eventually(lambda: _answers(a))
        await eventually(lambda: _answers(b))
        assert await b.acquire(KEY, 2) is None
        await eventually(lease.renew)


async def test_many_leases_at_once_are_no_stream_that_began_anew(process: Process) -> None:
    async with process("a") as a:
        keys = [ObjectKey("k", "a", f"n{number}") for number in range(200)]
        checks = [a.check() for _ in range(20)]
        got = await asyncio.gather(*(a.acquire(key, 1) for key in keys), *checks)
        assert all(got[:200])
        assert all(lease.seconds_left > 0 for lease in got[:200] if lease)
