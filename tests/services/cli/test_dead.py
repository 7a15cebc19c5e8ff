from __future__ import annotations

import json
import time

import msgspec
import yaml

from bridge.events import ChangeEvent, EventType, ObjectKey, decode, seen_id
from bridge.jetstream import Bus, Stored
from bridge.publish import put
from bridge.streams import QUEUE
from handlers.cli.connection import stored_messages
from handlers.dead import bury
from handlers.handler import ChildName, Problem
from handlers.state import EMPTY, FailState, load_state, save_state
from tests.services.cli.conftest import Command, Queue

CHAT = ObjectKey("inferadeployment", "team-a", "chat")
DOTTED = ObjectKey("inferadeployment", "team-b", "old.chat")
DAY = 86_400
FAILED = FailState(
    uid="u-1",
    generation=3,
    failures=10,
    error="RuntimeError: no\x1b[2J way\nat all",
    since=time.time() - 10 * DAY - 3600,
    retry_at=time.time() + 10 * DAY + 3600,
    is_quarantined=True,
)
ERROR_SHOWN = r"RuntimeError: no\x1b[2J way at all"


def give_up(queue: Queue, *keys: ObjectKey) -> None:
    async def work(bus: Bus) -> None:
        for key in keys:
            await save_state(bus, key, FAILED)
            await bury(bus, key, FAILED, "RuntimeError", "handlers-1")

    queue.do(work)


def waiting(queue: Queue) -> list[tuple[str, ChangeEvent]]:
    """Return what waits in the queue, by subject."""

    async def work(bus: Bus) -> list[Stored]:
        return [stored async for stored in stored_messages(bus, QUEUE, "weir.w.>")]

    return [
        (stored.subject, decode(stored.subject, stored.headers, stored.payload))
        for stored in queue.do(work)
    ]


def test_dead_letters_are_listed_in_the_order_in_which_they_were_written(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, DOTTED, CHAT)

    said = weir("dead list", queue.url)

    assert said.code == 0
    assert said.rows == [
        ["KIND", "NAMESPACE", "NAME", "REASON", "FAILURES", "SINCE", "ERROR"],
        ["inferadeployment", "team-b", "old.chat", "RuntimeError", "10", "10d", ERROR_SHOWN],
        ["inferadeployment", "team-a", "chat", "RuntimeError", "10", "10d", ERROR_SHOWN],
    ]


def test_a_list_is_narrowed_to_a_kind_a_namespace_or_a_resource(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, DOTTED, CHAT)

    assert len(weir("dead list idep", queue.url).rows) == 3
    assert [row[2] for row in weir("dead list -n team-a", queue.url).rows[1:]] == ["chat"]
    assert [row[2] for row in weir("dead list idep team-b/old.chat", queue.url).rows[1:]] == [
        "old.chat"
    ]
    assert weir("dead list idep team-b/chat", queue.url).err == (
        "No dead letters of inferadeployment team-b/chat.\n"
    )


def test_machines_get_the_whole_letters(queue: Queue, weir: Command) -> None:
    give_up(queue, CHAT)

    (from_json,) = json.loads(weir("dead list -o json", queue.url).out)["items"]
    (from_yaml,) = yaml.safe_load(weir("dead list -o yaml", queue.url).out)["items"]

    assert from_json == from_yaml
    assert from_json["error"] == FAILED.error
    assert (from_json["uid"], from_json["generation"], from_json["handler"]) == (
        "u-1",
        3,
        "handlers-1",
    )


def test_no_dead_letters_is_said_on_stderr_and_is_no_failure(queue: Queue, weir: Command) -> None:
    assert weir("dead list", queue.url) == (0, "", "No dead letters.\n")
    assert json.loads(weir("dead list -o json", queue.url).out) == {"items": []}


def test_a_letter_that_cannot_be_read_is_listed_among_the_others(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, CHAT)
    queue.do(lambda bus: bus.publish("weir.d.inferadeployment.team-a.broken", b"{\xff"))

    rows = weir("dead list", queue.url).rows

    assert [row[2] for row in rows[1:]] == ["chat", "broken"]
    assert rows[2][3] == "Unreadable"


def test_a_letter_is_shown_with_when_it_is_tried_next_and_how_to_retry_it(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, CHAT)

    said = weir("dead show idep chat -n team-a", queue.url)
    data = json.loads(weir("dead show idep team-a/chat -o json", queue.url).out)

    shown = dict(line.split(":", 1) for line in said.out.splitlines())
    assert shown["Error"].strip() == ERROR_SHOWN
    assert "(in 10d)" in shown["Tried next"]
    assert shown["Retry now"].strip() == "weir dead retry inferadeployment team-a/chat"
    assert data["state"] == msgspec.to_builtins(FAILED)


def test_what_has_no_letter_is_told_apart_from_what_still_tries(
    queue: Queue, weir: Command
) -> None:
    trying = FailState(uid="u", failures=2, error="RuntimeError: x")
    queue.do(lambda bus: save_state(bus, CHAT, trying))

    failing = weir("dead show idep team-a/chat", queue.url)
    well = weir("dead show idep team-a/well", queue.url)

    assert (failing.code, well.code) == (1, 1)
    assert "has no dead letter: it has failed 2 times and is tried again by itself" in failing.err
    assert "has no dead letter: it was not given up" in well.err


def test_what_waits_for_a_refused_child_is_told_by_that_child(queue: Queue, weir: Command) -> None:
    quota = Problem(child=ChildName("Deployment", "chat-w"), reason="Refused", message="quota")
    queue.do(lambda bus: save_state(bus, CHAT, FailState(uid="u", refusals=3, refused=(quota,))))

    said = weir("dead show idep team-a/chat", queue.url)

    assert said.code == 1
    assert "a child of it is refused, and tried again by itself" in said.err
    assert "(Refused: Deployment chat-w: quota)" in said.err


def test_a_retry_forgets_the_failures_removes_the_letter_and_asks_for_a_reconcile(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, CHAT, DOTTED)

    said = weir("dead retry idep team-a/chat", queue.url)

    assert said == (0, "inferadeployment team-a/chat retried\n", "")
    assert queue.do(lambda bus: load_state(bus, CHAT)) == EMPTY
    assert [row[2] for row in weir("dead list", queue.url).rows[1:]] == ["old.chat"]
    ((subject, event),) = waiting(queue)
    assert subject == f"weir.w.{CHAT.token}.0"
    assert (event.key, event.type, event.source) == (CHAT, EventType.RETRY, "weir/cli")


def test_a_retry_of_a_key_that_waits_already_goes_to_the_second_slot(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, CHAT)
    change = ChangeEvent(key=CHAT, type=EventType.CHANGED, id=seen_id(CHAT, "u-1", "7"))
    queue.do(lambda bus: put(bus, change))

    weir("dead retry idep team-a/chat", queue.url)

    assert [(subject[-1], event.type) for subject, event in waiting(queue)] == [
        ("0", EventType.CHANGED),
        ("1", EventType.RETRY),
    ]


def test_two_retries_of_one_object_are_two_events(queue: Queue, weir: Command) -> None:
    """The server would drop the second as a duplicate if both had one id."""
    for _ in range(2):
        give_up(queue, CHAT)
        assert weir("dead retry idep team-a/chat", queue.url).code == 0

    assert [subject[-1] for subject, _ in waiting(queue)] == ["0", "1"]


def test_all_are_retried_and_what_this_version_does_not_serve_is_left_alone(
    queue: Queue, weir: Command
) -> None:
    give_up(queue, CHAT, DOTTED, ObjectKey("futurekind", "team-a", "x"))

    said = weir("dead retry --all", queue.url)

    assert said.code == 0
    assert said.out.splitlines() == [
        "inferadeployment team-a/chat retried",
        "inferadeployment team-b/old.chat retried",
    ]
    assert "futurekind team-a/x is left alone" in said.err
    assert {event.key.token for _, event in waiting(queue)} == {CHAT.token, DOTTED.token}
    assert [row[0] for row in weir("dead list", queue.url).rows[1:]] == ["futurekind"]


def test_an_object_in_back_off_is_retried_though_it_has_no_letter(
    queue: Queue, weir: Command
) -> None:
    trying = FailState(uid="u", failures=2, error="RuntimeError: x", retry_at=time.time() + 300)
    queue.do(lambda bus: save_state(bus, CHAT, trying))

    assert weir("dead retry idep team-a/chat", queue.url).code == 0

    assert [event.type for _, event in waiting(queue)] == [EventType.RETRY]


def test_what_has_not_failed_is_not_retried(queue: Queue, weir: Command) -> None:
    said = weir("dead retry idep team-a/chat", queue.url)

    assert said == (
        1,
        "",
        "weir: inferadeployment team-a/chat has not failed: there is nothing to retry\n",
    )
    assert waiting(queue) == []


def test_a_retry_must_name_one_or_all_and_not_both(queue: Queue, weir: Command) -> None:
    neither = weir("dead retry idep", queue.url)
    both = weir("dead retry idep team-a/chat --all", queue.url)
    wild = weir("dead retry idep team-a/*", queue.url)

    assert (neither.code, both.code, wild.code) == (2, 2, 2)
    assert "--all for every dead letter" in neither.err
    assert "not both: leave out --all or team-a/chat" in both.err
