"""NATS's half of `weir why`: messages, timer, lease, failures and history; only read."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from bridge import streams
from bridge.events import TIMER_SUBJECT, WORK_SUBJECT, ObjectKey
from bridge.jetstream import Bus, Stored
from handlers.cli import dead, history, queue
from handlers.cli.connection import stored_messages
from handlers.cli.queue import Group, Queue
from handlers.cli.target import Scope
from handlers.cli.why_findings import Lease, QueueHalf, Slot, is_idle
from handlers.other_operator import load_episode
from handlers.renderers import ANY, newest_renderer
from handlers.state import EMPTY, load_state

ATTEMPTS_MAX = 20
"""Attempts that are read: the newest, with the last errors among them."""
NEXT_PULL_SECONDS = 0.3
"""A request for messages that ends is followed by the next one sooner than this."""
_SCHEDULED = re.compile(r"@at (\S+)")


async def read_queue(key: ObjectKey, bus: Bus) -> QueueHalf:
    """Return what NATS holds of a resource; streams that are missing hold nothing."""
    whole = await queue.read(bus)
    group = _group(whole, key)
    if not group.is_missing and is_idle(group):
        await asyncio.sleep(NEXT_PULL_SECONDS)
        whole = await queue.read(bus)
        group = _group(whole, key)
    there = {stream.name for stream in whole.streams if not stream.is_missing}
    half = QueueHalf(group=group, missing=tuple(whole.missing))
    if streams.QUEUE in there:
        half = replace(half, slots=await _slots(bus, key, group), timer_due=await _due(bus, key))
    if streams.STATE in there:
        state = await load_state(bus, key)
        newest = await newest_renderer(bus, key.kind)
        lives = None if newest == ANY else newest > 0
        half = replace(half, state=None if state == EMPTY else state, has_live_handlers=lives)
        if (episode := await load_episode(bus, key)) is not None:
            since = datetime.fromtimestamp(episode.since, UTC).isoformat()
            half = replace(half, others_since=since)
    scope = Scope(kind=key.kind, namespace=key.namespace, name=key.name)
    if streams.DEAD in there:
        found = await dead.letters(bus, scope)
        half = replace(half, letter=found[0].letter if found else None)
    if streams.HISTORY in there:
        attempts, _ = await history.read(bus, scope, ATTEMPTS_MAX)
        half = replace(half, attempts=tuple(attempts))
    return replace(half, lease=_lease(whole, key, half))


def _group(whole: Queue, key: ObjectKey) -> Group:
    return next(group for group in whole.groups if key.kind in group.kinds)


async def _slots(bus: Bus, key: ObjectKey, group: Group) -> tuple[Slot, ...]:
    """Return the messages about the resource, in the order in which they came."""
    name = streams.consumer_name(group.name)
    consumer = await bus.api(f"CONSUMER.INFO.{streams.QUEUE}.{name}") or {}
    subject = f"{WORK_SUBJECT}.{key.token}.*"
    return tuple(
        [
            await _slot(bus, stored, group, consumer)
            async for stored in stored_messages(bus, streams.QUEUE, subject)
        ]
    )


async def _slot(bus: Bus, stored: Stored, group: Group, consumer: dict[str, Any]) -> Slot:
    delivered = (consumer.get("delivered") or {}).get("stream_seq", 0)
    is_taken = stored.sequence <= delivered
    before = 0
    if not is_taken:
        later = sum([await _from(bus, kind, stored.sequence) for kind in group.kinds])
        before = max(0, consumer.get("num_pending", 0) - later)
    return Slot(
        slot=stored.subject.rpartition(".")[2],
        sequence=stored.sequence,
        published=stored.headers.get("Nats-Time-Stamp", ""),
        cause=stored.headers.get("ce-type", "").rpartition(".")[2],
        is_taken=is_taken,
        before=before,
    )


async def _from(bus: Bus, kind: str, sequence: int) -> int:
    """Return how many messages of a kind the queue holds from that sequence on (ADR-31)."""
    body = {"seq": sequence, "next_by_subj": f"{WORK_SUBJECT}.{kind}.>", "batch": 1}
    answer = await bus.request(f"$JS.API.DIRECT.GET.{streams.QUEUE}", msgspec.json.encode(body))
    headers = answer.headers or {}
    return 1 + int(headers["Nats-Num-Pending"]) if "Nats-Sequence" in headers else 0


async def _due(bus: Bus, key: ObjectKey) -> str:
    """Return when the server puts a message about the resource into the queue by itself."""
    stored = await bus.last(streams.QUEUE, f"{TIMER_SUBJECT}.{key.token}")
    scheduled = _SCHEDULED.match(stored.headers.get("Nats-Schedule", "")) if stored else None
    return scheduled.group(1) if scheduled else ""


def _lease(whole: Queue, key: ObjectKey, half: QueueHalf) -> Lease | None:
    for held in whole.leases:
        if ObjectKey(held.kind, held.namespace, held.name).token == key.token:
            running = [one for one in half.attempts if one.result == history.RUNNING]
            since = running[-1].time if running else ""
            return Lease(holder=held.holder, renewed=held.renewed, since=since)
    return None
