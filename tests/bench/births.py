"""Rows about resources that come to be: how fast, at what cost, and from a standing start."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime

from handlers.cli.devstack.process import Process
from tests.bench import bare_client, user
from tests.bench.client import each
from tests.bench.meter import CpuMeter, resident_mib
from tests.bench.report import THE_BARE_CLIENT, Budget, Figure, number
from tests.bench.row import (
    SECONDS_AT_LEAST,
    THE_KOPF_OPERATOR,
    Bench,
    Team,
    born,
    expected,
    patience_seconds,
    start_team,
)
from tests.bench.stage import KOPF, WEIR, Stage
from tests.bench.timing import Births, FirstWrite, watch

MANY_HANDLERS = 4
STARTS = 5

BIRTHS = Budget(limit=1.25, text="at most 1.25x (floor 1.6x)", of_ratio=True)
CPU = Budget(limit=7, text="at most 7 s")
MEMORY = Budget(limit=130, text="at most 130 MiB (goal 100)")
START = Budget(limit=0.8, text="at most 0.8 s")


async def births(bench: Bench) -> list[Figure]:
    """Return how long births take, compared with both others."""
    count = bench.sizes.births
    async with bench.stage() as made:
        bare = await _bare_births(made, count)
    kopf = (await _births(bench, "kopf", count)).seconds()
    tally = await _births(bench, "weir", count)
    what, weir = f"{count:,} births", tally.seconds()
    return [
        Figure(
            what=what, value=weir, unit="s", versus=THE_BARE_CLIENT, reference=bare, budget=BIRTHS
        ),
        Figure(what=what, value=weir, unit="s", versus=THE_KOPF_OPERATOR, reference=kopf),
        Figure(
            what="writes of the handlers per birth",
            value=tally.writes / count,
            unit="requests",
            versus=THE_BARE_CLIENT,
            reference=user.CHILDREN_EACH + 1,
        ),
    ]


async def handlers(bench: Bench) -> list[Figure]:
    """Return how long births take with more handlers, compared with one."""
    count = bench.sizes.births
    seconds = {
        number: (await _births(bench, "weir", count, number)).seconds()
        for number in (1, 2, MANY_HANDLERS)
    }
    return [
        Figure(
            what=f"{count:,} births, {number} handlers process{'' if number == 1 else 'es'}",
            value=took,
            unit="s",
            versus="" if number == 1 else "one handlers process",
            reference=None if number == 1 else seconds[1],
        )
        for number, took in seconds.items()
    ]


async def _births(bench: Bench, team: Team, count: int, handlers: int = 1) -> Births:
    async with bench.stage() as made:
        start_team(made, team, handlers)
        return await born(made, team, count)


async def _bare_births(made: Stage, count: int) -> float:
    """Return the seconds that the bare client needs."""
    jobs = [bare_client.birth(manifest) for manifest in user.resources(count)]
    tally = expected(bare_client.USER_AGENT, count)
    await bare_client.work(made.user, made.bare, jobs)
    within_seconds = patience_seconds(count)
    await watch(made.tail, tally, what="bare client", within_seconds=within_seconds)
    return tally.seconds()


async def cpu(bench: Bench) -> list[Figure]:
    """Return the CPU seconds of every process for births, until nothing is left to do."""
    count = bench.sizes.births
    per_thousand = 1000 / count
    async with bench.stage() as made:
        meter = CpuMeter(start_team(made, "kopf"))
        await born(made, "kopf", count)
        kopf = sum(meter.used_seconds().values()) * per_thousand
    async with bench.stage() as made:
        servers = CpuMeter(made.servers)
        await _bare_births(made, count)
        bare = servers.used_seconds()
    async with bench.stage() as made:
        ours, servers = CpuMeter(start_team(made, "weir")), CpuMeter(made.servers)
        await born(made, "weir", count)
        used, beside = ours.used_seconds(), servers.used_seconds()
    unit = "CPU s per 1,000"
    return [
        Figure(
            what="all processes of Weir",
            value=sum(used.values()) * per_thousand,
            unit=unit,
            versus=THE_KOPF_OPERATOR,
            reference=kopf,
            budget=CPU,
        ),
        *(
            Figure(what=name, value=seconds * per_thousand, unit=unit)
            for name, seconds in used.items()
        ),
        *(
            Figure(
                what=f"{name} meanwhile",
                value=seconds * per_thousand,
                unit=unit,
                versus=THE_BARE_CLIENT,
                reference=bare[name] * per_thousand or None,
            )
            for name, seconds in beside.items()
        ),
    ]


async def memory(bench: Bench) -> list[Figure]:
    """Return the resident memory of every process after births, at two sizes."""
    some, many = bench.sizes.births, bench.sizes.many
    kopf = (await _resident(bench, "kopf", some))[KOPF]
    few_held, many_held = await _resident(bench, "weir", some), await _resident(bench, "weir", many)
    figures = []
    for component, (now, highest) in few_held.items():
        then, then_highest = many_held[component]
        figures += [
            Figure(
                what=f"{component}, {some:,} resources (highest {number(highest)})",
                value=now,
                unit="MiB",
                versus=THE_KOPF_OPERATOR,
                reference=kopf[0],
            ),
            Figure(
                what=f"{component}, {many:,} resources (highest {number(then_highest)})",
                value=then,
                unit="MiB",
                versus=f"with {some:,}",
                reference=now,
                budget=MEMORY,
            ),
        ]
    return figures


async def _resident(bench: Bench, team: Team, count: int) -> dict[str, tuple[float, float]]:
    """Return, by the kind of process, its memory now and at its highest, in MiB."""
    async with bench.stage() as made:
        processes = start_team(made, team)
        await born(made, team, count)
        return {p.name.partition("-")[0]: resident_mib(p.pid) for p in processes}


async def start(bench: Bench) -> list[Figure]:
    """Return how long a new process takes to its first write, for work that waits."""
    seconds: dict[str, list[float]] = {WEIR: [], KOPF: []}
    async with bench.stage() as made:
        made.start("bridge").wait_ready()
        for manifest in user.resources(STARTS):
            await user.create(made.user, [manifest])
            await made.waiting(1, SECONDS_AT_LEAST)
            made.tail.read()
            begun = datetime.now(UTC)
            process: Process = made.start("handlers")
            seconds[WEIR].append(await _first_write(made, WEIR, begun))
            await made.drained(SECONDS_AT_LEAST)
            process.terminate()
    async with bench.stage() as made:
        for manifest in user.resources(STARTS):
            await user.create(made.user, [manifest])
            made.tail.read()
            begun = datetime.now(UTC)
            process, _ = made.start_kopf()
            seconds[KOPF].append(await _first_write(made, KOPF, begun))
            process.terminate()
    return [
        Figure(
            what=f"start of handlers to their first write, median of {STARTS}",
            value=statistics.median(seconds[WEIR]),
            unit="s",
            versus=THE_KOPF_OPERATOR,
            reference=statistics.median(seconds[KOPF]),
            budget=START,
        )
    ]


async def _first_write(made: Stage, writer: str, begun: datetime) -> float:
    tally = FirstWrite(writer)
    await watch(made.tail, tally, what="first write", within_seconds=SECONDS_AT_LEAST)
    return tally.seconds(begun)


async def from_zero(bench: Bench) -> list[Figure]:
    """Return how long new handlers take for what has been waiting in the queue."""
    count = bench.sizes.births
    async with bench.stage() as made:
        jobs = [bare_client.birth(manifest) for manifest in user.resources(count)]
        asked = [(job, await bare_client.ask(made.user, job)) for job in jobs]
        begun = datetime.now(UTC)
        await each(asked, lambda pair: bare_client.serve(made.bare, *pair))
        bare = (datetime.now(UTC) - begun).total_seconds()
    async with bench.stage() as made:
        made.start("bridge").wait_ready()
        await user.create(made.user, user.resources(count))
        await made.waiting(count, patience_seconds(count))
        begun = datetime.now(UTC)
        for _ in range(MANY_HANDLERS):
            made.start("handlers")
        tally = expected(WEIR, count)
        within_seconds = patience_seconds(count)
        await watch(made.tail, tally, what="from zero", within_seconds=within_seconds)
        empty = (await made.drained(within_seconds) - begun).total_seconds()
    versus = f"{THE_BARE_CLIENT}, which runs already"
    written = tally.seconds(begun)
    return [
        Figure(what="until all is written", value=written, unit="s", versus=versus, reference=bare),
        Figure(
            what="until the queue is empty", value=empty, unit="s", versus=versus, reference=bare
        ),
    ]
