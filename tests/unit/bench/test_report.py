from __future__ import annotations

from typing import Any

import pytest

from tests.bench.report import (
    BEGIN,
    THE_BARE_CLIENT,
    Budget,
    Figure,
    Measurement,
    document,
    line,
    newest,
    number,
    percentile,
)


def a_measurement(row: str, *figures: Figure, **fields: Any) -> Measurement:
    given = {"at": "2026-01-01T00:00:00Z", "machine": {"cores": "2"}, **fields}
    return Measurement(
        row=row, about=f"What {row} is.", controllers=(), commit="abc", figures=figures, **given
    )


def seconds(value: float, reference: float | None = None, limit: float | None = None) -> Figure:
    budget = None if limit is None else Budget(limit=limit, text=f"<= {limit}x", of_ratio=True)
    return Figure(
        what="all", value=value, unit="s", versus="others", reference=reference, budget=budget
    )


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (50, 5), (90, 9), (91, 10), (99, 10), (100, 10)]
)
def test_a_percentile_is_the_value_of_the_nearest_rank(percent: float, expected: float) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], percent) == expected


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([7.0], percent) for percent in (50, 99)] == [7.0, 7.0]


def test_a_budget_judges_the_ratio_where_it_says_so_and_else_the_value() -> None:
    of_value = Budget(limit=10, text="at most 10 s")
    slow = Figure(what="x", value=11, unit="s", reference=20, budget=of_value)

    assert slow.is_met is False
    assert seconds(12, reference=10, limit=1.25).is_met is True
    assert seconds(13, reference=10, limit=1.25).is_met is False
    assert seconds(13).is_met is None


def test_a_ratio_that_could_not_be_had_meets_no_budget() -> None:
    assert seconds(1, reference=None, limit=1.25).is_met is False


def test_no_write_at_rest_meets_a_budget_of_none() -> None:
    none = Budget(limit=0, text="0")

    assert Figure(what="writes", value=0, unit="requests", budget=none).is_met is True
    assert Figure(what="writes", value=1, unit="requests", budget=none).is_met is False


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (40.0, "40"),
        (0.0123, "0.012"),
        (0.5, "0.5"),
        (9.96, "10.0"),
        (99.94, "99.9"),
        (12345.6, "12,346"),
    ],
)
def test_a_number_has_as_many_digits_as_it_deserves(value: float, shown: str) -> None:
    assert number(value) == shown


def test_of_every_row_the_newest_measurement_is_shown_in_the_given_order() -> None:
    history = "".join(
        line(a_measurement(row, seconds(value)))
        for row, value in (("a", 1), ("b", 2), ("a", 3), ("gone", 4))
    )

    found = newest(history, ["b", "a", "never"])

    assert [(m.row, m.figures[0].value) for m in found] == [("b", 2), ("a", 3)]


def test_the_page_keeps_what_was_written_around_the_figures() -> None:
    first = document("", [a_measurement("a", seconds(1, 2))])
    assert "| 1 s |" in first
    written = f"{first}\n## Where the time goes\n\nIn the API server.\n"

    second = document(written, [a_measurement("a", seconds(8, 2))])

    assert second.startswith(first[: first.index(BEGIN)])
    assert second.endswith("\n## Where the time goes\n\nIn the API server.\n")
    assert "| 8 s | 2 s | others | 4.00 |" in second
    assert "| 1 s |" not in second


def test_budgets_of_time_are_shown_for_a_machine_as_fast_as_theirs() -> None:
    births = Figure(what="1,000 births", value=24, unit="s", versus=THE_BARE_CLIENT, reference=21.4)
    slow = Figure(what="p50", value=30, unit="ms", budget=Budget(limit=25, text="at most 25 ms"))
    large = Figure(what="size", value=30, unit="MiB", budget=Budget(limit=25, text="at most 25"))

    edits = a_measurement("edits", slow, large)
    elsewhere = a_measurement("start", slow, machine={"cores": "4"})
    page = document("", [a_measurement("births", births), edits, elsewhere])

    assert "| **no** | 15 ms (of 2.00 times as long): yes |" in page
    assert "| edits: size | 30 MiB | at most 25 | **no** |  |" in page
    assert "| start: p50 | 30 ms | at most 25 ms | **no** |  |" in page


def test_the_page_says_which_budgets_are_met_and_on_which_machine() -> None:
    page = document(
        "",
        [
            a_measurement("a", seconds(12, 10, 1.25)),
            a_measurement("b", seconds(13, 10, 1.25), machine={"cores": "4"}),
        ],
    )

    assert "| a: all | 1.20x | <= 1.25x | yes |" in page
    assert "| b: all | 1.30x | <= 1.25x | **no** |" in page
    assert "## Machine of a\n" in page
    assert "| cores | 4 |" in page
