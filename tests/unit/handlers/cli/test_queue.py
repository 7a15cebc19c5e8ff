from __future__ import annotations

from typing import Any

import pytest

from handlers.cli.queue import Group, Queue, troubles


def told(**numbers: Any) -> list[str]:
    group = Group(name="kubernetes", kinds=("inferadeployment",), **numbers)
    return troubles(Queue(groups=(group,), streams=(), leases=()))


@pytest.mark.parametrize(
    "numbers",
    [{"pending": 1}, {"in_flight": 1}, {"pending": 1, "in_flight": 1}, {"pending": 1, "leases": 1}],
)
def test_messages_for_which_no_handler_lives_are_a_trouble(numbers: dict[str, int]) -> None:
    """In flight is also what a handler took that is dead by now."""
    (text,) = told(**numbers)
    assert "no handler asks for them (kubernetes): start `weir handlers`" in text


@pytest.mark.parametrize(
    "numbers",
    [
        {},
        {"timers": 3},
        {"pending": 1, "pulls": 1},
        {"in_flight": 1, "pulls": 15, "leases": 1},
        {"pending": 9, "in_flight": 16, "leases": 16},
    ],
)
def test_a_handler_at_work_or_nothing_to_do_is_none(numbers: dict[str, int]) -> None:
    assert told(**numbers) == []
