"""
How many workloads a minute get new pods although nobody edited them: a new renderer's templates.

A token is a message with a TTL of a minute, so that all handlers share them; who finds no free one
leaves the workload as it is, and looks again.
"""

from __future__ import annotations

import random

from bridge.events import STATE_SUBJECT
from bridge.jetstream import Bus, WrongSequence
from handlers.state import ttl

TOKEN = f"{STATE_SUBJECT}._rollout"
"""`_` begins no kind's name."""
TOKEN_SECONDS = 60.0


async def unlimited() -> bool:
    """Return True: nothing is written, so nothing is used up."""
    return True


async def take_token(bus: Bus) -> bool:
    """Return True for a token that is ours now, False where all of this minute are taken."""
    count = bus.settings.rollouts_per_minute
    for number in random.sample(range(count), count):
        try:
            await bus.publish(
                f"{TOKEN}.{number}",
                headers={"Nats-TTL": ttl(TOKEN_SECONDS)},
                expect_last_subject_sequence=0,
            )
        except WrongSequence:
            continue
        return True
    return False
