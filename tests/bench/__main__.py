"""`python -m tests.bench [ROW ...]`: measure, show the tables, and keep them where told to."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import aiohttp
import uvloop

from handlers.cli.devstack import locate
from handlers.cli.devstack.process import ProcessError
from handlers.cli.devstack.progress import say
from handlers.cli.devstack.weir import REPOSITORY
from tests.bench.machine import commit
from tests.bench.report import Measurement, document, line, newest, section
from tests.bench.row import Bench, Row, Sizes
from tests.bench.rows import ROWS
from tests.bench.stage import Parts
from tests.bench.timing import TooSlow

PAGE = REPOSITORY / "docs" / "benchmarks.md"
HISTORY = PAGE.with_suffix(".jsonl")
OK, FAILED, INTERRUPTED = 0, 1, 130
ROW_SECONDS_MAX = 3600.0
"""No row takes longer, whatever its parts allow themselves."""
IDLE_LOAD_MAX = 0.5
SCRUBBED = ("WEIR_", "OTEL_", "NATS_", "KUBECONFIG", "KUBERNETES_")
KEPT = "WEIR_CACHE_DIR"


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every row was measured, 1 when one was not."""
    asked = _parser().parse_args(arguments)
    # Nothing of the user's own settings may reach what is measured.
    for name in [n for n in os.environ if n.startswith(SCRUBBED) and n != KEPT]:
        del os.environ[name]
    try:
        control_plane = locate.installed(locate.CONTROL_PLANE, os.environ)
        parts = Parts(
            control_plane=locate.control_plane_binaries(control_plane, os.environ),
            nats=locate.installed(locate.NATS, os.environ)["nats-server"],
        )
    except locate.MissingBackend as exc:
        say(f"bench: {exc}")
        return FAILED
    if (load := os.getloadavg()[0]) > IDLE_LOAD_MAX:
        say(f"bench: this machine has other work (load {load:.1f}): the figures will be off")
    bench = Bench(parts, Sizes(births=asked.births, edits=asked.edits))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(
            _until_signalled(bench, asked.rows or ROWS, keep=asked.keep, output=asked.output)
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure Weir on this machine, against a bare client and a Kopf operator. "
        "All rows take about half an hour on two cores that have nothing else to do.",
        epilog="rows: " + ", ".join(row.name for row in ROWS),
    )
    parser.add_argument(
        "rows", nargs="*", type=_row, metavar="ROW", help="what to measure (default: everything)"
    )
    parser.add_argument(
        "--births",
        type=_at_least(10),
        default=Sizes().births,
        help="resources; some rows take a tenth or ten times as many (default: %(default)s)",
    )
    parser.add_argument(
        "--edits", type=_at_least(1), default=Sizes().edits, help="edits (default: %(default)s)"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="add the figures to docs/benchmarks.jsonl and show them in docs/benchmarks.md",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


def _row(name: str) -> Row:
    found = next((row for row in ROWS if row.name == name), None)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"there is no row {name!r}; see --help for those there are"
        )
    return found


def _at_least(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} must be a number, {least} or more")
        return int(text)

    return count


async def _until_signalled(bench: Bench, rows: Sequence[Row], *, keep: bool, output: str) -> int:
    """Measure; a signal ends everything that was started, and what was kept stays."""
    work = asyncio.create_task(_measure_all(bench, rows, keep=keep, output=output))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        say("\nbench: interrupted; everything that it started has ended")
        return INTERRUPTED


async def _measure_all(bench: Bench, rows: Sequence[Row], *, keep: bool, output: str) -> int:
    failed = []
    for row in rows:
        say(f"bench: {row.name} ...")
        begun = time.monotonic()
        try:
            measurement = await _measure(bench, row)
        except (TooSlow, ProcessError, TimeoutError, aiohttp.ClientError) as exc:
            say(f"bench: {row.name} failed: {exc!r}")
            failed.append(row.name)
            continue
        say(f"bench: {row.name} took {time.monotonic() - begun:.0f} s")
        if output == "json":
            print(line(measurement), end="", flush=True)
        else:
            print(f"\n## {row.name}\n\n{section(measurement)}", flush=True)
        if keep:
            _keep(measurement)
    if failed:
        say(f"bench: not measured: {', '.join(failed)}")
    return FAILED if failed else OK


async def _measure(bench: Bench, row: Row) -> Measurement:
    async with asyncio.timeout(ROW_SECONDS_MAX):
        figures = await row.run(bench)
    return Measurement(
        row=row.name,
        about=row.told(bench.sizes),
        controllers=row.controllers,
        at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=commit(),
        machine=bench.machine,
        figures=tuple(figures),
    )


def _keep(measurement: Measurement) -> None:
    """The history has one line more, and the page shows the newest of every row."""
    PAGE.parent.mkdir(exist_ok=True)
    with HISTORY.open("a") as history:
        history.write(line(measurement))
    rows = newest(HISTORY.read_text(), [row.name for row in ROWS])
    PAGE.write_text(document(PAGE.read_text() if PAGE.exists() else "", rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
