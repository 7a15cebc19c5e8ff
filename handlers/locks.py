"""Exclusion inside one process: a lock per key, and a run that nothing else runs beside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridge.events import ObjectKey


class KeyLocks:
    """A lock per object, in existence only while somebody holds or awaits it."""

    def __init__(self) -> None:
        """Start with none."""
        self._locks: dict[ObjectKey, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def held(self, key: ObjectKey) -> AsyncIterator[None]:
        """The object is nobody else's in this process inside; waiters are served in order."""
        lock, waiters = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, waiters + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiters = self._locks[key]
            if waiters == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, waiters - 1)


class Solitude:
    """
    Many runs beside each other, or one alone.

    A crash suspect runs alone, so that only it can be blamed for the death of the process. While
    one waits for its turn no other run begins, or it would wait for ever.
    """

    def __init__(self) -> None:
        """Start with nothing running."""
        self._changed = asyncio.Condition()
        self._running = 0
        self._alone_waiting = 0
        self._is_alone = False

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Run beside others inside, and alone from the moment that the turn is made so."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_alone and not self._alone_waiting)
            self._running += 1
        turn = Turn(self)
        try:
            yield turn
        finally:
            async with self._changed:
                if turn.is_alone:
                    self._is_alone = False
                elif turn.is_beside_others:
                    self._running -= 1
                self._changed.notify_all()

    async def isolate(self, turn: Turn) -> None:
        """Nothing runs beside the turn any more; it steps back while it waits for that."""
        async with self._changed:
            turn.is_beside_others = False
            self._running -= 1
            self._alone_waiting += 1
            self._changed.notify_all()
            try:
                await self._changed.wait_for(lambda: not self._is_alone and not self._running)
                turn.is_alone = self._is_alone = True
            finally:
                self._alone_waiting -= 1
                self._changed.notify_all()


class Turn:
    """One run's place among the others."""

    def __init__(self, solitude: Solitude) -> None:
        """Take where it runs, beside others."""
        self._solitude = solitude
        self.is_beside_others = True
        self.is_alone = False

    async def alone(self) -> None:
        """Return when nothing runs beside, and nothing will."""
        await self._solitude.isolate(self)
