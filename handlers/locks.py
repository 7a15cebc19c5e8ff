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
    async def beside_others(self) -> AsyncIterator[None]:
        """Run beside others, never beside one that must be alone."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_alone and not self._alone_waiting)
            self._running += 1
        try:
            yield
        finally:
            async with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Run with nothing beside."""
        async with self._changed:
            self._alone_waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._is_alone and not self._running)
                self._is_alone = True
            finally:
                self._alone_waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._is_alone = False
                self._changed.notify_all()
