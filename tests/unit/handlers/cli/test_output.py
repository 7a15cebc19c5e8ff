from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from handlers.cli import output

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
HOSTILE = "a\x1b[2J\x9b1m\u202etxt\u200b\x7f\x00"


def test_a_table_is_aligned_under_upper_case_headers() -> None:
    text = output.table(("Kind", "NAME", "ERROR"), [("idep", "chat", ""), ("idep", "", "boom")])

    assert text == ("KIND   NAME     ERROR\nidep   chat\nidep   <none>   boom")


def test_a_cell_is_one_line_that_a_terminal_only_shows() -> None:
    text = output.table(("NAME", "ERROR"), [(HOSTILE, "first\r\n  second\tthird")])

    assert text.splitlines()[1].split("   ") == [
        r"a\x1b[2J\x9b1m\u202etxt\u200b\x7f\x00",
        "first second third",
    ]


def test_letters_of_every_script_are_shown_as_they_are() -> None:
    assert output.printable("größe 模型 🦊") == "größe 模型 🦊"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_what_machines_read_is_the_data_and_holds_nothing_that_a_terminal_obeys(form: Any) -> None:
    data = {"name": HOSTILE, "lines": "one\n\x1btwo\n", "umlaut": "ü", "list": [1, None, True]}

    text = output.machine(data, form)

    assert (json.loads if form == "json" else yaml.safe_load)(text) == data
    assert text.replace("\n", "").isprintable()
    assert not set(text) & set("\u202e\u200b")


def test_text_of_several_lines_stays_readable_in_yaml() -> None:
    assert output.as_yaml({"script": "set -e\nrun\n"}) == "script: |\n  set -e\n  run\n"


@pytest.mark.parametrize(
    "text", ["403e10", "12:30", "1_000", "0x1f", "y", "on", "null", "2020-01-01"]
)
def test_text_that_looks_like_something_else_is_quoted_for_kubectl(text: str) -> None:
    assert output.as_yaml([text]) == f"- '{text}'\n"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600 + 12 * 60, "3h12m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (2 * 86400 + 4 * 3600, "2d4h"),
        (400 * 86400, "400d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
        (-60, "<invalid>"),
    ],
)
def test_an_age_is_said_as_kubectl_says_it(seconds: int, said: str) -> None:
    assert output.age(NOW - timedelta(seconds=seconds), NOW) == said


def test_an_unknown_time_has_no_age() -> None:
    assert output.age(output.moment("yesterday"), NOW) == "<unknown>"


def test_a_time_of_nats_is_understood_to_the_microsecond() -> None:
    when = output.moment("2026-05-01T11:59:00.123456789Z")

    assert when == datetime(2026, 5, 1, 11, 59, 0, 123456, tzinfo=UTC)
    assert output.clock(when) == "2026-05-01T11:59:00Z"


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (5 << 20, "5.0MiB"), (3 << 40, "3.0TiB")],
)
def test_a_size_is_said_in_binary_units(count: int, said: str) -> None:
    assert output.size(count) == said


@pytest.mark.parametrize(("error", "code"), [(output.CommandError, 1), (output.Mistake, 2)])
def test_an_error_is_one_line_and_an_exit_code(
    error: type[output.CommandError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: argparse.Namespace) -> int:
        raise error("no\n\x1bthing")

    assert output.told(fails)(argparse.Namespace()) == code

    assert capsys.readouterr() == ("", "weir: no \\x1bthing\n")
