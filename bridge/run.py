"""Runs a bridge until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Final

import uvloop

from bridge import telemetry
from bridge.garbage import collect_seldom
from bridge.health import Check, serve_health
from bridge.kube import connect_kube
from bridge.nats_connection import connect_nats
from bridge.relay import Relay
from bridge.settings import Settings
from crds import KINDS

COMPONENT: Final = "bridge"

_log = telemetry.logger("bridge")


def run_bridge(settings: Settings) -> int:
    """
    Return the exit code of a bridge that was told to stop by SIGTERM or SIGINT.

    Raises SettingsError where a setting makes a start impossible.
    """
    collect_seldom()
    telemetry.set_up(COMPONENT, settings)
    try:
        uvloop.run(_until_signalled(settings))
    finally:
        telemetry.shut_down()
    return 0


async def _until_signalled(settings: Settings) -> None:
    bridge = asyncio.create_task(_bridge(settings), name="bridge")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, bridge.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await bridge
    _log.info("stopped", action="stop")


async def _bridge(settings: Settings) -> None:
    checks: dict[str, Check] = {"start": lambda: "not connected to NATS yet"}
    async with (
        serve_health(settings, checks),
        connect_kube(settings, COMPONENT) as kube,
        connect_nats(settings, COMPONENT) as bus,
    ):
        relay = Relay(kube, bus, settings, KINDS)
        checks.update(relay.checks())
        del checks["start"]
        await relay.run()
