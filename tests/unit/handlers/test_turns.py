"""Many runs beside each other, or one alone: what may begin, and what has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handlers.locks import Solitude


class Stage:
    """Runs that begin when they may, and end when they are told."""

    def __init__(self) -> None:
        self.solitude = Solitude()
        self.running: set[str] = set()
        self.end: dict[str, asyncio.Event] = {}

    async def run(self, name: str, *, alone: bool = False) -> None:
        """Be among the running from when the turn comes until told to end."""
        self.end[name] = asyncio.Event()
        async with self.solitude.turn() as turn:
            if alone:
                await turn.alone()
            self.running.add(name)
            await self.end[name].wait()
            self.running.discard(name)

    async def settle(self) -> set[str]:
        """Return who runs once everybody did what can be done now."""
        for _ in range(20):
            await asyncio.sleep(0)
        return set(self.running)


@asynccontextmanager
async def _stage() -> AsyncIterator[tuple[Stage, asyncio.TaskGroup]]:
    stage = Stage()
    async with asyncio.TaskGroup() as tasks:
        yield stage, tasks
        for event in stage.end.values():
            event.set()


async def test_a_suspect_waits_for_those_that_run_and_keeps_others_from_beginning() -> None:
    async with _stage() as (stage, tasks):
        tasks.create_task(stage.run("first"))
        await stage.settle()
        tasks.create_task(stage.run("suspect", alone=True))
        await stage.settle()
        tasks.create_task(stage.run("late"))
        assert await stage.settle() == {"first"}

        stage.end["first"].set()
        assert await stage.settle() == {"suspect"}

        stage.end["suspect"].set()
        assert await stage.settle() == {"late"}


async def test_two_suspects_run_one_after_the_other() -> None:
    async with _stage() as (stage, tasks):
        tasks.create_task(stage.run("one", alone=True))
        tasks.create_task(stage.run("two", alone=True))
        [first] = await stage.settle()
        stage.end[first].set()
        [second] = await stage.settle()
        assert {first, second} == {"one", "two"}


async def test_a_suspect_that_is_cancelled_while_it_waits_lets_others_begin() -> None:
    async with _stage() as (stage, tasks):
        tasks.create_task(stage.run("first"))
        await stage.settle()
        suspect = tasks.create_task(stage.run("suspect", alone=True))
        await stage.settle()
        suspect.cancel()
        tasks.create_task(stage.run("late"))
        assert await stage.settle() == {"first", "late"}


async def test_a_suspect_that_is_cancelled_while_it_runs_lets_others_begin() -> None:
    async with _stage() as (stage, tasks):
        suspect = tasks.create_task(stage.run("suspect", alone=True))
        assert await stage.settle() == {"suspect"}
        suspect.cancel()
        tasks.create_task(stage.run("late"))
        assert await stage.settle() >= {"late"}
