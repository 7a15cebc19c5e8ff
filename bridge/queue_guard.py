"""
Sees to it that the queue exists, and notices when it lost what it had acknowledged.

A stream that is another one (`created`), or that counts lower than an acknowledgement did, lost
messages; a purge looks like consumption and is healed by the periodic resync.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Final

from bridge.jetstream import Bus, BusUnavailable, StreamState
from bridge.publish import Publisher
from bridge.settings import Settings
from bridge.streams import QUEUE
from bridge.telemetry import METRICS, logger
from crds.contract import Contract

_HASTE_SECONDS: Final = 0.25
"""A suspicion is looked into after so long, and no more often."""

_log = logger("queue")


class QueueGuard:
    """Watches the queue's stream and consumers, for one bridge."""

    def __init__(
        self, bus: Bus, settings: Settings, publisher: Publisher, contracts: Iterable[Contract]
    ) -> None:
        self._bus = bus
        self._seconds = settings.stream_check_seconds
        self._publisher = publisher
        self._groups = tuple(dict.fromkeys(contract.consumer for contract in contracts))
        self._created = ""
        self._trouble: str | None = "not looked at yet"

    def check(self) -> str | None:
        """Return what is wrong with the queue, None when nothing is."""
        if not self._bus.is_connected:
            return f"NATS is not connected; {self._publisher.pending} keys wait"
        return self._trouble

    async def losses(self) -> AsyncIterator[str]:
        """Yield an epoch for every loss; streams and consumers are made when missing."""
        while True:
            self._publisher.suspicion.clear()
            try:
                epoch = await self._look()
            except BusUnavailable as exc:
                self._trouble = str(exc)
            else:
                self._trouble = None
                if epoch:
                    yield epoch
            METRICS.gauge("weir_publish_pending", self._publisher.pending)
            METRICS.gauge("weir_publish_lag_seconds", self._publisher.lag_seconds())
            await self._wait()

    async def _look(self) -> str:
        """Return the epoch of a loss, empty without one."""
        acknowledged = self._publisher.sequence
        is_missing = False
        for group in self._groups:
            state = await self._bus.consumer_info(group)
            if state is None:
                is_missing = True
            else:
                METRICS.set_queue_depth(group, state.pending, state.ack_pending)
        await self._bus.declare(brings=None if self._created else "STREAM")
        stream = await self._bus.stream_info(QUEUE)
        if stream is None:
            raise BusUnavailable(f"the stream {QUEUE} cannot be made")
        loss = self._loss(stream, acknowledged, is_missing=is_missing)
        self._created = stream.created
        if loss:
            self._publisher.forget_sequence()
        if loss or self._publisher.take_overflow():
            # What both bridges notice has one epoch, so that it is published once.
            return f"{stream.created}:{loss or uuid.uuid4().hex}"
        return ""

    def _loss(self, stream: StreamState, acknowledged: int, *, is_missing: bool) -> str:
        if not self._created:
            # The first look: a bridge that starts looks at everything anyway.
            return ""
        if stream.created != self._created:
            return "made"
        if stream.last_sequence < acknowledged or self._publisher.rewound:
            return str(stream.last_sequence)
        return f"consumer:{uuid.uuid4().hex}" if is_missing else ""

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._publisher.suspicion.wait()
        except TimeoutError:
            return
        await asyncio.sleep(min(_HASTE_SECONDS, self._seconds))
