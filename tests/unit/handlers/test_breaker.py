"""Open while the backend does not answer, closed by its first answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handlers.breaker import Breaker
from tests.stack.eventually import PATIENCE_SECONDS


class FakeBackend:
    """Does not answer so many times, and answers from then on."""

    def __init__(self, *, silent_times: int = 0) -> None:
        self._silent_times = silent_times
        self.asked = asyncio.Event()
        self.times = 0

    async def answers(self) -> bool:
        """Say whether it answers now."""
        self.times += 1
        self.asked.set()
        return self.times > self._silent_times


@asynccontextmanager
async def _running(backend: FakeBackend) -> AsyncIterator[Breaker]:
    breaker = Breaker("kubernetes", backend.answers)
    task = asyncio.create_task(breaker.run())
    try:
        yield breaker
    finally:
        task.cancel()


async def test_a_closed_breaker_asks_nothing_and_holds_nobody_up() -> None:
    backend = FakeBackend()
    async with _running(backend) as breaker, asyncio.timeout(PATIENCE_SECONDS):
        await breaker.closed()
        await asyncio.sleep(0)
    assert breaker.open_since is None
    assert backend.times == 0


async def test_the_first_answer_closes_it_again() -> None:
    backend = FakeBackend()
    async with _running(backend) as breaker, asyncio.timeout(PATIENCE_SECONDS):
        before = time.time()
        breaker.trip("connection lost")
        assert breaker.open_since is not None
        assert before <= breaker.open_since <= time.time()
        await breaker.closed()
    assert breaker.open_since is None
    assert backend.times == 1


async def test_it_stays_open_until_there_is_an_answer_and_remembers_since_when() -> None:
    backend = FakeBackend(silent_times=1)
    async with _running(backend) as breaker, asyncio.timeout(PATIENCE_SECONDS):
        breaker.trip("connection lost")
        since = breaker.open_since
        await backend.asked.wait()
        breaker.trip("another request failed too")
        assert breaker.open_since == since
        await breaker.closed()
    assert backend.times == 2


async def test_it_opens_as_often_as_the_backend_goes() -> None:
    backend = FakeBackend()
    async with _running(backend) as breaker, asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(2):
            breaker.trip("connection lost")
            await breaker.closed()
            assert breaker.open_since is None
    assert backend.times == 2
