"""A command's connection to NATS: there within seconds, or one line that says what to do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec
import nats.errors

from bridge.jetstream import Bus, BusError, BusUnavailable, Stored
from bridge.nats_connection import connect_nats, public
from bridge.settings import Settings
from handlers.cli.output import CommandError

T = TypeVar("T")

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
"""How long the next message of a page may take."""
PAGE_MESSAGES = 500
PAGE_BYTES = 4 << 20


def run_on_bus(settings: Settings, command: Callable[[Bus], Awaitable[int]]) -> int:
    """Return the command's exit code; raise CommandError where NATS keeps it from its end."""
    return asyncio.run(on_bus(settings, command))


async def on_bus(settings: Settings, work: Callable[[Bus], Awaitable[T]]) -> T:
    """Return what the work returns, given a connection; raise CommandError where NATS fails it."""
    hush()
    where = public(settings.nats_url)
    try:
        async with connect_nats(settings, "cli", within_seconds=CONNECT_SECONDS) as bus:
            try:
                return await work(bus)
            except BusError as exc:
                refusal = f" ({bus.client.last_error})" if bus.client.last_error else ""
                raise CommandError(
                    f"NATS at {where} did not do what was asked: {exc}{refusal}; try again, and "
                    f"check that this user may use JetStream there"
                ) from exc
    except BusUnavailable as exc:
        remedy = "Is it running? Say where it is with --nats-url or WEIR_NATS_URL"
        if "authorization" in str(exc).lower():
            remedy = "Check the user: --nats-creds (WEIR_NATS_CREDS), or what --nats-url holds"
        raise CommandError(
            f"cannot connect to NATS at {where} within {CONNECT_SECONDS:g} s: {exc}. {remedy}"
        ) from exc


def hush() -> None:
    """Nothing is logged: that is for a process that lives on; here the error's line says it."""
    logging.getLogger().addHandler(logging.NullHandler())


async def stored_messages(
    bus: Bus, stream: str, subject: str, *, first_sequence: int = 1
) -> AsyncIterator[Stored]:
    """
    Yield the messages of a stream whose subject matches, the oldest first, page by page.

    Raises CommandError where there is no such stream. Source: ADR-31, "Direct Get", batches.
    """
    inbox = bus.client.new_inbox()
    subscription = await bus.client.subscribe(inbox)
    try:
        is_end = False
        while not is_end:
            page = {
                "seq": first_sequence,
                "next_by_subj": subject,
                "batch": PAGE_MESSAGES,
                "max_bytes": PAGE_BYTES,
            }
            await bus.client.publish(
                f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(page), reply=inbox
            )
            while True:
                message = await subscription.next_msg(timeout=ANSWER_SECONDS)
                headers = message.headers or {}
                if status := headers.get("Status"):
                    if status == "503":
                        raise missing(bus, stream)
                    if status not in ("204", "404"):
                        raise BusUnavailable(f"{stream}: {headers.get('Description', status)}")
                    is_end = headers.get("Nats-Num-Pending", "0") == "0"
                    break
                sequence = int(headers["Nats-Sequence"])
                first_sequence = sequence + 1
                yield Stored(
                    subject=headers["Nats-Subject"],
                    sequence=sequence,
                    payload=message.data,
                    headers=headers,
                )
    except (nats.errors.Error, TimeoutError, OSError) as exc:
        raise BusUnavailable(f"{stream}: {str(exc) or type(exc).__name__}") from exc
    finally:
        with contextlib.suppress(nats.errors.Error):
            await subscription.unsubscribe()


def missing(bus: Bus, stream: str) -> CommandError:
    """Return what to say of a stream that does not exist."""
    return CommandError(
        f"NATS at {public(bus.settings.nats_url)} has no stream {stream}: no Weir runs on it. "
        f"Check --nats-url (WEIR_NATS_URL), or start `weir bridge` and `weir handlers`"
    )
