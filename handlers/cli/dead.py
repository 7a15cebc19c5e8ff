"""`weir dead list | show | retry`: what was given up, why, and how to have it tried again."""

from __future__ import annotations

import argparse
import contextlib
import sys
import uuid
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from bridge.events import DEAD_SUBJECT, ChangeEvent, EventType, ObjectKey
from bridge.jetstream import Bus, Stored, StreamMissing
from bridge.publish import put
from bridge.streams import DEAD, QUEUE
from crds import BY_QUEUE_NAME
from handlers.cli import output
from handlers.cli.connection import missing, run_on_bus, stored_messages
from handlers.cli.output import CommandError, Mistake
from handlers.cli.settings_flags import NATS, add_settings, settings_of
from handlers.cli.target import Scope, add_target, one_of, scope_of
from handlers.dead import DeadLetter
from handlers.state import EMPTY, FailState, load_state, save_state

HEADERS: Final = ("KIND", "NAMESPACE", "NAME", "REASON", "FAILURES", "SINCE", "ERROR")
UNREADABLE: Final = "Unreadable"
_letter = msgspec.json.Decoder(DeadLetter)


class Buried(Struct, frozen=True, kw_only=True):
    """A dead letter where it lies."""

    key: ObjectKey
    sequence: int
    letter: DeadLetter


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir dead` to the commands."""
    parser = subparsers.add_parser(
        "dead",
        help="list, show and retry what was given up",
        description="A resource whose reconcile fails again and again through no fault of its "
        "surroundings is put into quarantine: a dead letter says why, and it is tried rarely.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser(
        "list", help="list the dead letters", description="List the dead letters."
    )
    add_target(listing, of_list=True)
    output.add_output(listing, "table", "json", "yaml", default="table")
    add_settings(listing, NATS)
    listing.set_defaults(run=output.told(run_list))

    showing = actions.add_parser(
        "show",
        help="show one dead letter, and when it is tried next",
        description="Show the dead letter of a resource, and when it is tried next.",
    )
    add_target(showing)
    output.add_output(showing, "table", "json", "yaml", default="table")
    add_settings(showing, NATS)
    showing.set_defaults(run=output.told(run_show))

    retrying = actions.add_parser(
        "retry",
        help="have a resource tried again now, as if it had never failed",
        description="Forget the failures of a resource, remove its dead letter, and have it "
        "reconciled now. Mend the cause first: an edit of the resource needs no retry.",
    )
    add_target(retrying, of_list=True)
    retrying.add_argument(
        "--all", action="store_true", help="every dead letter; KIND and -n narrow it down"
    )
    add_settings(retrying, NATS)
    retrying.set_defaults(run=output.told(run_retry))


def run_list(arguments: argparse.Namespace) -> int:
    """Print the dead letters."""
    story = partial(_list, scope_of(arguments), arguments.output)
    return run_on_bus(settings_of(arguments), story)


def run_show(arguments: argparse.Namespace) -> int:
    """Print one dead letter; 1 where there is none."""
    story = partial(_show, one_of(arguments), arguments.output)
    return run_on_bus(settings_of(arguments), story)


def run_retry(arguments: argparse.Namespace) -> int:
    """Have one resource tried again, or all that were given up; 1 where there is none."""
    scope = scope_of(arguments)
    if arguments.all and scope.key is not None:
        named = f"{scope.key.namespace}/{scope.name}" if scope.key.namespace else scope.name
        raise Mistake(f"either --all or one resource, not both: leave out --all or {named}")
    if not arguments.all and scope.key is None:
        raise Mistake("say which: KIND NAMESPACE/NAME, or --all for every dead letter")
    story = _retry_all if scope.key is None else _retry_one
    return run_on_bus(settings_of(arguments), partial(story, scope))


async def _list(scope: Scope, form: output.Format, bus: Bus) -> int:
    found = await letters(bus, scope)
    if form in ("json", "yaml"):
        items = [msgspec.to_builtins(buried.letter) for buried in found]
        sys.stdout.write(output.machine({"items": items}, form))
    elif found:
        print(as_table([buried.letter for buried in found], datetime.now(UTC)))
    else:
        output.say(f"No dead letters{_of(scope)}.")
    return 0


async def _show(key: ObjectKey, form: output.Format, bus: Bus) -> int:
    found = await letters(bus, Scope(kind=key.kind, namespace=key.namespace, name=key.name))
    state = await load_state(bus, key)
    if not found:
        raise _no_letter(key, state)
    letter = found[0].letter
    if form in ("json", "yaml"):
        data: dict[str, Any] = msgspec.to_builtins(letter)
        if state != EMPTY:
            data["state"] = msgspec.to_builtins(state)
        sys.stdout.write(output.machine(data, form))
    else:
        print(described(letter, state, datetime.now(UTC)))
    return 0


async def _retry_one(scope: Scope, bus: Bus) -> int:
    key = scope.key
    if key is None:
        raise Mistake("say which resource")
    found = await letters(bus, scope)
    if not found and await load_state(bus, key) == EMPTY:
        raise CommandError(f"{key} has not failed: there is nothing to retry")
    await retry(bus, key, found[0].sequence if found else None)
    print(f"{output.printable(str(key))} retried")
    return 0


async def _retry_all(scope: Scope, bus: Bus) -> int:
    found = await letters(bus, scope)
    for buried in found:
        if buried.key.kind not in BY_QUEUE_NAME:
            output.warn(f"{buried.key} is left alone: this version serves no such kind")
            continue
        await retry(bus, buried.key, buried.sequence)
        print(f"{output.printable(str(buried.key))} retried", flush=True)
    if not found:
        output.say(f"No dead letters{_of(scope)}.")
    return 0


async def retry(bus: Bus, key: ObjectKey, sequence: int | None) -> None:
    """
    The object is reconciled as if it had never failed, and its dead letter is gone.

    The letter goes last and by its sequence: what is cut off before can be repeated, and a letter
    that the new try has written meanwhile stays.
    """
    await save_state(bus, key, EMPTY)
    try:
        await put(
            bus,
            ChangeEvent(
                key=key,
                type=EventType.RETRY,
                id=f"{key.token}:retry:{uuid.uuid4().hex}",
                source="weir/cli",
                time=datetime.now(UTC).isoformat(),
            ),
        )
    except StreamMissing as exc:
        raise missing(bus, QUEUE) from exc
    if sequence is not None:
        await bus.delete(DEAD, sequence)


async def letters(bus: Bus, scope: Scope) -> list[Buried]:
    """Return the dead letters, the oldest first."""
    subject = scope.subject(DEAD_SUBJECT)
    found = []
    async for stored in stored_messages(bus, DEAD, subject):
        # A subject that is no object's was written by nobody of ours.
        with contextlib.suppress(ValueError):
            found.append(_buried(stored))
    return found


def _buried(stored: Stored) -> Buried:
    """Return what a message says; what cannot be read is told by its subject."""
    key = ObjectKey.from_token(stored.subject.removeprefix(f"{DEAD_SUBJECT}."))
    try:
        letter = _letter.decode(stored.payload)
    except (msgspec.MsgspecError, RecursionError) as exc:
        letter = DeadLetter(
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            uid="",
            generation=0,
            reason=UNREADABLE,
            error=f"the dead letter cannot be read: {exc}",
        )
    else:
        # A subject cannot hold the dots of a name; the letter can.
        told = ObjectKey(letter.kind, letter.namespace, letter.name)
        key = told if told.token == key.token else key
    return Buried(key=key, sequence=stored.sequence, letter=letter)


def as_table(found: list[DeadLetter], now: datetime) -> str:
    """Return a row per dead letter."""
    rows = (
        (
            letter.kind,
            letter.namespace,
            letter.name,
            letter.reason,
            str(letter.failures),
            output.age(output.moment(letter.since or letter.time), now),
            letter.error,
        )
        for letter in found
    )
    return output.table(HEADERS, rows)


def described(letter: DeadLetter, state: FailState, now: datetime) -> str:
    """Return everything that is known of what was given up, and what to do."""
    where = f"{letter.namespace}/{letter.name}" if letter.namespace else letter.name
    return output.fields(
        (
            ("Kind", letter.kind),
            ("Namespace", letter.namespace),
            ("Name", letter.name),
            ("UID", letter.uid),
            ("Generation", str(letter.generation)),
            ("Reason", letter.reason),
            ("Error", letter.error),
            ("Failures", str(state.failures or letter.failures)),
            ("Failing since", _when(letter.since, now)),
            ("Given up", _when(letter.time, now)),
            ("By handler", letter.handler),
            ("Tried next", _next(state, now)),
            ("Retry now", f"weir dead retry {letter.kind} {where}"),
        )
    )


def _when(text: str, now: datetime) -> str:
    found = output.moment(text)
    if found is None:
        return output.UNKNOWN
    return f"{output.clock(found)} ({output.age(found, now)} ago)"


def _next(state: FailState, now: datetime) -> str:
    """Return when the object is tried without anybody's doing."""
    if not state.retry_at:
        return "when it changes, or at the next resync"
    due = datetime.fromtimestamp(state.retry_at, UTC)
    if due <= now:
        return f"{output.clock(due)} (due)"
    return f"{output.clock(due)} (in {output.age(now, due)}), or when it is edited"


def _no_letter(key: ObjectKey, state: FailState) -> CommandError:
    if state == EMPTY:
        return CommandError(f"{key} has no dead letter: it was not given up")
    if state.failures:
        times = output.plural(state.failures, "time")
        happened, why = f"it has failed {times} and is tried again", state.error
    elif state.refused:
        happened = "a child of it is refused, and tried again"
        why = "; ".join(map(str, state.refused))
    else:
        happened = "its handler died with it in its hands, and it is tried again"
        why = state.error or "runs alone until it comes to an end"
    return CommandError(f"{key} has no dead letter: {happened} by itself ({why})")


def _of(scope: Scope) -> str:
    return f" of {scope}" if str(scope) else ""
