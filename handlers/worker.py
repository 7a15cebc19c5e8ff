"""
Take messages and carry each through its reconcile: bounded, and one at a time per object.

lock (this process) -> lease (all processes) -> attempt. A process that stops gives back what it
holds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType

from bridge.events import ObjectKey
from bridge.jetstream import Bus, BusError
from bridge.telemetry import bound, logger
from handlers.attempt import UNSETTLED_RETRY_SECONDS, Attempt, Workplace
from handlers.breaker import Breaker
from handlers.children import World
from handlers.handler import AnyHandler
from handlers.history import History
from handlers.lease import Leases
from handlers.limit import ConcurrencyLimit
from handlers.locks import KeyLocks, Solitude
from handlers.queue import Delivery, Pull
from handlers.reconcile import DUE

CUT_SECONDS = 1.0
"""A reconcile that is cut has so long to come to its next write and give its message back."""
TAKE_SECONDS = 1.0
"""How long a worker waits for a message before it looks around."""

log = logger(__name__)


class Worker:
    """The reconciles of one group of kinds in one process."""

    def __init__(
        self,
        group: str,
        handlers: Mapping[str, AnyHandler],
        world: World,
        leases: Leases,
        breakers: Mapping[str, Breaker],
    ) -> None:
        """Take the group's handlers by kind (lower case) and what they work with."""
        self._handlers = handlers
        self._bus: Bus = leases.bus
        self._settings = world.settings
        self._leases = leases
        self._breakers = breakers
        self._locks = KeyLocks()
        self._solitude = Solitude()
        self._pull = Pull(self._bus, group)
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_hand: Counter[ObjectKey] = Counter()
        """Deliveries by object: one of each runs, and others wait for it."""
        self._growing: dict[ObjectKey, Delivery] = {}
        """By object, the delivery that waits for it and absorbs what comes meanwhile."""
        self._stopping = asyncio.Event()
        self._is_cut = False
        self._limit = ConcurrencyLimit(
            self._settings.concurrency, self._settings.write_timeout_seconds
        )
        self._workplace = Workplace(
            bus=self._bus,
            world=world,
            history=History(self._bus, world.identity),
            breakers=breakers,
            limit=self._limit,
            is_cut=lambda: self._is_cut,
        )

    async def run(self) -> None:
        """Fetch and handle until `stop` is called; then finish what is in hand, or give it back."""
        await self._pull.start()
        try:
            while not self._stopping.is_set():
                await self._fetch()
        finally:
            await self._pull.stop()
            await self._finish()

    def stop(self) -> None:
        """Fetch no more."""
        self._stopping.set()
        self._pull.wake()

    async def _fetch(self) -> None:
        for breaker in self._breakers.values():
            if breaker.open_since is not None:
                await self._sit_out(breaker)
                return
        if self._pull.is_missing:
            await self._declare()
        free = self._limit.allowed - len(self._in_hand) - self._pull.owed
        if free > 0:
            await self._pull.ask(free)
        delivery = await self._pull.take(TAKE_SECONDS)
        if delivery is None:
            return
        key = delivery.key
        is_full = len(self._in_hand) >= self._limit.allowed and key not in self._in_hand
        if is_full or self._stopping.is_set():
            await delivery.give_back(0)
            return
        if key in self._growing and self._growing[key].absorb(delivery):
            return
        task = asyncio.create_task(self._handle(delivery))
        self._tasks.add(task)
        self._in_hand[key] += 1
        if delivery.event.type not in DUE:
            self._growing[key] = delivery
        task.add_done_callback(partial(self._done, delivery))

    async def _sit_out(self, breaker: Breaker) -> None:
        """Leave what was asked for before the backend went to handlers that still reach it."""
        closing = asyncio.create_task(breaker.closed())
        closing.add_done_callback(lambda _: self._pull.wake())
        while not closing.done() and not self._stopping.is_set():
            delivery = await self._pull.take(TAKE_SECONDS)
            if delivery is not None:
                await delivery.give_back(0)
        closing.cancel()

    def _done(self, delivery: Delivery, task: asyncio.Task[None]) -> None:
        key = delivery.key
        self._tasks.discard(task)
        self._stop_growing(delivery)
        self._in_hand[key] -= 1
        if not self._in_hand[key]:
            del self._in_hand[key]
        self._pull.wake()
        if not task.cancelled() and (exc := task.exception()) is not None:
            log.error("delivery not settled", action="worker", exception=exc)

    async def _declare(self) -> None:
        """Make the consumer again; somebody deleted it."""
        try:
            await self._bus.declare()
        except BusError as exc:
            log.warning("streams cannot be declared", action="declare", error=str(exc))
        await asyncio.sleep(min(1.0, self._settings.stream_check_seconds))

    async def _finish(self) -> None:
        """Let reconciles end; after `shutdown_seconds` cut them between two writes."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=self._settings.shutdown_seconds)
        self._is_cut = True
        if late:
            log.warning("reconciles are cut", action="stop", count=len(late))
            await asyncio.wait(late, timeout=CUT_SECONDS)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)

    async def _handle(self, delivery: Delivery) -> None:
        """Settle one delivery, whatever happens."""
        key = delivery.key
        handler = self._handlers.get(key.kind)
        if handler is None:
            # A newer version's kind: its handlers share our consumer, and will meet the message.
            self._stop_growing(delivery)
            await delivery.give_back(self._settings.other_renderer_seconds)
            return
        with bound(kind=key.kind, namespace=key.namespace, name=key.name):
            async with AsyncExitStack() as held:
                held.push_async_exit(partial(_give_back_when_cut, delivery))
                await held.enter_async_context(self._beating(delivery))
                await held.enter_async_context(self._locked(delivery))
                # Its turn first: what waits here when the process dies holds no lease, so it was
                # not run and becomes no suspect.
                turn = await held.enter_async_context(self._solitude.turn())
                try:
                    lease = await self._leases.acquire(key, delivery.sequence)
                    if lease is None:
                        await delivery.give_back(self._conflict_seconds(delivery.delivered))
                        return
                except BusError as exc:
                    log.debug("no lease", action="lease", error=str(exc))
                    await delivery.give_back(UNSETTLED_RETRY_SECONDS)
                    return
                attempt = Attempt(delivery, lease, turn, handler, self._workplace)
                try:
                    await attempt.run()
                finally:
                    await self._leases.release(lease)

    @asynccontextmanager
    async def _locked(self, delivery: Delivery) -> AsyncIterator[None]:
        """The object is nobody else's in this process; until it is, the delivery absorbs."""
        async with self._locks.held(delivery.key):
            self._stop_growing(delivery)
            yield

    def _stop_growing(self, delivery: Delivery) -> None:
        """What comes from now on was not read by the look that begins: it gets one of its own."""
        if self._growing.get(delivery.key) is delivery:
            del self._growing[delivery.key]

    @asynccontextmanager
    async def _beating(self, delivery: Delivery) -> AsyncIterator[None]:
        """Keep the message ours while it waits for its lock and while it is worked on."""

        async def beats() -> None:
            while True:
                await asyncio.sleep(self._settings.lease_renew_seconds)
                await delivery.beat()

        task = asyncio.create_task(beats())
        try:
            yield
        finally:
            task.cancel()

    def _conflict_seconds(self, delivered: int) -> float:
        doubled = self._settings.conflict_backoff_seconds * 2.0 ** min(delivered - 1, 20)
        return min(self._settings.conflict_backoff_max_seconds, doubled)


async def _give_back_when_cut(
    delivery: Delivery,
    _: type[BaseException] | None,
    exc: BaseException | None,
    __: TracebackType | None,
) -> None:
    """A delivery whose task is cancelled, wherever it waited, is another's at once."""
    if isinstance(exc, asyncio.CancelledError):
        await delivery.give_back(0)
