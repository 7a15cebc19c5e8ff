from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from bridge.events import ChangeEvent, EventType, ObjectKey
from bridge.jetstream import Bus
from handlers.cli import history as command
from handlers.cli import output
from handlers.cli.target import Scope
from handlers.history import FINISHED, STARTED, History, Record
from handlers.lease import Leases
from tests.services.cli.conftest import Command, Queue

CHAT = ObjectKey("inferadeployment", "team-a", "chat")
OTHER = ObjectKey("inferadeployment", "team-b", "other")
WRITES = ("create Service/a", "create Deployment/a", "status InferaDeployment/chat")


def begun(history: History, key: ObjectKey) -> Record:
    event = ChangeEvent(key=key, type=EventType.CHANGED, id="e")
    return msgspec.structs.replace(history.record(event, 1), uid="u", generation=2)


def ended(record: Record, **fields: object) -> Record:
    known = {"result": "changed", "writes": WRITES, "seconds": 0.25, **fields}
    return msgspec.structs.replace(record, **known)


def told(work: Callable[[History], Awaitable[None]]) -> Callable[[Bus], Awaitable[None]]:
    """Return work that waits until the server has what it told."""

    async def run(bus: Bus) -> None:
        await work(History(bus, "handlers-1"))
        await bus.client.flush()

    return run


async def one_of_each(history: History) -> None:
    """One that changed something, one that failed, and one whose end nobody told."""
    done = begun(history, CHAT)
    await history.tell(CHAT, STARTED, done)
    await history.tell(CHAT, FINISHED, ended(done))
    failed = begun(history, CHAT)
    boom = "Boom: \x1b[2J"
    await history.tell(CHAT, FINISHED, ended(failed, result="failed", error=boom, writes=()))
    await history.tell(CHAT, STARTED, begun(history, CHAT))


def test_start_and_end_of_an_attempt_are_one_row_and_an_end_that_is_missing_is_said(
    queue: Queue, weir: Command
) -> None:
    queue.do(told(one_of_each))

    said = weir("history idep team-a/chat", queue.url)

    assert (said.code, said.err) == (0, "")
    header, *rows = said.rows
    assert header == ["TIME", "RESULT", "CAUSE", "WRITES", "SECONDS", "HANDLER", "ERROR"]
    by_result = {row[1]: row[2:] for row in rows}
    assert by_result == {
        "changed": ["changed", "create 2, status 1", "0.250", "handlers-1"],
        "failed": ["changed", "<none>", "0.250", "handlers-1", r"Boom: \x1b[2J"],
        "unfinished": ["changed", "<unknown>", "<unknown>", "handlers-1"],
    }


def test_an_attempt_whose_handler_holds_the_lease_is_running(queue: Queue, weir: Command) -> None:
    async def work(bus: Bus) -> None:
        leases = Leases(bus, bus.settings, "handlers-1")
        await leases.check()
        await leases.acquire(CHAT, 1)
        history = History(bus, "handlers-1")
        await history.tell(CHAT, STARTED, begun(history, CHAT))
        await bus.client.flush()

    queue.do(work)

    assert weir("history idep team-a/chat", queue.url).rows[1][1] == "running"


def test_machines_get_every_write(queue: Queue, weir: Command) -> None:
    queue.do(told(one_of_each))

    items = json.loads(weir("history idep team-a/chat -o json", queue.url).out)["items"]

    (changed,) = (item for item in items if item["result"] == "changed")
    assert changed["writes"] == list(WRITES)
    assert (changed["generation"], changed["cause"]) == (2, "dev.weir.changed")


def test_the_wide_form_names_every_write(queue: Queue, weir: Command) -> None:
    queue.do(told(one_of_each))

    assert ", ".join(WRITES) in weir("history idep team-a/chat -o wide", queue.url).out


async def many(history: History) -> None:
    """Thirty attempts of one resource and then a hundred of another, numbered by their seconds."""
    for key, count in ((CHAT, 30), (OTHER, 100)):
        for number in range(count):
            record = begun(history, key)
            await history.tell(key, STARTED, record)
            await history.tell(key, FINISHED, ended(record, generation=number))


def generations(text: str) -> list[int]:
    return sorted(item.get("generation", 0) for item in json.loads(text)["items"])


def test_the_newest_attempts_are_shown_and_that_there_are_more_is_said(
    queue: Queue, weir: Command
) -> None:
    queue.do(told(many))

    some = weir("history idep team-a/chat --limit 3 -o json", queue.url)
    every = weir("history idep team-a/chat --limit 0 -o json", queue.url)

    assert len(generations(some.out)) == 3
    assert "--limit 0 shows all" in some.err
    assert generations(every.out) == list(range(30))
    assert every.err == ""


@pytest.mark.parametrize("window", [10, 2_000])
def test_all_resources_are_read_from_the_end_as_far_as_is_needed(queue: Queue, window: int) -> None:
    queue.do(told(many))

    async def read(bus: Bus) -> tuple[int, bool, int]:
        everything, are_more = await command.read(bus, Scope(), 5, window=window)
        rare, _ = await command.read(
            bus, Scope(kind="inferadeployment", namespace="team-a"), 5, window=window
        )
        return len(everything), are_more, len(rare)

    assert queue.do(read) == (5, True, 5)


def test_attempts_of_several_resources_say_which_they_are_about(
    queue: Queue, weir: Command
) -> None:
    queue.do(told(one_of_each))

    header, *rows = weir("history", queue.url).rows

    assert header[1:4] == ["KIND", "NAMESPACE", "NAME"]
    assert {tuple(row[1:4]) for row in rows} == {("inferadeployment", "team-a", "chat")}


def test_no_history_is_said_on_stderr_and_is_no_failure(queue: Queue, weir: Command) -> None:
    said = weir("history idep team-a/chat", queue.url)

    assert (said.code, said.out) == (0, "")
    before = "No history of inferadeployment team-a/chat: nothing was changed there since "
    assert said.err.startswith(before)
    since = output.moment(said.err.removeprefix(before).partition(" ")[0])
    assert since is not None
    assert datetime.now(UTC) - since < timedelta(hours=1)


def test_a_record_that_cannot_be_read_hides_no_other(queue: Queue, weir: Command) -> None:
    queue.do(told(one_of_each))
    queue.do(lambda bus: bus.publish(f"weir.h.{CHAT.token}", b"\xff{"))

    assert len(weir("history idep team-a/chat", queue.url).rows) == 4
