"""
One breaker per backend: open while the backend does not answer, closed by the first answer.

While it is open nothing is fetched that needs the backend, so its messages stay in the queue,
uncounted, and are driven again the moment it returns.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from bridge.telemetry import METRICS, logger

PROBE_SECONDS = 1.0
log = logger(__name__)


class Breaker:
    """Open or closed for one backend; `probe` returns whether it answers."""

    def __init__(self, backend: str, probe: Callable[[], Awaitable[bool]]) -> None:
        """Start closed."""
        self.backend = backend
        self.open_since: float | None = None
        """Unix time; None while closed."""
        self._probe = probe
        self._closed = asyncio.Event()
        self._closed.set()
        self._tripped = asyncio.Event()

    def trip(self, why: str) -> None:
        """Open, if it is not open already."""
        if self.open_since is None:
            self.open_since = time.time()
            self._closed.clear()
            self._tripped.set()
            METRICS.breaker(self.backend, open=True)
            log.warning("backend is out", action="breaker", backend=self.backend, error=why)

    async def closed(self) -> None:
        """Return as soon as the breaker is closed."""
        await self._closed.wait()

    async def run(self) -> None:
        """Probe while open, for ever."""
        while True:
            await self._tripped.wait()
            # A single lost connection is the usual case: ask at once, then with patience.
            wait_seconds = 0.0
            while True:
                await asyncio.sleep(wait_seconds)
                if await self._probe():
                    break
                wait_seconds = PROBE_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
            opened = self.open_since or time.time()
            self.open_since = None
            self._tripped.clear()
            self._closed.set()
            METRICS.breaker(self.backend, open=False)
            seconds = round(time.time() - opened, 3)
            log.info("backend answers", action="breaker", backend=self.backend, seconds=seconds)
