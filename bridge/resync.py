"""When every resource is looked at although nothing was seen to change: how fast, and in turn."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable
from typing import Final

from bridge.events import ObjectKey

_SLACK_SECONDS: Final = 0.02
"""Those who would wait for less pass at once: a wake-up for each costs more than its event."""


class Pace:
    """Lets so many pass per second, whoever asks."""

    def __init__(self, rate_per_second: float) -> None:
        self._seconds = 1.0 / rate_per_second
        self._next = 0.0

    async def next(self) -> None:
        """It is the caller's turn."""
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + self._seconds
        if turn - now > _SLACK_SECONDS:
            await asyncio.sleep(turn - now)


def due_times(
    keys: Iterable[ObjectKey], epoch: int, interval_seconds: float
) -> list[tuple[float, ObjectKey]]:
    """
    Return when, in Unix time, each key is due in an epoch, in this order.

    A key has its own place in the interval, the same in every process, so that bridges that
    share the epoch publish the same id at about the same time.
    """
    begin = epoch * interval_seconds
    return sorted(
        (begin + zlib.crc32(key.token.encode()) / 2**32 * interval_seconds, key) for key in keys
    )
