"""
Serves /healthz, /readyz and /metrics of either command.

/healthz answers 200 while the event loop turns: a stuck process does not answer at all, which
is what a liveness probe with a time-out sees, and one that was stuck since the last probe says so
once. /readyz answers 503 with the name and the text of every check that fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from bridge.settings import Settings, SettingsError, known_as
from bridge.telemetry import exposition, logger

Check = Callable[[], str | None]
"""Returns what is wrong, None when nothing is."""

_TICK_SECONDS: Final = 1.0
_STUCK_SECONDS: Final = 10.0
"""A loop that did not turn for so long starves leases and watches."""

_log = logger("health")


class _Pulse:
    """Knows how late the event loop was at worst since this was last asked."""

    def __init__(self, tick_seconds: float) -> None:
        self._tick_seconds = tick_seconds
        self._due = time.monotonic() + tick_seconds
        self._worst_seconds = 0.0

    async def beat(self) -> None:
        while True:
            self._due = time.monotonic() + self._tick_seconds
            await asyncio.sleep(self._tick_seconds)
            # Kept, because a loop that comes to turn again beats before it takes a connection.
            self._worst_seconds = max(self._worst_seconds, time.monotonic() - self._due)

    def stuck_seconds(self) -> float:
        now = time.monotonic()
        worst = max(self._worst_seconds, now - self._due)
        self._worst_seconds, self._due = 0.0, max(self._due, now)
        return worst


@asynccontextmanager
async def serve_health(
    settings: Settings,
    checks: Mapping[str, Check],
    *,
    tick_seconds: float = _TICK_SECONDS,
    stuck_seconds: float = _STUCK_SECONDS,
) -> AsyncIterator[tuple[str, int] | None]:
    """
    The three paths are served at `settings.http` inside; yields host and port, None when off.

    Raises SettingsError when that is no address or nobody may listen there.
    """
    if settings.http == "off":
        yield None
        return
    host, port = _address(settings.http)
    pulse = _Pulse(tick_seconds)
    # Nothing that a probe or a scraper holds open may delay the end of the process.
    application = _application(pulse, stuck_seconds, checks)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    beating = asyncio.create_task(pulse.beat(), name="pulse")
    try:
        yield await _listen(runner, host, port, settings.http)
    finally:
        beating.cancel()
        await runner.cleanup()


async def _listen(
    runner: web.AppRunner, host: str | None, port: int, given: str
) -> tuple[str, int]:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as exc:
        raise SettingsError(
            f"{known_as('http')}={given}: {exc.strerror or exc}; give another address, "
            f"port 0 for any free one, or `off`"
        ) from exc
    served_host, served_port = runner.addresses[0][:2]
    _log.info("health is served", host=served_host, port=served_port)
    return served_host, served_port


def _address(text: str) -> tuple[str | None, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - TCP's last port
        raise SettingsError(
            f"{known_as('http')}={text}: must be `host:port`, `:port` for all addresses, or `off`"
        )
    return host.removeprefix("[").removesuffix("]") or None, int(port)


def _application(
    pulse: _Pulse, stuck_seconds: float, checks: Mapping[str, Check]
) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        if (stuck := pulse.stuck_seconds()) > stuck_seconds:
            return web.Response(status=503, text=f"the event loop stood for {stuck:.0f} s\n")
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        failing = {name: wrong for name, check in checks.items() if (wrong := check())}
        if failing:
            lines = (f"{name}: {wrong}\n" for name, wrong in failing.items())
            return web.Response(status=503, text="".join(lines))
        return web.Response(text="ok\n")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    return application
