"""
The pull consumer of a group of kinds: a standing request for as many messages as there are slots.

Own instead of nats-py's `fetch`, which waits for a whole batch once its first message came.
Source: JetStream API, `$JS.API.CONSUMER.MSG.NEXT` (ADR-37 on the status codes).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING

import msgspec
import nats.errors

from bridge import streams
from bridge.events import ChangeEvent, EventType, ObjectKey, decode, joined
from bridge.jetstream import Bus, BusError
from bridge.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

EXPIRES_SECONDS = 10.0
"""The server ends an unanswered request after so long at least, and says what is left of it."""
GRACE_SECONDS = 2.0
"""A request that was not ended so long after its expiry was lost with its connection."""
_SECOND = 1_000_000_000

log = logger(__name__)


class Delivery:
    """A message in our hands, and those that it answers for, until they are dealt with."""

    def __init__(self, message: Msg, event: ChangeEvent, is_lost: Callable[[], bool]) -> None:
        """Take a message of the queue, what it says, and whether that queue is no more."""
        self._messages = {message.subject: (message, is_lost)}
        self.event = event
        self.is_referred = event.type is EventType.REFERRED
        """Something that a refused child lacked may be there now."""
        metadata = message.metadata
        self.sequence: int = metadata.sequence.stream
        self.delivered: int = metadata.num_delivered or 1

    @property
    def key(self) -> ObjectKey:
        """Which resource it is about."""
        return self.event.key

    def absorb(self, later: Delivery) -> bool:
        """
        Return whether one look does for both; then this one answers for the other, too.

        A message in the place of another of its slot is the only one left of the two.
        """
        event = joined(self.event, later.event)
        if event is None:
            return False
        self.event = event
        # A resync looks at more, and says nothing of that.
        self.is_referred |= later.is_referred
        self.delivered = max(self.delivered, later.delivered)
        self._messages |= later._messages
        return True

    async def acknowledge(self) -> None:
        """Take the message out of the queue; a lost acknowledgement costs one look too many."""
        await self._answer(b"+ACK")

    async def give_back(self, after_seconds: float) -> None:
        """Let another delivery of the message happen, not before `after_seconds`."""
        delay = msgspec.json.encode({"delay": int(after_seconds * _SECOND)})
        await self._answer(b"-NAK " + delay if after_seconds > 0 else b"-NAK")

    async def beat(self) -> None:
        """Tell the queue that the message is in work."""
        await self._answer(b"+WPI")

    async def _answer(self, word: bytes) -> None:
        for message, is_lost in tuple(self._messages.values()):
            client = message._client  # noqa: SLF001 - nats-py's own ack refuses a second answer
            if not client.is_connected or is_lost():
                continue  # the queue delivers it again, after ack_wait, if it is there yet
            try:
                await client.publish(message.reply, word)
            except (nats.errors.Error, OSError) as exc:
                log.debug("message not answered", action="queue", error=str(exc))


class Incarnation:
    """
    Which queue is there: one that was deleted and made again is another.

    A message is answered by its number, and the other's have the same numbers: an answer that came
    too late would take a message out of the queue that nobody has dealt with.
    """

    def __init__(self, bus: Bus) -> None:
        """Take the connection; nothing is known yet."""
        self._bus = bus
        self._created = ""
        self._number = 0
        self._reconnects = 0
        self._advisories: Subscription | None = None

    async def follow(self) -> None:
        """Hear of a deletion as soon as it happens."""
        subject = f"$JS.EVENT.ADVISORY.STREAM.DELETED.{streams.QUEUE}"
        self._advisories = await self._bus.client.subscribe(subject, cb=self._on_deleted)
        await self.look()

    async def stop(self) -> None:
        """Hear of nothing any more."""
        if self._advisories is not None and not self._bus.client.is_closed:
            await self._advisories.unsubscribe()

    async def look(self) -> None:
        """Find out whether the queue is still the same; one that cannot be seen is not."""
        reconnects = self._bus.client.stats["reconnects"]
        try:
            info = await self._bus.stream_info(streams.QUEUE)
        except BusError as exc:
            log.debug("the queue cannot be looked at", action="queue", error=str(exc))
            info = None
        created = info.created if info else ""
        if not created or created != self._created:
            self._number += 1
        self._created, self._reconnects = created, reconnects

    def lost(self) -> Callable[[], bool]:
        """Return what says, from now on, whether the present queue is no more."""
        number = self._number
        return lambda: (
            number != self._number or self._reconnects != self._bus.client.stats["reconnects"]
        )

    async def _on_deleted(self, _: Msg) -> None:
        self._number += 1


class Pull:
    """Messages of one group of kinds, never more at once than were asked for."""

    def __init__(self, bus: Bus, group: str) -> None:
        """Take the connection and the group; nothing is asked for yet."""
        self._bus = bus
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{streams.QUEUE}.{streams.consumer_name(group)}"
        self._inbox = ""
        self._arrived: asyncio.Queue[Delivery | None] = asyncio.Queue()
        self._asks: list[list[float]] = []  # [monotonic time of loss, messages still owed]
        self._subscription: Subscription | None = None
        self._incarnation = Incarnation(bus)
        self.is_missing = False
        """True once the server said that there is no such consumer; `ask` clears it."""

    @property
    def owed(self) -> int:
        """How many messages may still come without another request."""
        now = time.monotonic()
        self._asks = [ask for ask in self._asks if ask[0] > now and ask[1] > 0]
        return int(sum(ask[1] for ask in self._asks)) + self._arrived.qsize()

    async def start(self) -> None:
        """Listen for answers."""
        await self._incarnation.follow()
        await self._listen()
        self._bus.on_reconnect.append(self._listen_anew)

    async def stop(self) -> None:
        """Give back what arrived and nobody took; listen no more."""
        self._bus.on_reconnect.remove(self._listen_anew)
        await self._incarnation.stop()
        if self._subscription is not None and not self._bus.client.is_closed:
            await self._subscription.unsubscribe()
        while not self._arrived.empty():
            delivery = self._arrived.get_nowait()
            if delivery is not None:
                await delivery.give_back(0)

    async def ask(self, count: int) -> None:
        """Ask for `count` messages more."""
        if not self._bus.is_connected:
            return
        self.is_missing = False
        # The oldest request is served first: among handlers in step with each other, and with the
        # resync, one and the same would always have it.
        expires_seconds = EXPIRES_SECONDS * random.uniform(1.0, 1.5)  # noqa: S311 - guards nothing
        request = {"batch": count, "expires": int(expires_seconds * _SECOND)}
        self._asks.append([time.monotonic() + expires_seconds + GRACE_SECONDS, count])
        await self._bus.client.publish(
            self._subject, msgspec.json.encode(request), reply=self._inbox
        )

    async def take(self, wait_seconds: float) -> Delivery | None:
        """Return the next message; None after `wait_seconds`, or when `wake` was called."""
        try:
            # Not wait_for: on 3.11 it swallows a cancellation that comes with the message.
            async with asyncio.timeout(wait_seconds):
                return await self._arrived.get()
        except TimeoutError:
            return None

    def wake(self) -> None:
        """Let a waiting `take` return, because a slot is free."""
        if self._arrived.empty():
            self._arrived.put_nowait(None)

    async def _listen(self) -> None:
        self._inbox = self._bus.client.new_inbox()
        self._subscription = await self._bus.client.subscribe(self._inbox, cb=self._on_message)

    async def _listen_anew(self) -> None:
        """Expect nothing of the requests that were out when the connection was lost."""
        await self._incarnation.look()
        # The new one first: the connection may be lost again at any of these lines, and this is
        # cut off there and called anew.
        before, self._subscription = self._subscription, None
        await self._listen()
        self._asks.clear()
        self.wake()
        if before is not None:
            with contextlib.suppress(nats.errors.Error):
                await before.unsubscribe()

    async def _on_message(self, message: Msg) -> None:
        status = (message.headers or {}).get("Status", "")
        if status:
            self._on_status(status, message.headers or {})
            return
        self._pay(1)
        try:
            event = decode(message.subject, message.headers, message.data)
        except ValueError:
            log.warning("message with an impossible subject dropped", subject=message.subject)
            await message.ack()
            return
        self._arrived.put_nowait(Delivery(message, event, self._incarnation.lost()))

    def _on_status(self, status: str, headers: dict[str, str]) -> None:
        if status == "100":
            return
        if status == "503" or (status == "409" and "Deleted" in headers.get("Description", "")):
            self._asks.clear()
            self.is_missing = True
        else:
            left = headers.get("Nats-Pending-Messages", "")
            self._pay(int(left) if left.isdecimal() else 1)
        self.wake()

    def _pay(self, count: int) -> None:
        for ask in self._asks:
            paid = min(count, ask[1])
            ask[1] -= paid
            count -= int(paid)
            if count <= 0:
                return
