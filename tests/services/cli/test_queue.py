from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from bridge.events import ChangeEvent, EventType, ObjectKey, seen_id
from bridge.jetstream import Bus
from bridge.publish import put
from bridge.streams import HISTORY, QUEUE, consumer_name
from handlers.cli.devstack.weir import REPOSITORY
from handlers.lease import Leases
from tests.services.cli.conftest import Command, Queue
from tests.stack.eventually import PATIENCE_SECONDS

CHAT = ObjectKey("inferadeployment", "team-a", "chat")
DRAFT = ObjectKey("inferadeployment", "team-a", "draft")
GROUP = "kubernetes"


async def fill(bus: Bus) -> None:
    """Two objects wait, one of them twice; one has a timer; one is leased, and one was."""
    for key, version in ((CHAT, "1"), (CHAT, "2"), (DRAFT, "3")):
        event = ChangeEvent(key=key, type=EventType.CHANGED, id=seen_id(key, "u", version))
        await put(bus, event)
    await bus.publish(
        f"weir.t.{CHAT.token}",
        headers={
            "Nats-Schedule": "@at 2100-01-01T00:00:00Z",
            "Nats-Schedule-Target": f"weir.w.{CHAT.token}.t",
        },
    )
    leases = Leases(bus, bus.settings, "handlers-1")
    await leases.check()
    assert await leases.acquire(CHAT, 1) is not None
    # What the server leaves of a lease whose holder died.
    marker = {"Nats-Marker-Reason": "MaxAge"}
    await bus.publish(f"weir.l.{DRAFT.token}", headers=marker)


def test_what_waits_is_told_by_group_and_by_stream(queue: Queue, weir: Command) -> None:
    queue.do(fill)

    said = weir("queue", queue.url)

    assert said.code == 0
    header, row, *streams = said.rows
    assert dict(zip(header, row, strict=True)) | {"OLDEST": "now"} == {
        "GROUP": GROUP,
        "PENDING": "3",
        "OLDEST": "now",
        "IN-FLIGHT": "0",
        "TIMERS": "1",
        "LEASES": "1",
        "PULLS": "0",
    }
    assert row[2].endswith("s")
    assert [line[:2] for line in streams] == [
        ["STREAM", "MESSAGES"],
        ["WEIR_QUEUE", "4"],
        ["WEIR_LOCK", "2"],
        ["WEIR_STATE", "0"],
        ["WEIR_DEAD", "0"],
        ["WEIR_HISTORY", "0"],
    ]
    assert said.err.startswith(
        "Warning: messages are there and no handler asks for them (kubernetes): start `weir handler"
    )


def test_an_empty_queue_is_no_trouble(queue: Queue, weir: Command) -> None:
    said = weir("queue", queue.url)

    assert (said.code, said.err) == (0, "")
    assert said.rows[1] == [GROUP, "0", "<none>", "0", "0", "0", "0"]


def test_the_wide_form_names_who_holds_what(queue: Queue, weir: Command) -> None:
    queue.do(fill)

    *_, header, lease = weir("queue -o wide", queue.url).rows

    assert header == ["KIND", "NAMESPACE", "NAME", "HOLDER", "AGE"]
    assert lease[:4] == ["inferadeployment", "team-a", "chat", "handlers-1"]


def test_machines_get_numbers(queue: Queue, weir: Command) -> None:
    queue.do(fill)

    data = json.loads(weir("queue -o json", queue.url).out)

    (group,) = data["groups"]
    assert (group["pending"], group["timers"], group["leases"]) == (3, 1, 1)
    assert group["isMissing"] is False
    assert {stream["name"]: stream["messages"] for stream in data["streams"]}["WEIR_QUEUE"] == 4
    assert [lease["holder"] for lease in data["leases"]] == ["handlers-1"]


def test_a_consumer_and_a_stream_that_are_missing_are_named_and_a_failure(
    queue: Queue, weir: Command
) -> None:
    async def lose(bus: Bus) -> None:
        await bus.api(f"CONSUMER.DELETE.{QUEUE}.{consumer_name(GROUP)}")
        await bus.api(f"STREAM.DELETE.{HISTORY}")

    queue.do(lose)

    said = weir("queue", queue.url)

    assert said.code == 1
    assert said.rows[1] == [GROUP, *["<missing>"] * 6]
    assert said.rows[-1] == ["WEIR_HISTORY", *["<missing>"] * 3]
    assert f"Warning: WEIR_HISTORY, the consumer {consumer_name(GROUP)} missing" in said.err


def test_a_watch_has_no_wide_form(weir: Command, nobody: str) -> None:
    said = weir("queue --watch -o wide", nobody)

    assert said.code == 2
    assert "--watch prints a table" in said.err


def test_a_watch_tells_every_change_until_ctrl_c(queue: Queue) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "handlers", "queue", "-w", "-o", "json"],
        cwd=REPOSITORY,
        env={**os.environ, "WEIR_NATS_URL": queue.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        before = json.loads(watching.stdout.readline())
        queue.do(fill)
        # The moment between its parts may be seen too.
        after = next(
            seen
            for line in watching.stdout
            if (seen := json.loads(line)["groups"][0])["leases"] == 1
        )
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=PATIENCE_SECONDS)
    finally:
        watching.kill()
        watching.communicate()

    assert before["groups"][0]["pending"] == 0
    assert (after["pending"], after["timers"]) == (3, 1)
    (warning,) = errors.splitlines()
    assert warning.startswith("Warning: messages are there and no handler asks for them")
    assert watching.returncode == 130
