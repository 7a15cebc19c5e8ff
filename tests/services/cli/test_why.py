"""NATS's half of `weir why`, where the API server cannot be asked."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
import yaml

from bridge.events import ChangeEvent, EventType, ObjectKey
from bridge.jetstream import Bus
from bridge.publish import put
from bridge.streams import QUEUE, consumer_name
from handlers.dead import bury
from handlers.handler import ChildName, Problem
from handlers.lease import Leases
from handlers.registry import HANDLERS
from handlers.renderers import mark
from handlers.state import FailState, save_state
from tests.services.cli.conftest import Command, Queue

FIRST = ObjectKey("inferadeployment", "team-a", "first")
CHAT = ObjectKey("inferadeployment", "team-a", "chat")
GIVEN_UP = FailState(
    uid="u-1",
    generation=3,
    failures=10,
    error="RuntimeError: no way",
    since=time.time() - 3600,
    retry_at=time.time() + 3600,
    is_quarantined=True,
    refused=(Problem(child=ChildName("Service", "s"), reason="Refused", message="says: no"),),
)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


async def publish(bus: Bus, *keys: ObjectKey) -> None:
    for key in keys:
        await put(bus, ChangeEvent(key=key, type=EventType.CHANGED, id=uuid.uuid4().hex))


async def take(bus: Bus, count: int) -> None:
    """So many messages are in the hands of a handler that is gone at once."""
    inbox = bus.client.new_inbox()
    subscription = await bus.client.subscribe(inbox)
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{QUEUE}.{consumer_name('kubernetes')}"
    await bus.client.publish(subject, json.dumps({"batch": count}).encode(), reply=inbox)
    for _ in range(count):
        await subscription.next_msg(timeout=20)


def test_a_message_that_no_handler_takes_is_told_with_its_place_in_the_queue(
    queue: Queue, weir: Command
) -> None:
    queue.do(lambda bus: publish(bus, FIRST, FIRST, CHAT, CHAT, FIRST))

    said = weir("why idep team-a/chat", queue.url)

    assert said.code == 0
    first, *_ = said.out.splitlines()
    assert first.startswith(
        "chat is waiting for: a handler: no handler takes messages, and its message (changed) "
        "waits, 1 message before it, for "
    )
    # The fifth took the second's place, and stands behind both.
    queued = next(line for line in said.out.splitlines() if line.startswith("Queue:"))
    assert "changed (slot 0, sequence 3)" in queued
    assert queued.endswith("waits, 2 messages before it")
    assert "Kubernetes:   cannot be asked" in said.out
    assert said.err.startswith("Warning: no Kubernetes configuration: ")


def test_a_message_that_was_taken_is_told_apart_from_one_that_waits(
    queue: Queue, weir: Command
) -> None:
    async def work(bus: Bus) -> None:
        await publish(bus, CHAT)
        await take(bus, 1)
        await publish(bus, CHAT, FIRST)
        await mark(bus, HANDLERS)

    queue.do(work)

    said = weir("why idep team-a/chat -o json", queue.url)
    slots = json.loads(said.out)["nats"]["slots"]

    assert [(slot["slot"], slot["isTaken"], slot["before"]) for slot in slots] == [
        ("0", True, 0),
        ("1", False, 0),
    ]


def test_a_lease_and_a_timer_are_told(queue: Queue, weir: Command) -> None:
    async def work(bus: Bus) -> None:
        leases = Leases(bus, bus.settings, "handlers-1")
        await leases.check()
        assert await leases.acquire(CHAT, 1) is not None
        await bus.publish(
            f"weir.t.{CHAT.token}",
            headers={
                "Nats-Schedule": "@at 2100-01-01T00:00:00.5Z",
                "Nats-Schedule-Target": f"weir.w.{CHAT.token}.t",
            },
        )

    queue.do(work)

    said = weir("why idep team-a/chat", queue.url)

    assert said.out.startswith("chat is waiting for: handlers-1, which works on it\n")
    assert "(2100-01-01T00:00:00Z)" in said.out
    assert "Lease:        handlers-1, renewed " in said.out


def test_what_was_given_up_is_told_from_its_dead_letter_and_its_failures(
    queue: Queue, weir: Command
) -> None:
    async def work(bus: Bus) -> None:
        await save_state(bus, CHAT, GIVEN_UP)
        await bury(bus, CHAT, GIVEN_UP, "RuntimeError", "handlers-1")

    queue.do(work)

    data = yaml.safe_load(weir("why idep team-a/chat -o yaml", queue.url).out)

    assert [cause["reason"] for cause in data["waitingFor"]] == ["Quarantined", "Refused"]
    assert data["summary"].startswith(
        "chat is waiting for: its cause of failure to be mended: given up after 10 failures, "
        "RuntimeError: no way; tried again in "
    )
    assert "weir dead retry inferadeployment team-a/chat" in "\n".join(data["steps"])
    assert (data["isReady"], data["kubernetes"]) == (None, None)
    assert data["nats"]["letter"]["handler"] == "handlers-1"
    assert data["errors"]["nats"] == ""


def test_streams_that_are_missing_hold_nothing_and_are_named(queue: Queue, weir: Command) -> None:
    async def lose(bus: Bus) -> None:
        for stream in ("QUEUE", "LOCK", "STATE", "DEAD", "HISTORY"):
            await bus.api(f"STREAM.DELETE.WEIR_{stream}")

    queue.do(lose)

    said = weir("why idep team-a/chat", queue.url)

    assert said.code == 0
    assert said.out.startswith("chat is waiting for: its queue: WEIR_QUEUE, WEIR_LOCK, ")


def test_where_neither_half_can_be_asked_nothing_is_told(weir: Command, nobody: str) -> None:
    said = weir("why idep team-a/chat", nobody)

    assert (said.code, said.out) == (1, "")
    assert "secret" not in said.err
    kubernetes, nats, last = said.err.splitlines()
    assert kubernetes.startswith("Warning: no Kubernetes configuration: ")
    assert nats.startswith("Warning: cannot connect to NATS at nats://127.0.0.1:")
    assert last.startswith("weir: nothing can be said of inferadeployment team-a/chat")


def test_an_api_server_that_does_not_answer_is_told_with_what_to_check(
    queue: Queue, weir: Command, nobody: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = f"http://{nobody.rpartition('@')[2]}"
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "gone",
                "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "me"}}],
                "clusters": [{"name": "gone", "cluster": {"server": server}}],
                "users": [{"name": "me", "user": {}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    said = weir("why idep team-a/chat", queue.url)

    assert (said.code, said.out.splitlines()[0]) == (
        0,
        "chat is waiting for: nothing that NATS knows of; the API server cannot be asked",
    )
    assert said.err.startswith(
        "Warning: the API server does not give inferadeployment team-a/chat: ConnectionLost: "
    )
    assert said.err.endswith("is it up, and does KUBECONFIG name the right one?\n")


def test_a_resource_must_be_named(weir: Command, nobody: str) -> None:
    assert weir("why idep", nobody).code == 2
