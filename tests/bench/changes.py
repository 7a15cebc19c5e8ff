"""Rows about edits of resources that exist: how soon they reach the child, and at what cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from handlers.cli.devstack.control_plane import CONTROLLERS
from tests.bench import bare_client, user
from tests.bench.meter import CpuMeter
from tests.bench.report import THE_BARE_CLIENT, Budget, Figure, percentile
from tests.bench.row import (
    THE_KOPF_OPERATOR,
    Bench,
    Team,
    born,
    patience_seconds,
    readiness_seconds,
    start_team,
)
from tests.bench.stage import WEIR, Stage
from tests.bench.timing import Edits, watch

PAUSE_SECONDS = 0.2
"""Between the end of an edit and the next one: latency is asked for, not throughput."""
NO_RESYNC_SECONDS = 86_400
"""Looks at what did not change are no part of a change's cost; their number grows with the size."""
CPU_PER_EDIT = "CPU per edit"

P50 = Budget(limit=25, text="at most 25 ms")
P99 = Budget(limit=100, text="at most 100 ms")
COST = Budget(limit=1.25, text="flat: at most 1.25x", of_ratio=True)


async def edits(bench: Bench) -> list[Figure]:
    """Return how soon single edits reach the child, compared with the same two requests alone."""
    count = bench.sizes.births
    each_way = min(bench.sizes.edits, count // 2)
    names = user.names(user.resources(count))
    async with bench.stage(CONTROLLERS, count) as made:
        processes = start_team(made, "weir")
        await born(made, "weir", count)
        await made.at_rest(readiness_seconds(count))
        weir = await _one_by_one(made, names[:each_way])
        for process in processes:
            process.kill()
        bare = Edits(bare_client.USER_AGENT, each_way, user.SUFFIX)
        for job in await _editions(made, names[each_way : 2 * each_way]):
            await bare_client.serve(made.bare, job, await bare_client.ask(made.user, job))
            await asyncio.sleep(PAUSE_SECONDS)
        within_seconds = patience_seconds(each_way)
        await watch(made.tail, bare, what="bare edits", within_seconds=within_seconds)
    return [
        Figure(
            what=f"edit to child patched, p{percent} of {each_way}",
            value=percentile(weir, percent),
            unit="ms",
            versus=f"{THE_BARE_CLIENT}, which need not be told",
            reference=percentile(bare.latencies_ms(), percent),
            budget=budget,
        )
        for percent, budget in ((50, P50), (99, P99))
    ]


async def burst(bench: Bench) -> list[Figure]:
    """Return how long edits at one instant take, compared with both others."""
    count = bench.sizes.births
    names = user.names(user.resources(count))[: bench.sizes.edits]
    kopf = await _burst(bench, "kopf", names)
    weir = await _burst(bench, "weir", names)
    async with bench.stage() as made:
        births = map(bare_client.birth, user.resources(count))
        await bare_client.work(made.user, made.bare, births)
        jobs = await _editions(made, names)
        made.tail.read()
        tally = Edits(bare_client.USER_AGENT, len(names), user.SUFFIX)
        await bare_client.work(made.user, made.bare, jobs)
        await watch(made.tail, tally, what="bare burst", within_seconds=patience_seconds(count))
        bare = tally.seconds()
    what = f"{len(names)} edits at once"
    applies_all = f"{THE_KOPF_OPERATOR}, which applies all children"
    return [
        Figure(what=what, value=weir, unit="s", versus=THE_BARE_CLIENT, reference=bare),
        Figure(what=what, value=weir, unit="s", versus=applies_all, reference=kopf),
    ]


async def _burst(bench: Bench, team: Team, names: Sequence[str]) -> float:
    count = bench.sizes.births
    async with bench.stage() as made:
        start_team(made, team)
        await born(made, team, count)
        tally = Edits(team, len(names), user.SUFFIX)
        await user.edit_all(made.user, names)
        what = f"{team}: burst"
        await watch(made.tail, tally, what=what, within_seconds=patience_seconds(count))
        return tally.seconds()


async def cost(bench: Bench) -> list[Figure]:
    """Return the CPU of bridge and handlers per edit, and its latency, at three sizes."""
    few, many = bench.sizes.few, bench.sizes.many
    sizes = (few, bench.sizes.births, many)
    spent = {count: await _cost(bench, count, min(bench.sizes.edits, few)) for count in sizes}
    return [
        Figure(
            what=f"{what}, {count:,} resources",
            value=spent[count][place],
            unit=unit,
            versus="" if count == few else f"with {few:,}",
            reference=None if count == few else spent[few][place],
            budget=COST if count == many and what == CPU_PER_EDIT else None,
        )
        for place, what, unit in ((0, CPU_PER_EDIT, "CPU ms"), (1, "edit to child, p50", "ms"))
        for count in sizes
    ]


async def _cost(bench: Bench, count: int, edits_made: int) -> tuple[float, float]:
    """Return the CPU milliseconds per edit, and the milliseconds of the median edit."""
    async with bench.stage() as made:
        processes = made.weir(resync_seconds=NO_RESYNC_SECONDS)
        await born(made, "weir", count)
        meter = CpuMeter(processes)
        latencies_ms = await _one_by_one(made, user.names(user.resources(edits_made)))
        await made.drained(patience_seconds(edits_made))
        used_ms = 1000 * sum(meter.used_seconds().values()) / edits_made
        return used_ms, percentile(latencies_ms, 50)


async def _one_by_one(made: Stage, names: Sequence[str]) -> list[float]:
    """Return how many milliseconds Weir took for each edit; none waits behind another."""
    latencies_ms = []
    for name in names:
        tally = Edits(WEIR, 1, user.SUFFIX)
        await user.edit_one(made.user, name, 0)
        await watch(made.tail, tally, what="an edit", within_seconds=patience_seconds(1))
        latencies_ms += tally.latencies_ms()
        await asyncio.sleep(PAUSE_SECONDS)
    return latencies_ms


async def _editions(made: Stage, names: Sequence[str]) -> list[bare_client.Job]:
    """Return the edits of these resources, prepared for the bare client."""
    live = {resource["metadata"]["name"]: resource for resource in await made.resources()}
    return [bare_client.edition(live[name], 1) for name in names]
