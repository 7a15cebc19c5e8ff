"""
Which renderer versions live: a mark per kind and version in WEIR_STATE, renewed by its holders.

An older handler leaves a newer one's children alone while the newer lives; when the mark is gone
(a rollback) it writes again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from bridge.events import STATE_SUBJECT
from bridge.jetstream import REQUEST_SECONDS, Bus, BusError, age_seconds
from bridge.settings import Settings
from bridge.streams import STATE
from bridge.telemetry import logger
from handlers.handler import AnyHandler
from handlers.state import ttl

MARK = "_renderer"
"""A token that no kind has: `_` is in no Kubernetes name."""
ANY = sys.maxsize
"""Higher than any version."""
RENEWALS = 3
"""A mark is renewed so many times before it would go."""

log = logger(__name__)


async def newest_renderer(bus: Bus, kind: str) -> int:
    """
    Return the highest version that a live handler renders a kind with; 0 where none is known.

    A stream that was just made again may lack the marks of who lives: any version may live then.
    """
    prefix = f"{STATE_SUBJECT}.{MARK}.{kind}."
    said = await bus.api(f"STREAM.INFO.{STATE}", {"subjects_filter": f"{prefix}*"})
    if said is None or age_seconds(said) < _marked_again_seconds(bus.settings):
        return ANY
    subjects = (said.get("state") or {}).get("subjects") or {}
    versions = [subject.removeprefix(prefix) for subject in subjects]
    return max((int(version) for version in versions if version.isdecimal()), default=0)


async def mark(bus: Bus, handlers: Iterable[AnyHandler]) -> None:
    """Say that these handlers live."""
    for handler in handlers:
        kind = handler.contract.kind.queue_name
        subject = f"{STATE_SUBJECT}.{MARK}.{kind}.{handler.renderer}"
        headers = {"Nats-TTL": ttl(bus.settings.renderer_mark_seconds)}
        await bus.publish(subject, b"", headers=headers)


async def keep_marked(bus: Bus, handlers: tuple[AnyHandler, ...]) -> None:
    """Renew the marks, for ever."""
    while True:
        try:
            await mark(bus, handlers)
        except BusError as exc:
            log.debug("renderer not marked", action="renderer", error=str(exc))
        await asyncio.sleep(bus.settings.renderer_mark_seconds / RENEWALS)


def _marked_again_seconds(settings: Settings) -> float:
    """Return the age of a stream in which every live handler has marked its versions."""
    return settings.renderer_mark_seconds / RENEWALS + REQUEST_SECONDS
