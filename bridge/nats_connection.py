"""The connection to NATS: its credentials, and that it heals for ever."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from bridge.jetstream import Bus, BusUnavailable
from bridge.settings import Settings, SettingsError, known_as
from bridge.telemetry import logger

CONNECT_SECONDS = 2
RECONNECT_WAIT_SECONDS = 0.25
PING_SECONDS = 5
PINGS_OUTSTANDING_MAX = 2
FILES = ("nats_creds", "nats_ca", "nats_cert", "nats_key")
"""Settings that name a file."""

log = logger(__name__)


class _Ups:
    """What is said of a connection that comes and goes."""

    def __init__(self, bus: Bus, *, is_patient: bool) -> None:
        self.bus = bus
        self.urls = public(bus.settings.nats_url)
        self.text = "no answer"
        """Why there is no connection, in the words of the last try."""
        self.has_connected = False
        self._has_said = not is_patient

    async def on_error(self, exc: Exception) -> None:
        self.text = str(exc) or type(exc).__name__
        if self.has_connected or self._has_said:
            log.debug("nats error", action="nats", error=self.text)
            return
        self._has_said = True
        log.warning(
            "NATS cannot be reached; trying for ever",
            action="nats",
            urls=self.urls,
            error=self.text,
        )

    async def on_down(self) -> None:
        if self.has_connected:
            log.warning("connection to NATS lost", action="nats", urls=self.urls)

    async def on_up(self) -> None:
        log.info("connected to NATS again", action="nats")
        for call in self.bus.on_reconnect:
            await call()


@asynccontextmanager
async def connect_nats(
    settings: Settings, component: str, *, within_seconds: float | None = None
) -> AsyncIterator[Bus]:
    """
    Give a connection that heals itself, waiting for the first contact as long as it takes.

    A command, for which a person waits, gives `within_seconds`. Raises BusUnavailable where the
    first contact takes longer, SettingsError where the credentials, the certificates or the URL
    cannot be read.
    """
    client = Client()
    ups = _Ups(Bus(client, settings), is_patient=within_seconds is None)
    options = _options(settings, component, ups)
    # With attempts without end this returns only once connected; on_error says that it waits.
    try:
        async with asyncio.timeout(within_seconds):
            await client.connect(**options)
    except asyncio.CancelledError:
        await _close(client)
        raise
    except TimeoutError as exc:
        await _close(client)
        raise BusUnavailable(ups.text) from exc
    except (nats.errors.Error, ValueError) as exc:
        named = known_as("nats_url")
        raise SettingsError(f"{named}={ups.urls}: {exc}; use nats://HOST:PORT") from exc
    ups.has_connected = True
    try:
        yield ups.bus
    finally:
        # What is closed on purpose is not lost.
        ups.has_connected = False
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            await asyncio.wait_for(client.flush(timeout=1), 2)
        await _close(client)


def _options(settings: Settings, component: str, ups: _Ups) -> dict[str, Any]:
    return {
        "servers": [url.strip() for url in settings.nats_url.split(",")],
        "name": f"weir-{component} {settings.identity}",
        "inbox_prefix": f"_INBOX_{component}",
        # The default gives up after two minutes.
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_WAIT_SECONDS,
        "connect_timeout": CONNECT_SECONDS,
        "ping_interval": PING_SECONDS,
        "max_outstanding_pings": PINGS_OUTSTANDING_MAX,
        "error_cb": ups.on_error,
        "disconnected_cb": ups.on_down,
        "reconnected_cb": ups.on_up,
        **_credentials(settings),
    }


def public(urls: str) -> str:
    """Return NATS URLs without the user, password or token that they may hold."""
    return ",".join(
        f"{scheme}{mark}{rest.rpartition('@')[2]}"
        for scheme, mark, rest in (url.strip().rpartition("://") for url in urls.split(","))
    )


async def _close(client: Client) -> None:
    with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
        await asyncio.wait_for(client.close(), 2)


def _credentials(settings: Settings) -> dict[str, Any]:
    """Return who we are to NATS; raise SettingsError, naming the file, for what cannot be used."""
    for field in FILES:
        if path := getattr(settings, field):
            try:
                Path(path).read_bytes()
            except OSError as exc:
                reason = exc.strerror or exc
                raise SettingsError(f"{known_as(field)}={path}: cannot be read: {reason}") from exc
    given: dict[str, Any] = {}
    if settings.nats_creds:
        given["user_credentials"] = settings.nats_creds
    if settings.nats_ca or settings.nats_cert:
        try:
            context = ssl.create_default_context(cafile=settings.nats_ca or None)
            if settings.nats_cert:
                context.load_cert_chain(settings.nats_cert, keyfile=settings.nats_key or None)
        except (OSError, ssl.SSLError) as exc:
            names = ", ".join(known_as(field) for field in FILES[1:] if getattr(settings, field))
            raise SettingsError(f"no certificates, or none that fit: {names}: {exc}") from exc
        given["tls"] = context
    return given
