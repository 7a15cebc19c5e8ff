"""
Publishes events to the queue until each is acknowledged, however long NATS is away.

An event goes to slot 0 of its key where that is empty, which keeps its place in the queue, else
to slot 1, which overwrites what waits there. What a glance may do for has slot 2 for itself: it
must not take the place of what asks for more. What cannot be sent waits here, one event per lane,
and goes when NATS is back; beyond a bounded number of lanes a resync is asked for instead.

Of two events of one lane that wait, the one that saw the later version stays. Its id is what
another bridge would publish too, and whoever published that id had seen at least as much; an
earlier id may have been published, and be dropped as a duplicate, before the later change was.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct
from opentelemetry.trace import SpanKind

from bridge.events import (
    WORK_SUBJECT,
    ChangeEvent,
    ChildHint,
    EventType,
    ObjectKey,
    encode,
)
from bridge.jetstream import Bus, BusUnavailable, PubAck, StreamMissing, WrongSequence
from bridge.telemetry import METRICS, fail_span, logger, span, traceparent

WINDOW: Final = 256
"""Publishes in flight at once; more bring nothing (measured: 64 to 4,000 are alike)."""
RESYNC_RANK: Final = -1
"""A periodic look says nothing about a version: any state that was seen says more."""
HOLDS_MAX: Final = 5
"""What is held again and again is let go after so many times as long as once, at most."""
_ACK_SECONDS: Final = 2.0
"""An answer that was lost on the way is not waited for any longer: to ask again is harmless."""
_RETRY_SECONDS: Final = 0.05
_RETRY_MAX_SECONDS: Final = 1.0

_log = logger("publish")


class Waiting(Struct, frozen=True, gc=False):
    """An event that is not yet acknowledged."""

    type: EventType
    id: str
    rank: int
    """The resourceVersion at which what the event says was seen."""
    seen: float
    """Unix time."""

    def or_later(self, other: Waiting | None) -> Waiting:
        """Return the one to publish of two for one lane; `other` came later."""
        if other is None or self.rank > other.rank:
            return self
        return Waiting(other.type, other.id, other.rank, self.seen)


async def put(bus: Bus, event: ChangeEvent) -> PubAck:
    """
    The event waits in the queue.

    In slot 0 of its key where that is empty, else over what waits in slot 1; an `observed` one over
    what waits in slot 2.
    """
    headers, payload = encode(event)
    subject = f"{WORK_SUBJECT}.{event.key.token}"
    if event.type is EventType.OBSERVED:
        return await bus.publish(
            f"{subject}.2", payload, headers=headers, timeout_seconds=_ACK_SECONDS
        )
    try:
        return await bus.publish(
            f"{subject}.0",
            payload,
            headers=headers,
            expect_last_subject_sequence=0,
            timeout_seconds=_ACK_SECONDS,
        )
    except WrongSequence:
        return await bus.publish(
            f"{subject}.1", payload, headers=headers, timeout_seconds=_ACK_SECONDS
        )


class _Lane(NamedTuple):
    """
    A key's way into the queue: slots 0 and 1, or slot 2.

    Of each one event waits at most, and one is in flight.
    """

    key: ObjectKey
    is_observed: bool


class _Held(NamedTuple):
    """An event that waits for more of its lane."""

    timer: asyncio.TimerHandle
    latest: float
    """When it goes whatever comes, by the loop's clock."""


class Publisher:
    """The way into the queue, for one bridge."""

    def __init__(
        self,
        bus: Bus,
        hint: Callable[[ObjectKey], tuple[ChildHint, ...]],
        *,
        pending_max: int,
    ) -> None:
        self.sequence = 0
        """The highest sequence that an acknowledgement gave."""
        self.suspicion = asyncio.Event()
        """Set when somebody should look at the stream now."""
        self.rewound = False
        """Whether the stream gave a sequence twice."""
        self._bus = bus
        self._hint = hint
        self._pending_max = pending_max
        self._waiting: dict[_Lane, Waiting] = {}
        self._flying: dict[_Lane, Waiting] = {}
        self._ready: deque[_Lane] = deque()
        """Lanes that wait, are not in flight and not held back, each once."""
        self._held: dict[_Lane, _Held] = {}
        """Lanes that wait for more events."""
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._landed = asyncio.Event()
        self._window = asyncio.Semaphore(WINDOW)
        self._overflowed = False
        self._down_since = 0.0
        self._failures = 0

    def offer(
        self,
        key: ObjectKey,
        type: EventType,  # noqa: A002 - CloudEvents' word
        id: str,  # noqa: A002 - CloudEvents' word
        rank: int,
        *,
        hold_seconds: float = 0.0,
    ) -> None:
        """
        The event, or one that says more, is published as soon as NATS takes it.

        One that is held back waits for others of its lane: what comes in a row is published once.
        """
        waiting = Waiting(type, id, rank, time.time())
        lane = _Lane(key, type is EventType.OBSERVED)
        before = self._waiting.get(lane)
        if before is not None:
            self._waiting[lane] = before.or_later(waiting)
            if not hold_seconds:
                self._let_go(lane)
            elif lane in self._held:
                self._hold(lane, hold_seconds)
            return
        if self.pending >= self._pending_max:
            if not self._overflowed:
                _log.warning("too many events wait; a resync follows", pending=self.pending)
            self._overflowed = True
            METRICS.count("weir_publish_overflowed")
            return
        self._waiting[lane] = waiting
        if hold_seconds:
            self._hold(lane, hold_seconds)
            self._idle.clear()
        elif lane not in self._flying:
            self._make_ready(lane)

    def _hold(self, lane: _Lane, seconds: float) -> None:
        """What waits is let go after so long from now, and HOLDS_MAX times from the first time."""
        loop = asyncio.get_running_loop()
        before = self._held.get(lane)
        latest = before.latest if before else loop.time() + HOLDS_MAX * seconds
        if before:
            before.timer.cancel()
        due = min(loop.time() + seconds, latest)
        self._held[lane] = _Held(loop.call_at(due, self._let_go, lane), latest)

    def _let_go(self, lane: _Lane) -> None:
        """What was held back is published now."""
        held = self._held.pop(lane, None)
        if held is not None:
            held.timer.cancel()
            if lane not in self._flying:
                self._make_ready(lane)

    @property
    def pending(self) -> int:
        """How many events are not acknowledged."""
        return len(self._waiting) + len(self._flying)

    def lag_seconds(self) -> float:
        """Return for how long the oldest of them has waited."""
        oldest = min(
            (waiting.seen for held in (self._flying, self._waiting) for waiting in held.values()),
            default=None,
        )
        return 0.0 if oldest is None else max(0.0, time.time() - oldest)

    async def room(self) -> None:
        """An event offered now, at once, is remembered."""
        while self.pending >= self._pending_max:
            self._landed.clear()
            await self._landed.wait()

    def take_overflow(self) -> bool:
        """Return whether an event was not remembered since the last call."""
        overflowed, self._overflowed = self._overflowed, False
        return overflowed

    async def drain(self) -> None:
        """Nothing waits afterwards."""
        for lane in tuple(self._held):
            self._let_go(lane)
        await self._idle.wait()

    def forget_sequence(self) -> None:
        """The stream is another one, or lost its end: what was acknowledged says nothing now."""
        self.sequence = 0
        self.rewound = False

    async def run(self) -> None:
        """Publish for ever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                while not self._ready:
                    self._work.clear()
                    await self._work.wait()
                await self._window.acquire()
                if self._down_since:
                    # One knocks for all.
                    await asyncio.sleep(self._retry_seconds())
                    await self._publish(self._ready.popleft())
                else:
                    tasks.create_task(self._publish(self._ready.popleft()))

    async def _publish(self, lane: _Lane) -> None:
        kind = lane.key.kind
        waiting = self._flying[lane] = self._waiting.pop(lane)
        try:
            ack = await self._send(lane.key, waiting)
        except BusUnavailable as exc:
            METRICS.published(kind, waiting.type, "failed")
            self._waiting[lane] = waiting.or_later(self._waiting.get(lane))
            self._fail(exc)
        else:
            METRICS.published(kind, waiting.type, "duplicate" if ack.duplicate else "stored")
            self._succeed()
        finally:
            del self._flying[lane]
            self._landed.set()
            self._window.release()
            if lane in self._waiting:
                if lane not in self._held:
                    self._make_ready(lane)
            elif not self.pending:
                self._idle.set()

    async def _send(self, key: ObjectKey, waiting: Waiting) -> PubAck:
        with span(
            "publish",
            kind=SpanKind.PRODUCER,
            **{"weir.key": key.token, "weir.event.type": waiting.type, "weir.event.id": waiting.id},
        ):
            event = ChangeEvent(
                key=key,
                type=waiting.type,
                id=waiting.id,
                time=datetime.fromtimestamp(waiting.seen, UTC).isoformat(),
                traceparent=traceparent(),
                children=self._hint(key),
            )
            acknowledged = self.sequence
            try:
                ack = await put(self._bus, event)
            except BusUnavailable as exc:
                fail_span(str(exc))
                raise
        if not ack.duplicate and ack.seq <= acknowledged:
            # The server lost messages that it had acknowledged.
            self.rewound = True
            self.suspicion.set()
        self.sequence = max(self.sequence, ack.seq)
        return ack

    def _make_ready(self, lane: _Lane) -> None:
        self._ready.append(lane)
        self._idle.clear()
        self._work.set()

    def _fail(self, exc: BusUnavailable) -> None:
        self._failures += 1
        if isinstance(exc, StreamMissing):
            self.suspicion.set()
        if not self._down_since:
            self._down_since = time.monotonic()
            _log.warning(
                "cannot publish; trying for ever", action="publish", error=exc, pending=self.pending
            )

    def _succeed(self) -> None:
        self._failures = 0
        if self._down_since:
            seconds = round(time.monotonic() - self._down_since, 1)
            self._down_since = 0.0
            _log.info(
                "publishing again", action="publish", down_seconds=seconds, pending=self.pending
            )

    def _retry_seconds(self) -> float:
        return min(_RETRY_MAX_SECONDS, _RETRY_SECONDS * 2.0 ** min(self._failures, 10))
