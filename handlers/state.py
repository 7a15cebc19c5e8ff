"""
What Weir remembers of an object that fails: in WEIR_STATE, one message per object, gone on success.

Nothing that only stands here may matter for long: a wiped stream costs a few tries too many.
"""

from __future__ import annotations

import contextlib
import math

import msgspec
from msgspec import Struct

from bridge.events import STATE_SUBJECT, ObjectKey
from bridge.jetstream import Bus, BusError, StreamMissing
from bridge.streams import STATE
from handlers.handler import ChildName, Problem, Short

STATE_TTL_SECONDS = 3600
"""Twelve quarantine retries: a state that nobody renews for so long is history."""


class FailState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Failures of one incarnation and generation of an object; afresh when either changes."""

    uid: str = ""
    generation: int = 0
    failures: int = 0
    """Own failures in a row."""
    refusals: int = 0
    """Rounds in a row in which a child was refused."""
    crashes: int = 0
    """Runs alone in a process that did not come to an end: the process died."""
    error: str = ""
    since: float = 0.0
    """Unix time of the first failure in the row."""
    retry_at: float = 0.0
    """Unix time before which only a new generation runs."""
    is_quarantined: bool = False
    refused: tuple[Problem, ...] = ()
    """Children that the API server refused, and what it said."""
    refused_until: float = 0.0
    """Unix time before which they are not tried again."""

    handing_over: tuple[ChildName, ...] = ()
    """Children that are no longer wanted, and stay for what is not yet in their place."""
    short: tuple[Short, ...] = ()
    """Of those, the ones whose successors lack pods."""
    owes_look: bool = False
    """A look was given up, or followed a death: the next one is a full one, with a LIST."""

    @property
    def has_failed(self) -> bool:
        """Whether it tells of failures, and not only of what the next look has to meet."""
        return bool(self.failures or self.refusals or self.crashes or self.error)

    def concerns(self, uid: str, generation: int) -> bool:
        """Return whether the state is of this incarnation and generation."""
        return self.uid == uid and self.generation == generation

    def with_refused_due(self) -> FailState:
        """Return it with what was refused to be tried now, and as if for the first time."""
        return msgspec.structs.replace(self, refusals=0, refused_until=0.0)


EMPTY = FailState()
_decoder = msgspec.json.Decoder(FailState)


async def load_state(bus: Bus, key: ObjectKey) -> FailState:
    """Return what is remembered of an object; EMPTY where nothing is, or nothing readable."""
    try:
        stored = await bus.last(STATE, f"{STATE_SUBJECT}.{key.token}")
    except StreamMissing:
        return EMPTY
    if stored is None:
        return EMPTY
    try:
        return _decoder.decode(stored.payload)
    except msgspec.MsgspecError:
        return EMPTY


async def save_state(bus: Bus, key: ObjectKey, state: FailState) -> int:
    """Remember a state and return its sequence, or forget the object when it is EMPTY."""
    subject = f"{STATE_SUBJECT}.{key.token}"
    if state == EMPTY:
        await bus.purge(STATE, subject)
        return 0
    headers = {"Nats-TTL": ttl(STATE_TTL_SECONDS)}
    ack = await bus.publish(subject, msgspec.json.encode(state), headers=headers)
    return ack.seq


async def take_back_state(bus: Bus, key: ObjectKey, state: FailState, sequence: int) -> None:
    """Put a state in place of the one of that sequence, unless another was stored since."""
    headers = {"Nats-TTL": ttl(STATE_TTL_SECONDS)}
    with contextlib.suppress(BusError):
        await bus.publish(
            f"{STATE_SUBJECT}.{key.token}",
            msgspec.json.encode(state),
            headers=headers,
            expect_last_subject_sequence=sequence,
        )


def ttl(seconds: float) -> str:
    """Return a `Nats-TTL` header: whole seconds, one at least (the server's minimum)."""
    return f"{max(1, math.ceil(seconds))}s"
