"""Rows about looking although nothing changed."""

from __future__ import annotations

from datetime import UTC, datetime

from handlers.cli.devstack.control_plane import CONTROLLERS
from handlers.cli.devstack.progress import say
from tests.bench import bare_client, user
from tests.bench.client import each
from tests.bench.meter import CpuMeter, cpu_seconds
from tests.bench.report import THE_BARE_CLIENT, Budget, Figure
from tests.bench.row import (
    SECONDS_AT_LEAST,
    Bench,
    born,
    patience_seconds,
    readiness_seconds,
    start_team,
)
from tests.bench.stage import WEIR
from tests.bench.timing import Looks, watch

RESYNCS = 2
RESYNC_SECONDS = 30
LOOKS_PER_SECOND = 50
"""So many looks leave a machine of two cores at ease."""

NO_WRITE = Budget(limit=0, text="0")


async def rest(bench: Bench) -> list[Figure]:
    """Return what is asked to change while everything is looked at twice and nothing happens."""
    count = bench.sizes.births
    resync_seconds = max(RESYNC_SECONDS, count // LOOKS_PER_SECOND)
    async with bench.stage(CONTROLLERS, count) as made:
        made.weir(resync_seconds=resync_seconds)
        await born(made, "weir", count)
        await made.at_rest(readiness_seconds(count))
        tally = Looks(WEIR, count, RESYNCS)
        within_seconds = SECONDS_AT_LEAST + resync_seconds * (RESYNCS + 1)
        await watch(made.tail, tally, what="rest", within_seconds=within_seconds)
    for event in tally.writes:
        say(f"  a write at rest: {event}")
    return [
        Figure(
            what="requests for a change",
            value=len(tally.writes),
            unit="requests",
            versus="looks",
            reference=tally.looks,
            budget=NO_WRITE,
        ),
        Figure(
            what="reads per look (one in six has a LIST per kind of child besides)",
            value=tally.reads / tally.looks,
            unit="requests",
            versus="itself and its children",
            reference=1 + user.CHILDREN_EACH,
        ),
    ]


async def resync(bench: Bench) -> list[Figure]:
    """Return how long the look at everything takes that a bridge begins with."""
    count = bench.sizes.many
    async with bench.stage() as made:
        bridge, handlers = start_team(made, "weir")
        await born(made, "weir", count)
        bridge.kill()
        made.tail.read()
        meter, begun = CpuMeter([handlers]), datetime.now(UTC)
        tally = Looks("weir-handlers", count, 1)
        again = made.start("bridge")
        within_seconds = patience_seconds(count)
        await watch(made.tail, tally, what="resync", within_seconds=within_seconds)
        used_seconds = sum(meter.used_seconds().values()) + cpu_seconds(again.pid)
        weir = tally.seconds(begun)
        for process in (again, handlers):
            process.kill()
        paths = [path for live in await made.resources() for path in bare_client.looks(live)]
        begun = datetime.now(UTC)
        await each(paths, lambda path: made.bare.send("GET", path))
        bare = (datetime.now(UTC) - begun).total_seconds()
    reading = f"{THE_BARE_CLIENT}, which reads them and their children"
    return [
        Figure(
            what=f"{count:,} resources looked at",
            value=weir,
            unit="s",
            versus=reading,
            reference=bare,
        ),
        Figure(what="bridge and handlers meanwhile", value=used_seconds, unit="CPU s"),
        Figure(what="requests for a change", value=len(tally.writes), unit="requests"),
    ]
