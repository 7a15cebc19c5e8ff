"""
Never two at once: a lease per object, a message with a TTL that only its holder may overwrite.

The lease's validity is measured on the monotonic clock from *before* the renewal was sent, so it
ends here no later than on the server. Where it ended by its TTL the server leaves a marker, which
tells the next holder that the one before it died, was paused, or lost NATS.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from bridge.events import LEASE_SUBJECT, ObjectKey
from bridge.jetstream import Bus, BusError, BusUnavailable, StreamState, WrongSequence
from bridge.streams import LOCK, QUEUE
from bridge.telemetry import logger
from handlers.state import ttl

if TYPE_CHECKING:
    from bridge.settings import Settings

DECLARE_SECONDS = 2.0
"""Streams that are declared together are no further apart."""

STOOD_MAX = 10_000
"""So many leases that are in our way are remembered."""
HASTE = 8
"""A renewal that was not answered is tried again so much sooner than the next one is due."""

log = logger(__name__)


class Claim(Struct, frozen=True, kw_only=True):
    """What a lease says of its holder."""

    holder: str
    incarnation: str
    """Of the process: two that were given one name are two."""
    sequence: int
    """Stream sequence of the delivery that is being handled."""
    predecessor_died: bool = False
    """The holder before never let go."""


class Lease:
    """One object, ours until `seconds_left` is used up or `release` is called."""

    def __init__(
        self, bus: Bus, subject: str, claim: Claim, sequence: int, taken_at: float
    ) -> None:
        """Take what the acquisition gave."""
        self._bus = bus
        self._subject = subject
        self._claim = claim
        self._sequence = sequence
        self._taken_at = taken_at
        self._is_lost = False
        self._renewal: asyncio.Task[bool] | None = None
        self._is_uncertain = False
        self._seconds = bus.settings.lease_seconds
        self.predecessor_died = claim.predecessor_died
        self.is_fenced = not claim.predecessor_died
        """Whether nothing that the last holder may still write can land any more."""

    @property
    def seconds_left(self) -> float:
        """How long the object is ours for certain; 0 and less when it is not."""
        if self._is_lost:
            return 0.0
        return self._seconds - (time.monotonic() - self._taken_at)

    def lose(self) -> None:
        """Give the lease up for lost: it may be another's by now."""
        self._is_lost = True

    async def keep(self, every_seconds: float) -> None:
        """Renew until cancelled, or until it is lost."""
        wait_seconds = every_seconds
        while self.seconds_left > 0:
            await asyncio.sleep(wait_seconds)
            # Shielded: a renewal that lands after the release deleted its predecessor's sequence
            # would lock the object for a whole TTL.
            self._renewal = asyncio.create_task(self.renew())
            is_renewed = await asyncio.shield(self._renewal)
            wait_seconds = every_seconds if is_renewed else every_seconds / HASTE

    async def renew(self) -> bool:
        """Extend the lease and return True; find that it is lost, or that NATS does not answer."""
        started = time.monotonic()
        try:
            ack = await self._bus.publish(
                self._subject,
                msgspec.json.encode(self._claim),
                headers={"Nats-TTL": ttl(self._seconds)},
                expect_last_subject_sequence=self._sequence,
                timeout_seconds=self._bus.settings.lease_renew_seconds / 2,
            )
        except WrongSequence:
            await self._find_again()
        except BusUnavailable as exc:
            # It may have landed: the sequence is looked up before it is needed.
            self._is_uncertain = True
            log.debug("lease not renewed", action="lease", error=str(exc))
        else:
            self._sequence = ack.seq
            self._taken_at = started
            self._is_uncertain = False
            return True
        return False

    async def release(self) -> None:
        """
        Let the object go; a lease that is not ours any more is left alone.

        One that is not fenced runs out instead: so the next holder, too, learns that one died.
        """
        if self._renewal is not None and not self._renewal.done():
            await self._renewal
        if self._is_uncertain:
            await self._find_again()
        if self._is_lost:
            return
        self._is_lost = True
        try:
            if self.is_fenced:
                await self._bus.delete(LOCK, self._sequence)
            else:
                await self._bus.publish(
                    self._subject,
                    msgspec.json.encode(self._claim),
                    headers={"Nats-TTL": ttl(0)},
                    expect_last_subject_sequence=self._sequence,
                )
        except BusError as exc:
            log.debug("lease not released, its TTL will", action="lease", error=str(exc))

    async def _find_again(self) -> None:
        """
        Take up the sequence of a renewal whose answer was lost; else the lease is another's.

        It is not counted as renewed: when it landed is not known. The next renewal, soon, will.
        """
        try:
            stored = await self._bus.last(LOCK, self._subject)
        except BusUnavailable as exc:
            log.debug("lease not renewed", action="lease", error=str(exc))
            return
        if stored is not None and stored.payload == msgspec.json.encode(self._claim):
            self._sequence = stored.sequence
            self._is_uncertain = False
        else:
            self.lose()


class Leases:
    """The leases of one process; `lose_all` when the stream that held them is a new one."""

    def __init__(self, bus: Bus, settings: Settings, identity: str) -> None:
        """Take the connection; nothing is leased yet."""
        self.bus = bus
        self._settings = settings
        self._identity = identity
        self._incarnation = uuid.uuid4().hex
        self._held: set[Lease] = set()
        self._created = ""
        self._highest = 0
        self._closed_until = 0.0
        self._stood: dict[str, tuple[int, float]] = {}
        """Others' leases that were in our way: their sequence, and since when (monotonic)."""
        bus.on_reconnect.append(self._check_after_reconnect)

    async def acquire(self, key: ObjectKey, sequence: int) -> Lease | None:
        """Return a lease, None where another holds the object; one call at a time for a key."""
        if time.monotonic() < self._closed_until:
            return None
        subject = f"{LEASE_SUBJECT}.{key.token}"
        claim = Claim(holder=self._identity, incarnation=self._incarnation, sequence=sequence)
        lease = await self._try(subject, claim, 0)
        if lease is not None:
            return lease
        stored = await self.bus.last(LOCK, subject)
        if stored is None:
            return None
        own = self._own(stored.payload)
        if stored.headers.get("Nats-Marker-Reason") == "MaxAge":
            claim = after_a_death(claim)
        elif own is not None:
            # Nobody in this process holds it (the caller has the key's lock): it was taken by a
            # request whose answer was lost, or given up unfenced.
            claim = after_a_death(claim) if own.predecessor_died else claim
        elif self._has_stood(subject, stored.sequence):
            log.warning("lease that nobody renews taken over", action="lease", subject=subject)
            claim = after_a_death(claim)
        else:
            return None
        return await self._try(subject, claim, stored.sequence)

    def _has_stood(self, subject: str, sequence: int) -> bool:
        """
        Return whether another's lease has not moved for a lease time, by our clock.

        A server that was killed may bring leases back that were renewed or released, and never
        ends them (nats-server#8505). Who holds one renews it, or has it no more by its own clock.
        """
        now = time.monotonic()
        if len(self._stood) > STOOD_MAX:
            self._stood.clear()
        known, since = self._stood.get(subject, (0, now))
        if known != sequence:
            self._stood[subject] = (sequence, now)
            return False
        return now - since > self._settings.lease_seconds

    async def check(self) -> None:
        """
        Compare the stream with the one that holds our leases.

        A stream made anew knows nothing of a lease that another process still believes in: ours
        are dropped, and none is taken for one lease time.
        """
        known = self._highest
        info = await self.bus.stream_info(LOCK)
        if info is None:
            await self.bus.declare()
            info = await self.bus.stream_info(LOCK)
        if info is None:
            raise BusUnavailable(f"{LOCK} cannot be made")
        if (self._created and info.created != self._created) or info.last_sequence < known:
            self.lose_all("the lease stream is a new one")
        elif not self._created and await self._was_made_again(info):
            self.lose_all("the lease stream was made anew a moment ago")
        self._created = info.created

    async def _was_made_again(self, info: StreamState) -> bool:
        """
        Return whether leases may be believed in that the stream knows nothing of.

        What this process has never seen before tells nothing by being new, but for the queue's
        stream, which is declared just before it: an older one says that there was a lease stream.
        """
        if info.age_seconds > self._settings.lease_seconds:
            return False
        queue = await self.bus.stream_info(QUEUE)
        return queue is not None and queue.age_seconds > info.age_seconds + DECLARE_SECONDS

    async def _check_after_reconnect(self) -> None:
        """Look before anything is written under a lease that the server may have lost."""
        try:
            await self.check()
        except BusError as exc:
            log.debug("lease stream not checked", action="lease", error=str(exc))

    def _own(self, payload: bytes) -> Claim | None:
        """Return the claim where it is one of this process."""
        try:
            claim = msgspec.json.decode(payload, type=Claim)
        except msgspec.MsgspecError:
            return None
        return claim if claim.incarnation == self._incarnation else None

    def lose_all(self, why: str) -> None:
        """Drop every lease and take none for one lease time."""
        log.warning("leases dropped", action="lease", why=why, leases=len(self._held))
        for lease in self._held:
            lease.lose()
        self._held.clear()
        self._highest = 0
        self._closed_until = time.monotonic() + self._settings.lease_seconds

    async def release(self, lease: Lease) -> None:
        """Let the object go."""
        self._held.discard(lease)
        await lease.release()

    async def _try(self, subject: str, claim: Claim, expected: int) -> Lease | None:
        started = time.monotonic()
        known = self._highest
        try:
            ack = await self.bus.publish(
                subject,
                msgspec.json.encode(claim),
                headers={"Nats-TTL": ttl(self._settings.lease_seconds)},
                expect_last_subject_sequence=expected,
                timeout_seconds=self._settings.write_timeout_seconds,
            )
        except WrongSequence:
            return None
        lease = Lease(self.bus, subject, claim, ack.seq, started)
        if ack.seq <= known and self._highest >= known:
            # Sent after `known` was given out, so the stream counts anew.
            self.lose_all("the lease stream began anew")
        self._highest = max(self._highest, ack.seq)
        if time.monotonic() < self._closed_until:
            await lease.release()
            return None
        self._held.add(lease)
        self._stood.pop(subject, None)
        return lease


def after_a_death(claim: Claim) -> Claim:
    """Return the claim of who takes over from a holder that never let go."""
    return msgspec.structs.replace(claim, predecessor_died=True)
