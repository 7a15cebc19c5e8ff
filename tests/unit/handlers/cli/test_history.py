from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handlers.cli.history import reach

NOW = datetime(2026, 11, 30, tzinfo=UTC)
WEEK = timedelta(days=7)


def stream(age: timedelta, **state: Any) -> dict[str, Any]:
    known = {"first_seq": 1, "messages": 0, "first_ts": "0001-01-01T00:00:00Z", **state}
    return {
        "created": ago(age),
        "config": {"max_age": int(WEEK.total_seconds()) * 10**9},
        "state": known,
    }


def ago(age: timedelta) -> str:
    return (NOW - age).isoformat().replace("+00:00", "Z")


DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)


@pytest.mark.parametrize(
    ("given", "reaches"),
    [
        (stream(2 * SECOND), 2 * SECOND),
        (stream(100 * DAY), WEEK),
        (stream(100 * DAY, first_seq=7, messages=9, first_ts=ago(HOUR)), HOUR),
        (stream(100 * DAY, first_seq=7, last_ts=ago(9 * DAY)), WEEK),
        (stream(100 * DAY, first_seq=7, last_ts=ago(HOUR)), HOUR),
    ],
    ids=["made just now", "old", "full", "all of it expired", "purged"],
)
def test_the_history_reaches_back_as_far_as_its_stream_would_still_know(
    given: dict[str, Any], reaches: timedelta
) -> None:
    assert reach(given, NOW) == NOW - reaches


def test_a_stream_that_says_nothing_reaches_nowhere() -> None:
    assert reach({}, NOW) is None
