"""What every row works with: sizes, stages, and the births that come before everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

from msgspec import Struct

from handlers.cli.devstack.process import Process
from tests.bench import user
from tests.bench.report import Figure
from tests.bench.stage import KOPF, WEIR, Parts, Stage, stage
from tests.bench.timing import Births, watch

Team: TypeAlias = Literal["weir", "kopf"]

THE_KOPF_OPERATOR = "the Kopf operator"

SECONDS_AT_LEAST = 120.0
SECONDS_PER_RESOURCE = 0.2
SECONDS_PER_READY_RESOURCE = 1.0
"""Patience: what takes longer than these is broken."""


class Sizes(Struct, frozen=True, kw_only=True):
    """How much of everything; the defaults are those of the budgets."""

    births: int = 1000
    edits: int = 200

    @property
    def few(self) -> int:
        """A tenth."""
        return max(1, self.births // 10)

    @property
    def many(self) -> int:
        """Ten times as many."""
        return self.births * 10


class Bench:
    """The programs, the sizes, and what the last stage ran on."""

    def __init__(self, parts: Parts, sizes: Sizes) -> None:
        self.parts = parts
        self.sizes = sizes
        self.machine: dict[str, str] = {}

    @asynccontextmanager
    async def stage(
        self, controllers: Sequence[str] = (), resources: int = 0
    ) -> AsyncIterator[Stage]:
        """Give a new stage."""
        async with stage(self.parts, controllers=controllers, resources=resources) as made:
            self.machine = made.machine
            yield made


class Row(Struct, frozen=True, kw_only=True):
    """A row of the benchmark."""

    name: str
    about: str
    """What it is, in words; names of sizes in braces."""
    run: Callable[[Bench], Awaitable[list[Figure]]]
    controllers: tuple[str, ...] = ()

    def told(self, sizes: Sizes) -> str:
        """Return what it is with the sizes of a run."""
        names = ("few", "births", "many", "edits")
        return self.about.format(**{name: f"{getattr(sizes, name):,}" for name in names})


def patience_seconds(count: int) -> float:
    """Return how long so many resources may take."""
    return SECONDS_AT_LEAST + SECONDS_PER_RESOURCE * count


def readiness_seconds(count: int) -> float:
    """Return how long the pods of so many resources may take."""
    return SECONDS_AT_LEAST + SECONDS_PER_READY_RESOURCE * count


def start_team(made: Stage, team: Team, handlers: int = 1) -> list[Process]:
    """Return the processes of whoever is measured, ready."""
    return made.kopf() if team == KOPF else made.weir(handlers)


def expected(writer: str, count: int) -> Births:
    """Return a tally of the births of so many resources by a writer."""
    return Births(writer, count, count * user.CHILDREN_EACH)


async def born(made: Stage, team: Team, count: int) -> Births:
    """
    Return what the births of so many resources took, once nothing of them is left to do.

    Where controllers run, what is not Ready yet is left to do, and looked at again and again: see
    `Stage.at_rest`.
    """
    tally = expected(team, count)
    await user.create(made.user, user.resources(count))
    what = f"{team}: {count:,} births"
    await watch(made.tail, tally, what=what, within_seconds=patience_seconds(count))
    if team == WEIR and not made.plane.controllers:
        await made.drained(patience_seconds(count))
    return tally
