"""
Figures, whether they meet their budgets, and the tables that show them.

Pure. `docs/benchmarks.jsonl` keeps every measurement, a line each; `docs/benchmarks.md` shows the
newest of every row between two markers, and what stands outside of them is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

BEGIN = "<!-- made by `make bench`: do not edit from here -->"
END = "<!-- made by `make bench`: to here -->"

_TITLE = """# Benchmarks

Every figure comes from one run on one machine and is compared with another one of that run: what
counts is the ratio. `make bench` measures anew and writes this page; the history is in
[benchmarks.jsonl](benchmarks.jsonl).
"""
_HOW = """Every figure has a control plane of its own (etcd in memory, without fsync), warmed by
50 births that are not stored. The clock is the API server's audit log, the same for all. Users are
administrators; Weir's processes have the ClusterRoles that we ship and nothing more, and so have
the bare client (for what an operator does) and the Kopf operator, which needs the right to patch
the resource besides. Settings are production's; but where no controllers run nothing gets Ready,
and looking again at what is not ready is put off. The Kopf operator
(`tests/bench/kopf_operator.py`) does less than Weir: no leases, no pruning, no eye on children, no
Events, no history."""
THE_BARE_CLIENT = "the bare client"
_BIRTHS = "1,000 births"
_BIRTHS_SECONDS = 10.7
"""What 1,000 births took a bare client on the machine that the budgets were set for."""
_SPEED = f"""Budgets of time are those of a machine on which the bare client makes {_BIRTHS} in
{_BIRTHS_SECONDS:g} s. The last column says what a figure is when it is divided by how many times as
long the bare client's births take here."""
_OF_TIME = ("s", "ms", "CPU s per 1,000")
_DECIMALS_BELOW = 100
"""Figures from here on are shown without decimals."""


class Budget(Struct, frozen=True, kw_only=True):
    """What a figure may be at most, or its ratio."""

    limit: float
    text: str
    of_ratio: bool = False


class Figure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured value, and what it is compared with."""

    what: str
    value: float
    unit: str
    versus: str = ""
    reference: float | None = None
    """The other's value, in the same unit."""
    budget: Budget | None = None

    @property
    def ratio(self) -> float | None:
        """Value to reference, None where there is nothing to compare with."""
        return self.value / self.reference if self.reference else None

    @property
    def is_met(self) -> bool | None:
        """Whether the budget is met, None where there is none."""
        if self.budget is None:
            return None
        judged = self.ratio if self.budget.of_ratio else self.value
        return judged is not None and judged <= self.budget.limit


class Measurement(Struct, frozen=True, kw_only=True):
    """What one row gave on one machine at one time; a line of the history."""

    row: str
    about: str
    """What was done, with which sizes."""
    controllers: tuple[str, ...]
    """Controllers of Kubernetes that ran."""
    at: str
    """RFC 3339, to the second."""
    commit: str
    machine: Mapping[str, str]
    figures: tuple[Figure, ...]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def line(measurement: Measurement) -> str:
    """Return a measurement as a line of the history."""
    return msgspec.json.encode(measurement).decode() + "\n"


def newest(history: str, order: Sequence[str]) -> list[Measurement]:
    """Return the last measurement of every row of `order`, in that order."""
    decoder = msgspec.json.Decoder(Measurement)
    last = {m.row: m for m in map(decoder.decode, filter(str.strip, history.splitlines()))}
    return [last[row] for row in order if row in last]


def document(present: str, measurements: Sequence[Measurement]) -> str:
    """Return the page with these measurements in the place of those that it shows."""
    made = f"{BEGIN}\n\n{_body(measurements)}\n{END}"
    before, begin, rest = present.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        return f"{present or _TITLE}\n{made}\n"
    return f"{before}{made}{after}"


def _body(measurements: Sequence[Measurement]) -> str:
    budgets = [
        (
            f"{measurement.row}: {figure.what}",
            _shown(figure),
            figure.budget.text,
            _verdict(figure),
            _at_its_speed(figure, _slowness(measurements, measurement.machine)),
        )
        for measurement in measurements
        for figure in measurement.figures
        if figure.budget is not None
    ]
    head = ("figure", "measured", "budget", "met", "as fast as where it was set")
    parts = [_HOW, "## Budgets", _SPEED, table(head, budgets)]
    for machine, rows in _machines(measurements):
        parts += [f"## Machine of {', '.join(rows)}", table(("", ""), machine)]
    for measurement in measurements:
        parts += [f"## {measurement.row}", section(measurement)]
    return "\n\n".join(parts) + "\n"


def _slowness(measurements: Sequence[Measurement], machine: Mapping[str, str]) -> float | None:
    """Return how many times as long as where the budgets were set births take the bare client."""
    for measurement in measurements:
        if measurement.row == "births" and measurement.machine == machine:
            for figure in measurement.figures:
                if figure.what == _BIRTHS and figure.versus == THE_BARE_CLIENT and figure.reference:
                    return figure.reference / _BIRTHS_SECONDS
    return None


def _at_its_speed(figure: Figure, slowness: float | None) -> str:
    is_of_time = figure.budget is not None and not figure.budget.of_ratio
    if slowness is None or not is_of_time or figure.unit not in _OF_TIME:
        return ""
    scaled = msgspec.structs.replace(figure, value=figure.value / slowness)
    return f"{_shown(scaled)} (of {slowness:.2f} times as long): {_verdict(scaled)}"


def section(measurement: Measurement) -> str:
    """Return what a row measured, in words and as a table."""
    controllers = ", ".join(measurement.controllers) or "none"
    rows = [
        (
            figure.what,
            f"{number(figure.value)} {figure.unit}",
            "" if figure.reference is None else f"{number(figure.reference)} {figure.unit}",
            figure.versus,
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            "" if figure.budget is None else f"{figure.budget.text}: {_verdict(figure)}",
        )
        for figure in measurement.figures
    ]
    head = ("figure", "measured", "other", "what the other is", "ratio", "budget")
    commit = f" at {measurement.commit}" if measurement.commit else ""
    return (
        f"{measurement.about}\n\nControllers of Kubernetes: {controllers}. "
        f"Measured {measurement.at}{commit}.\n\n{table(head, rows)}"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float) -> str:
    """Return a figure to as many digits as it deserves: 1,234 and 56.7 and 0.012, and 7 of 7."""
    if value == int(value) or value >= _DECIMALS_BELOW:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _shown(figure: Figure) -> str:
    if figure.budget is not None and figure.budget.of_ratio and figure.ratio is not None:
        return f"{figure.ratio:.2f}x"
    return f"{number(figure.value)} {figure.unit}"


def _verdict(figure: Figure) -> str:
    return "yes" if figure.is_met else "**no**"


def _machines(
    measurements: Sequence[Measurement],
) -> list[tuple[list[tuple[str, str]], list[str]]]:
    """Return every machine that was measured on, once, with the rows that it gave."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for measurement in measurements:
        found.setdefault(tuple(measurement.machine.items()), []).append(measurement.row)
    return [(list(machine), rows) for machine, rows in found.items()]
