"""What runs at once follows what the API server keeps up with."""

from __future__ import annotations

from handlers.limit import ConcurrencyLimit


def test_a_server_that_keeps_up_is_used_in_full() -> None:
    limit = ConcurrencyLimit(16, hold_seconds=5)
    for _ in range(100):
        limit.kept_up()
    assert limit.allowed == 16


def test_all_calls_that_were_in_flight_together_halve_it_once() -> None:
    limit = ConcurrencyLimit(16, hold_seconds=5)
    assert [limit.too_slow(100 + number / 10) for number in range(16)] == [True] + [False] * 15
    assert limit.allowed == 8


def test_a_server_that_stays_slow_gets_one_at_a_time_and_never_none() -> None:
    limit = ConcurrencyLimit(10, hold_seconds=5)
    seen = []
    for moment in range(0, 50, 5):
        limit.too_slow(float(moment))
        seen.append(limit.allowed)
    assert seen == [5, 2, 1, 1, 1, 1, 1, 1, 1, 1]


def test_a_round_of_reconciles_that_kept_up_allows_one_more() -> None:
    limit = ConcurrencyLimit(16, hold_seconds=5)
    limit.too_slow(0)
    seen = []
    for _ in range(10):
        for _ in range(limit.allowed + 1):
            limit.kept_up()
        seen.append(limit.allowed)
    assert seen == [9, 10, 11, 12, 13, 14, 15, 16, 16, 16]


def test_where_one_is_the_most_it_stays_one() -> None:
    limit = ConcurrencyLimit(1, hold_seconds=5)
    assert not limit.too_slow(0)
    limit.kept_up()
    assert limit.allowed == 1
