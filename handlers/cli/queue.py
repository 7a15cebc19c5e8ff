"""`weir queue`: what waits, what is in work, and whether the queue itself is whole."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from bridge import streams
from bridge.events import LEASE_SUBJECT, TIMER_SUBJECT, WORK_SUBJECT, ObjectKey
from bridge.jetstream import Bus
from handlers.cli import output
from handlers.cli.connection import run_on_bus, stored_messages
from handlers.cli.settings_flags import NATS, add_settings, settings_of
from handlers.lease import Claim

GROUP_HEADERS: Final = ("GROUP", "PENDING", "OLDEST", "IN-FLIGHT", "TIMERS", "LEASES", "PULLS")
STREAM_HEADERS: Final = ("STREAM", "MESSAGES", "SIZE", "AGE")
LEASE_HEADERS: Final = ("KIND", "NAMESPACE", "NAME", "HOLDER", "AGE")
MISSING: Final = "<missing>"
WATCH_SECONDS: Final = 1.0
_claim = msgspec.json.Decoder(Claim)


class Group(Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer: the kinds whose reconciles need the same backends."""

    name: str
    kinds: tuple[str, ...]
    is_missing: bool = False
    pending: int = 0
    """Messages that no handler has taken yet."""
    oldest: str | None = None
    """RFC 3339; when the first of them was published."""
    in_flight: int = 0
    """Messages that handlers have, or must take again."""
    timers: int = 0
    """Objects that come back by themselves: back-off, not ready yet, quarantine."""
    leases: int = 0
    """Objects that a handler holds."""
    pulls: int = 0
    """Requests for messages that wait: 0 while every slot is taken, or no handler runs."""


class Stream(Struct, frozen=True, kw_only=True, rename="camel"):
    """One stream of ours."""

    name: str
    is_missing: bool = False
    messages: int = 0
    bytes: int = 0
    created: str | None = None
    """RFC 3339."""


class Held(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object in the hands of a handler."""

    kind: str
    namespace: str
    name: str
    holder: str
    renewed: str
    """RFC 3339; when the lease was last written."""


class Queue(Struct, frozen=True, kw_only=True, rename="camel"):
    """All of it at one moment."""

    groups: tuple[Group, ...]
    streams: tuple[Stream, ...]
    leases: tuple[Held, ...]

    @property
    def missing(self) -> list[str]:
        """What should be there and is not."""
        gone = [stream.name for stream in self.streams if stream.is_missing]
        return gone + [
            f"the consumer {streams.consumer_name(group.name)}"
            for group in self.groups
            if group.is_missing
        ]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir queue` to the commands."""
    parser = subparsers.add_parser(
        "queue",
        help="show what waits, what is in work, and whether the queue is whole",
        description="Show what waits in the queue and what is in work, by group of kinds, and the "
        "streams behind it. Ends with 1 where a stream or a consumer is missing.",
        epilog="PENDING: messages that wait, since OLDEST. IN-FLIGHT: taken by handlers. TIMERS: "
        "objects that come back by themselves (back-off, not ready yet). LEASES: objects that a "
        "handler holds; -o wide lists them. PULLS: free slots of handlers, as requests for work.",
    )
    output.add_output(parser, "table", "wide", "json", "yaml", default="table")
    parser.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help=f"show the groups every {WATCH_SECONDS:g} s when they changed, until Ctrl-C",
    )
    add_settings(parser, NATS)
    parser.set_defaults(run=output.told(run))


def run(arguments: argparse.Namespace) -> int:
    """Print the queue once, or whenever it changes."""
    if arguments.watch and arguments.output in ("wide", "yaml"):
        raise output.Mistake("--watch prints a table, or with -o json one document a line")
    story = _watch if arguments.watch else _show
    return run_on_bus(settings_of(arguments), partial(story, arguments.output))


async def _show(form: output.Format, bus: Bus) -> int:
    queue = await read(bus)
    now = datetime.now(UTC)
    if form in ("json", "yaml"):
        sys.stdout.write(output.machine(_plain(queue), form))
    else:
        parts = [group_table(queue, now), stream_table(queue, now)]
        if form == "wide" and queue.leases:
            parts.append(lease_table(queue, now))
        print("\n\n".join(parts))
    for text in troubles(queue):
        output.warn(text)
    return int(bool(queue.missing))


async def _watch(form: output.Format, bus: Bus) -> int:
    """Print the groups whenever they changed; return never, but by an error or Ctrl-C."""
    shown: Any = None
    told: list[str] = []
    while True:
        queue = await read(bus)
        found = troubles(queue)
        for text in found:
            if text not in told:
                output.warn(text)
        told = found
        seen = [msgspec.structs.replace(group, oldest=None) for group in queue.groups]
        if seen != shown:
            shown = seen
            now = datetime.now(UTC)
            if form == "json":
                print(msgspec.json.encode(queue).decode(), flush=True)
            else:
                print(f"{output.clock(now)}\n{group_table(queue, now)}\n", flush=True)
        await asyncio.sleep(WATCH_SECONDS)


async def read(bus: Bus) -> Queue:
    """Return what the server says of every stream, consumer, timer and lease."""
    found = [await _stream(bus, config["name"]) for config in streams.stream_configs(bus.settings)]
    there = {stream.name for stream in found if not stream.is_missing}
    held = await _leases(bus) if streams.LOCK in there else []
    groups = [
        await _group(bus, name, kinds, held) if streams.QUEUE in there else _lost(name, kinds)
        for name, kinds in bus.groups.items()
    ]
    return Queue(groups=tuple(groups), streams=tuple(found), leases=tuple(held))


def troubles(queue: Queue) -> list[str]:
    """Return what somebody should act on, with the remedy."""
    found = []
    if queue.missing:
        found.append(
            f"{', '.join(queue.missing)} missing: a bridge or handlers process that runs makes "
            f"it again within seconds; check that one does, and that NATS is the right one"
        )
    idle = [group.name for group in queue.groups if _nobody_works(group)]
    if idle:
        found.append(
            f"messages are there and no handler asks for them ({', '.join(idle)}): start `weir "
            f"handlers`; one that runs says in its log which backend it waits for"
        )
    return found


def group_table(queue: Queue, now: datetime) -> str:
    """Return a row per group."""
    return output.table(
        GROUP_HEADERS,
        (
            (group.name, *[MISSING] * (len(GROUP_HEADERS) - 1))
            if group.is_missing
            else (
                group.name,
                str(group.pending),
                output.age(output.moment(group.oldest), now) if group.oldest else "",
                str(group.in_flight),
                str(group.timers),
                str(group.leases),
                str(group.pulls),
            )
            for group in queue.groups
        ),
    )


def stream_table(queue: Queue, now: datetime) -> str:
    """Return a row per stream."""
    return output.table(
        STREAM_HEADERS,
        (
            (stream.name, *[MISSING] * (len(STREAM_HEADERS) - 1))
            if stream.is_missing
            else (
                stream.name,
                str(stream.messages),
                output.size(stream.bytes),
                output.age(output.moment(stream.created or ""), now),
            )
            for stream in queue.streams
        ),
    )


def lease_table(queue: Queue, now: datetime) -> str:
    """Return a row per object that a handler holds."""
    return output.table(
        LEASE_HEADERS,
        (
            (
                held.kind,
                held.namespace,
                held.name,
                held.holder,
                output.age(output.moment(held.renewed), now),
            )
            for held in queue.leases
        ),
    )


async def _stream(bus: Bus, name: str) -> Stream:
    said = await bus.api(f"STREAM.INFO.{name}")
    if said is None:
        return Stream(name=name, is_missing=True)
    state = said["state"]
    return Stream(
        name=name, messages=state["messages"], bytes=state["bytes"], created=said["created"]
    )


async def _group(bus: Bus, name: str, kinds: tuple[str, ...], held: list[Held]) -> Group:
    said = await bus.api(f"CONSUMER.INFO.{streams.QUEUE}.{streams.consumer_name(name)}")
    if said is None:
        return _lost(name, kinds)
    oldest = None
    if said["num_pending"]:
        oldest = await _oldest(bus, kinds, said["delivered"]["stream_seq"] + 1)
    return Group(
        name=name,
        kinds=kinds,
        pending=said["num_pending"],
        oldest=oldest,
        in_flight=said["num_ack_pending"],
        timers=sum([await _timers(bus, kind) for kind in kinds]),
        leases=sum(lease.kind in kinds for lease in held),
        pulls=said["num_waiting"],
    )


def _lost(name: str, kinds: tuple[str, ...]) -> Group:
    return Group(name=name, kinds=kinds, is_missing=True)


async def _oldest(bus: Bus, kinds: tuple[str, ...], sequence: int) -> str | None:
    """Return when the first message of these kinds from that sequence on was published."""
    times = []
    for kind in kinds:
        body = {"seq": sequence, "next_by_subj": f"{WORK_SUBJECT}.{kind}.>"}
        answer = await bus.request(f"$JS.API.DIRECT.GET.{streams.QUEUE}", msgspec.json.encode(body))
        if when := (answer.headers or {}).get("Nats-Time-Stamp"):
            times.append(when)
    return min(times, default=None)


async def _timers(bus: Bus, kind: str) -> int:
    # The server counts every subject that matches, and lists those from the offset on: none.
    body = {"subjects_filter": f"{TIMER_SUBJECT}.{kind}.>", "offset": 1 << 30}
    said = await bus.api(f"STREAM.INFO.{streams.QUEUE}", body)
    return int((said or {}).get("total", 0))


async def _leases(bus: Bus) -> list[Held]:
    """Return the leases, without the markers that ended ones leave."""
    found = []
    async for stored in stored_messages(bus, streams.LOCK, f"{LEASE_SUBJECT}.>"):
        try:
            claim = _claim.decode(stored.payload)
            key = ObjectKey.from_token(stored.subject.removeprefix(f"{LEASE_SUBJECT}."))
        except (msgspec.MsgspecError, ValueError):
            continue
        found.append(
            Held(
                kind=key.kind,
                namespace=key.namespace,
                name=key.name,
                holder=claim.holder,
                renewed=stored.headers.get("Nats-Time-Stamp", ""),
            )
        )
    return found


def _nobody_works(group: Group) -> bool:
    """Return whether messages are there, and nothing tells of a handler: no free slot, no lease."""
    is_at_work = group.pulls or (group.in_flight and group.leases)
    return bool(group.pending or group.in_flight) and not is_at_work


def _plain(queue: Queue) -> Any:
    return msgspec.to_builtins(queue)
