"""`weir history [KIND [NS/NAME]]`: what was tried and done, from the records in WEIR_HISTORY."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from bridge.events import HISTORY_SUBJECT, LEASE_SUBJECT, ObjectKey
from bridge.jetstream import Bus, Stored
from bridge.streams import HISTORY, LOCK
from handlers.cli import output
from handlers.cli.connection import missing, run_on_bus, stored_messages
from handlers.cli.settings_flags import NATS, add_settings, settings_of
from handlers.cli.target import Scope, add_target, scope_of
from handlers.handler import Noted
from handlers.history import FINISHED, Record
from handlers.lease import Claim

LIMIT_DEFAULT: Final = 20
WINDOW_FIRST: Final = 2_000
"""Of a whole stream so many of its last messages are looked at first; more where they are few."""
WINDOW_FACTOR: Final = 8
UNFINISHED: Final = "unfinished"
RUNNING: Final = "running"
_record = msgspec.json.Decoder(Record)
_claim = msgspec.json.Decoder(Claim)


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reconcile: its `started` and its `finished` in one."""

    time: str
    """RFC 3339; when it began."""
    kind: str
    namespace: str
    name: str
    result: str
    """As in `finished`; `running` or `unfinished` while there is none."""
    reason: str = ""
    error: str = ""
    cause: str = ""
    event: str = ""
    handler: str = ""
    writes: tuple[str, ...] = ()
    seconds: float | None = None
    uid: str = ""
    generation: int = 0
    renderer: int = 0
    attempt: str = ""
    foretold: tuple[Noted, ...] = ()
    """What a dry run would have changed."""

    @property
    def key(self) -> ObjectKey:
        """Which resource it was about."""
        return ObjectKey(self.kind, self.namespace, self.name)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir history` to the commands."""
    parser = subparsers.add_parser(
        "history",
        help="show what was done to a resource, by whom, why, and how it ended",
        description="Show the reconciles that changed or tried to change something, the newest "
        "last: of one resource, of a kind, or of all. Records are kept for seven days; of one "
        "resource the newest 1,000 (two per reconcile), and 512 MiB of them in all.",
        epilog="Writes are `create`, `apply`, `own` (fields become ours before an apply could "
        "drop them), `fence` (a child at rest gets another resourceVersion after a death), "
        "`delete`, `status` and `event`. An attempt whose end is not recorded is `running` while "
        "its handler holds the resource's lease, else `unfinished`: its handler died or was cut "
        "off.",
    )
    add_target(parser, of_list=True)
    parser.add_argument(
        "--limit",
        type=output.whole_number(0),
        default=LIMIT_DEFAULT,
        metavar="COUNT",
        help=f"show the newest COUNT attempts, 0 for all that are kept (default: {LIMIT_DEFAULT})",
    )
    output.add_output(parser, "table", "wide", "json", "yaml", default="table")
    add_settings(parser, NATS)
    parser.set_defaults(run=output.told(run))


def run(arguments: argparse.Namespace) -> int:
    """Print the attempts."""
    scope = scope_of(arguments)
    story = partial(_show, scope, arguments.limit, arguments.output)
    return run_on_bus(settings_of(arguments), story)


async def _show(scope: Scope, limit: int, form: output.Format, bus: Bus) -> int:
    attempts, are_more = await read(bus, scope, limit)
    if form in ("json", "yaml"):
        sys.stdout.write(output.machine({"items": _plain(attempts)}, form))
    elif attempts:
        print(as_table(attempts, is_one=scope.key is not None, is_wide=form == "wide"))
    else:
        where = f" of {scope}" if str(scope) else ""
        now = datetime.now(UTC)
        since = reach(await bus.api(f"STREAM.INFO.{HISTORY}") or {}, now)
        output.say(
            f"No history{where}: nothing was changed there since {output.clock(since)} "
            f"({output.age(since, now)} ago); the history does not reach back further."
        )
    if are_more:
        shown = output.plural(limit, "attempt")
        output.say(f"Not more than the newest {shown} shown; --limit 0 shows all.")
    return 0


async def read(
    bus: Bus, scope: Scope, limit: int, *, window: int = WINDOW_FIRST
) -> tuple[list[Attempt], bool]:
    """Return the newest attempts, the oldest first, and whether there are more."""
    state = await bus.stream_info(HISTORY)
    if state is None:
        raise missing(bus, HISTORY)
    last = state.last_sequence
    # Of one resource the stream keeps a bounded number of records; of all, too many to read.
    if limit == 0 or scope.key is not None:
        window = last
    while True:
        first = max(1, last - window + 1)
        subject = scope.subject(HISTORY_SUBJECT)
        records = [
            stored async for stored in stored_messages(bus, HISTORY, subject, first_sequence=first)
        ]
        attempts = merged(records)
        if first == 1 or len(attempts) > limit:
            break
        window *= WINDOW_FACTOR
    shown = attempts[-limit:] if limit else attempts
    return [await _as_it_stands(bus, attempt) for attempt in shown], len(attempts) > len(shown)


def reach(stream: dict[str, Any], now: datetime) -> datetime | None:
    """Return since when a stream would hold what was told; None where it does not say."""
    state = stream.get("state") or {}
    known = [output.moment(stream.get("created") or "")]
    if kept := (stream.get("config") or {}).get("max_age"):
        known.append(now - timedelta(seconds=kept / 1e9))
    if state.get("first_seq", 0) > 1:
        # Something was dropped: by its age, for its number, or by a purge, which leaves nothing.
        known.append(output.moment(state["first_ts" if state["messages"] else "last_ts"]))
    return max(filter(None, known), default=None)


def merged(records: Iterable[Stored]) -> list[Attempt]:
    """Return the attempts that records tell of, in the order in which they began."""
    found: dict[str, Attempt] = {}
    for stored in records:
        attempt = _attempt(stored)
        if attempt is None:
            continue
        before = found.get(attempt.attempt)
        if before is None:
            found[attempt.attempt] = attempt
        elif before.result == UNFINISHED:
            found[attempt.attempt] = msgspec.structs.replace(attempt, time=before.time)
        else:
            # `finished` overtook `started`.
            found[attempt.attempt] = msgspec.structs.replace(before, time=attempt.time)
    return sorted(found.values(), key=lambda attempt: attempt.time)


def _attempt(stored: Stored) -> Attempt | None:
    """Return what one record says, None where it cannot be read."""
    try:
        record = _record.decode(stored.payload)
    except (msgspec.MsgspecError, RecursionError):
        return None
    is_finished = stored.headers.get("ce-type") == FINISHED
    when = output.moment(stored.headers.get("ce-time") or stored.headers["Nats-Time-Stamp"])
    if when is not None and is_finished:
        when -= timedelta(seconds=record.seconds)
    return Attempt(
        time=when.isoformat().replace("+00:00", "Z") if when else "",
        kind=record.kind,
        namespace=record.namespace,
        name=record.name,
        result=record.result if is_finished else UNFINISHED,
        reason=record.reason,
        error=record.error,
        cause=record.cause,
        event=record.event,
        handler=record.handler,
        writes=record.writes,
        seconds=record.seconds if is_finished else None,
        uid=record.uid,
        generation=record.generation,
        renderer=record.renderer,
        attempt=record.attempt,
        foretold=record.foretold,
    )


async def _as_it_stands(bus: Bus, attempt: Attempt) -> Attempt:
    """Return an unfinished attempt as running, where its handler holds the object's lease."""
    if attempt.result != UNFINISHED:
        return attempt
    lease = await bus.last(LOCK, f"{LEASE_SUBJECT}.{attempt.key.token}")
    try:
        holder = _claim.decode(lease.payload).holder if lease and lease.payload else ""
    except msgspec.MsgspecError:
        holder = ""
    if holder and holder == attempt.handler:
        return msgspec.structs.replace(attempt, result=RUNNING)
    return attempt


def as_table(attempts: list[Attempt], *, is_one: bool, is_wide: bool) -> str:
    """Return a row per attempt; which resource it was about only where there may be several."""
    which = () if is_one else ("KIND", "NAMESPACE", "NAME")
    headers = ("TIME", *which, "RESULT", "CAUSE", "WRITES", "SECONDS", "HANDLER", "ERROR")
    rows = (
        (
            output.clock(output.moment(attempt.time)),
            *(() if is_one else (attempt.kind, attempt.namespace, attempt.name)),
            attempt.result,
            attempt.cause.rpartition(".")[2],
            *_measured(attempt),
            attempt.handler,
            attempt.error or attempt.reason,
            *((", ".join(attempt.writes),) if is_wide else ()),
        )
        for attempt in attempts
    )
    return output.table((*headers, "WRITTEN") if is_wide else headers, rows)


def _measured(attempt: Attempt) -> tuple[str, str]:
    """Return how much was written, by verb, and the seconds it took."""
    if attempt.seconds is None:
        return output.UNKNOWN, output.UNKNOWN
    counted = Counter(write.partition(" ")[0] for write in attempt.writes)
    writes = ", ".join(f"{verb} {count}" for verb, count in counted.items())
    return writes, f"{attempt.seconds:.3f}"


def _plain(attempts: list[Attempt]) -> Any:
    return msgspec.to_builtins(attempts)
