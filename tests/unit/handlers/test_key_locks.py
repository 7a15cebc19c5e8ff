"""One at a time for an object, in the order of asking, and nothing left behind."""

from __future__ import annotations

import asyncio

import pytest

from bridge.events import ObjectKey
from handlers.locks import KeyLocks
from tests.stack.eventually import PATIENCE_SECONDS

CHAT = ObjectKey("inferadeployment", "a", "chat")
OTHER = ObjectKey("inferadeployment", "a", "other")


async def _turns(count: int = 5) -> None:
    """Let everything that can go on do so."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_runs_of_one_object_follow_each_other_in_order_and_others_do_not_wait() -> None:
    locks = KeyLocks()
    done: list[str] = []
    gates = {name: asyncio.Event() for name in ("first", "second", "third", "other")}

    async def run(key: ObjectKey, name: str) -> None:
        async with locks.held(key):
            await gates[name].wait()
            done.append(name)

    async with asyncio.TaskGroup() as group:
        for name in ("first", "second", "third"):
            group.create_task(run(CHAT, name))
        group.create_task(run(OTHER, "other"))
        await _turns()
        for name in ("third", "second", "other"):
            gates[name].set()
        await _turns()
        assert done == ["other"]
        gates["first"].set()
    assert done == ["other", "first", "second", "third"]
    assert locks._locks == {}


async def test_a_waiter_that_is_cancelled_leaves_the_others_their_turn() -> None:
    locks = KeyLocks()
    gate = asyncio.Event()
    done: list[int] = []

    async def run(number: int) -> None:
        async with locks.held(CHAT):
            await gate.wait()
            done.append(number)

    tasks = [asyncio.create_task(run(number)) for number in range(3)]
    await _turns()
    tasks[1].cancel()
    await _turns()
    gate.set()
    await asyncio.wait(tasks)
    assert done == [0, 2]
    assert locks._locks == {}


async def test_a_run_that_fails_lets_the_next_one_in() -> None:
    locks = KeyLocks()
    with pytest.raises(ZeroDivisionError):
        async with locks.held(CHAT):
            raise ZeroDivisionError
    async with asyncio.timeout(PATIENCE_SECONDS), locks.held(CHAT):
        pass
    assert locks._locks == {}
