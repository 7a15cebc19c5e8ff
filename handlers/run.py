"""
One handlers process: connections, workers, and the tasks that keep watch; until SIGTERM.

Stateless: whatever dies here is taken up by another after one lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import uvloop

from bridge import telemetry
from bridge.garbage import collect_seldom
from bridge.health import Check, serve_health
from bridge.jetstream import Bus, BusError, BusUnavailable
from bridge.kube import UNAUTHORIZED, Kube, connect_kube
from bridge.kube_errors import KubeError, Unavailable
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from bridge.telemetry import METRICS, logger
from handlers.breaker import Breaker
from handlers.budget import take_token, unlimited
from handlers.children import World
from handlers.errors import KUBERNETES
from handlers.handler import AnyHandler, Facts
from handlers.lease import Leases
from handlers.pause import Brake
from handlers.renderers import keep_marked, newest_renderer
from handlers.worker import Worker

COMPONENT = "handlers"
STOP_GRACE_SECONDS = 2.0
"""After the reconciles ended or were cut, they have so long to settle."""
STREAM_MISSES_MAX = 3
"""So many failed looks at the queue in a row make the process not ready."""

log = logger(__name__)


def run_handlers(settings: Settings, handlers: tuple[AnyHandler, ...]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    collect_seldom()
    telemetry.set_up(COMPONENT, settings)
    try:
        uvloop.run(_serve(settings, handlers))
    finally:
        telemetry.shut_down()
    return 0


async def _serve(settings: Settings, handlers: tuple[AnyHandler, ...]) -> None:
    stopping = _on_signals()
    serving = asyncio.create_task(_connected(settings, handlers, stopping))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        log.info("told to stop", action="stop")
        # A process that is still connecting holds nothing, and may be cut anywhere.
        patience = settings.shutdown_seconds + STOP_GRACE_SECONDS
        done, _ = await asyncio.wait((serving,), timeout=patience)
        if not done:
            serving.cancel()
    stopped.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    # Also of a process that never came to work, as NATS was out.
    log.info("handlers stopped", action="stop")


async def _connected(
    settings: Settings, handlers: tuple[AnyHandler, ...], stopping: asyncio.Event
) -> None:
    checks: dict[str, Check] = {"start": lambda: "not connected to NATS yet"}
    async with (
        serve_health(settings, checks),
        connect_kube(settings, COMPONENT) as kube,
        _unless_stopped(connect_nats(settings, COMPONENT), stopping) as bus,
    ):
        if bus is None:
            return
        process = Process(settings, handlers, kube, bus)
        checks.update(process.checks())
        del checks["start"]
        await process.run(stopping)


@asynccontextmanager
async def _unless_stopped(
    connecting: AbstractAsyncContextManager[Bus], stopping: asyncio.Event
) -> AsyncIterator[Bus | None]:
    """Give the connection, or None where the process is told to stop before there is one."""
    entering = asyncio.ensure_future(connecting.__aenter__())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((entering, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not entering.done():
        entering.cancel()
        yield None
        return
    try:
        yield entering.result()
    finally:
        await connecting.__aexit__(None, None, None)


class Process:
    """The tasks of one handlers process."""

    def __init__(
        self, settings: Settings, handlers: tuple[AnyHandler, ...], kube: Kube, bus: Bus
    ) -> None:
        """Take the connections; nothing runs yet."""
        self._settings = settings
        self._handlers = handlers
        self._kube = kube
        self._bus = bus
        self._leases = Leases(bus, settings, settings.identity)
        self._misses = 0
        self._missing: str | None = "the queue has not been looked at yet"
        self._breaker = Breaker(KUBERNETES, self._kubernetes_answers)
        self._brake = Brake(kube, settings)
        world = World(
            kube=kube,
            settings=settings,
            facts=Facts(
                nats_default=settings.nats_default, nats_engine_url=settings.nats_engine_url
            ),
            identity=settings.identity,
            newest_renderer=partial(newest_renderer, bus),
            may_roll_out=unlimited if settings.dry_run else partial(take_token, bus),
            paused=lambda: self._brake.why,
        )
        by_kind = {handler.contract.kind.queue_name: handler for handler in handlers}
        self._workers = [
            Worker(
                group,
                {kind: by_kind[kind] for kind in kinds if kind in by_kind},
                world,
                self._leases,
                {KUBERNETES: self._breaker},
            )
            for group, kinds in bus.groups.items()
        ]

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set, then finish what is in hand."""
        await self._open()
        background = [
            asyncio.create_task(self._breaker.run()),
            asyncio.create_task(self._brake.keep_looking()),
            asyncio.create_task(self._keep_looking()),
            # What is not written needs no older handler to stand back.
            asyncio.create_task(
                keep_marked(self._bus, () if self._settings.dry_run else self._handlers)
            ),
        ]
        working = [asyncio.create_task(worker.run()) for worker in self._workers]
        stopped = asyncio.create_task(stopping.wait())
        METRICS.gauge("weir_dry_run", int(self._settings.dry_run))
        log.info(
            "handlers work",
            action="start",
            kinds=len(self._handlers),
            dry_run=self._settings.dry_run,
        )
        try:
            done, _ = await asyncio.wait(
                [stopped, *background, *working], return_when=asyncio.FIRST_COMPLETED
            )
            for worker in self._workers:
                worker.stop()
            await asyncio.gather(*working)
            for task in done - {stopped}:
                task.result()
        finally:
            for task in (*background, *working, stopped):
                task.cancel()
            await asyncio.gather(*background, *working, stopped, return_exceptions=True)

    def checks(self) -> dict[str, Check]:
        """Return what must hold for this process to be ready."""
        return {
            "nats": lambda: None if self._bus.is_connected else "not connected to NATS",
            "queue": lambda: self._missing,
            KUBERNETES: lambda: "does not answer" if self._breaker.open_since else None,
            "pause": lambda: self._brake.trouble,
        }

    async def _open(self) -> None:
        """Know whether all is paused, declare what is missing, look before the first lease."""
        await self._brake.known()
        while True:
            try:
                await self._bus.declare(brings="CONSUMER")
                await self._leases.check()
            except BusError as exc:
                log.warning("the queue is not there yet", action="start", error=str(exc))
                await asyncio.sleep(1)
            else:
                return

    async def _keep_looking(self) -> None:
        """Look at the streams and consumers, for ever: depth, loss, and repair."""
        while True:
            try:
                await self._look()
            except BusError as exc:
                self._misses += 1
                if self._misses >= STREAM_MISSES_MAX:
                    self._missing = str(exc)
                log.debug("the queue cannot be looked at", action="queue", error=str(exc))
            else:
                self._misses, self._missing = 0, None
            await asyncio.sleep(self._settings.stream_check_seconds)

    async def _look(self) -> None:
        await self._leases.check()
        for group in self._bus.groups:
            state = await self._bus.consumer_info(group)
            if state is None:
                log.warning("the consumer is missing; making it", action="declare", group=group)
                await self._bus.declare()
                state = await self._bus.consumer_info(group)
            if state is None:
                raise BusUnavailable(f"the consumer of {group} cannot be made")
            METRICS.set_queue_depth(group, state.pending, state.ack_pending)

    async def _kubernetes_answers(self) -> bool:
        """Return whether the API server serves us again; no answer does while it knows us not."""
        try:
            await self._kube.request("GET", "/readyz", timeout_seconds=3)
        except Unavailable:
            return False
        except KubeError as exc:
            return exc.status != UNAUTHORIZED
        return True


def _on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
