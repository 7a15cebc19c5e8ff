"""
Whether the death of a process can be put down to the object that it ran alone.

A suspect that was counted and then outlives a run proves that processes die of other things too:
memory is short, a probe is too strict, somebody kills. While that was seen lately, three deaths in
a row say little of an object, and more are asked for; and what died among others only is not
examined one by one, which would take all hands from the work that is left.
"""

from __future__ import annotations

from bridge.events import STATE_SUBJECT
from bridge.jetstream import Bus, StreamMissing
from bridge.streams import STATE
from handlers.state import ttl

ACQUITTED = f"{STATE_SUBJECT}._acquitted"
"""`_` begins no kind's name."""
ACQUITTED_LATELY = f"{STATE_SUBJECT}._acquitted-lately"
DOUBT_SECONDS = 600.0
"""For so long a suspect that outlived its count speaks for all that are counted."""
STORM_SECONDS = 60.0
"""For so long it speaks for those that are not: longer, and what kills its handler takes others
along that long."""


async def acquit(bus: Bus) -> None:
    """Have every handler know that a suspect, counted before, lived."""
    for subject, seconds in ((ACQUITTED, DOUBT_SECONDS), (ACQUITTED_LATELY, STORM_SECONDS)):
        await bus.publish(subject, headers={"Nats-TTL": ttl(seconds)})


async def is_storm(bus: Bus) -> bool:
    """Return whether processes die right now of other things than the objects that they ran."""
    return await _is_marked(bus, ACQUITTED_LATELY)


async def crashes_to_convict(bus: Bus) -> int:
    """Return how many runs alone in a row have to end with a death, as things stand."""
    few, many = bus.settings.convict_crashes, bus.settings.convict_crashes_in_doubt
    return max(few, many) if await _is_marked(bus, ACQUITTED) else few


async def _is_marked(bus: Bus, subject: str) -> bool:
    try:
        return await bus.last(STATE, subject) is not None
    except StreamMissing:
        return False
