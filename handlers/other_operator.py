"""
Say once that another operator writes to a resource, and that we therefore do not.

The status is not written either, so an Event says it, a warning and a record of the history. That
it was said is remembered in WEIR_STATE, for all handlers and beyond their restarts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from bridge.events import STATE_SUBJECT, ObjectKey
from bridge.jetstream import Bus
from bridge.streams import STATE
from bridge.telemetry import METRICS, logger
from handlers.conditions import Transition
from handlers.errors import OtherOperator
from handlers.kube_events import post_events
from handlers.lookout import OTHER_OPERATOR
from handlers.reconcile import now_text
from handlers.state import ttl

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.writes import Writes

SUBJECT = f"{STATE_SUBJECT}._other"
"""`_` begins no kind's name."""
SILENCES = 10
"""An episode is over when for so many times as long as we wait no young write was seen: two
operators of which each waits for the other to finish are one episode, and one Event."""
EVENT_SECONDS = 3600.0
"""The API server forgets an Event after so long (source: kube-apiserver, `--event-ttl`)."""

log = logger(__name__)


class Episode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That another operator writes to a resource, from the first look that saw it on."""

    uid: str
    """Of the resource."""
    since: float
    """Unix time."""
    events: int = 0
    """How often it was told: again when the API server has forgotten it, while it goes on."""
    told_at: float = 0.0
    """Unix time."""


_decoder = msgspec.json.Decoder(Episode)


async def tell_other_operator(
    found: OtherOperator,
    key: ObjectKey,
    resource: Manifest,
    writer: Writes,
    bus: Bus,
    identity: str,
) -> None:
    """Count the look that was given up; post the episode's Event unless that was done."""
    METRICS.count("weir_other_operator", kind=key.kind, manager=found.manager)
    now = time.time()
    episode = await load_episode(bus, key)
    if episode is None or episode.uid != resource["metadata"]["uid"]:
        episode = Episode(uid=resource["metadata"]["uid"], since=now)
    # Its beginning is stored before it is told, and names the Event: who goes on where a handler
    # died in between tells the same one.
    await _save(bus, key, episode)
    if now - episode.told_at < EVENT_SECONDS:
        return
    log.warning("another operator writes", action="other-operator", error=str(found))
    change = Transition(
        type=OTHER_OPERATOR,
        status="True",
        reason=OTHER_OPERATOR,
        message=str(found),
        warning=True,
    )
    name = f"{episode.since} {episode.events}"
    if not await post_events(writer, resource, [change], identity, now_text(), episode=name):
        return  # the next look tries again
    told = msgspec.structs.replace(episode, events=episode.events + 1, told_at=now)
    await _save(bus, key, told)


async def load_episode(bus: Bus, key: ObjectKey) -> Episode | None:
    """Return the episode that a resource is in, or was in a moment ago."""
    stored = await bus.last(STATE, f"{SUBJECT}.{key.token}")
    try:
        return _decoder.decode(stored.payload) if stored else None
    except msgspec.MsgspecError:
        return None


async def _save(bus: Bus, key: ObjectKey, episode: Episode) -> None:
    seconds = SILENCES * bus.settings.other_operator_seconds
    await bus.publish(
        f"{SUBJECT}.{key.token}",
        msgspec.json.encode(episode),
        headers={"Nats-TTL": ttl(seconds)},
    )
