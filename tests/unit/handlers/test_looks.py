"""When what is not ready is looked at again, and when a look asks for all children."""

from __future__ import annotations

import pytest

from bridge.events import ChangeEvent, EventType, ObjectKey, resync_id
from bridge.settings import Settings
from handlers.children import lists
from handlers.reconcile import look_again_seconds


@pytest.mark.parametrize(
    ("waited", "expected"), [(0, 10), (59, 10), (120, 20), (360, 60), (86_400, 60)]
)
def test_the_longer_it_takes_the_less_often_it_is_looked_at(waited: float, expected: float) -> None:
    assert look_again_seconds(waited, Settings()) == expected


def test_it_is_never_looked_at_more_often_than_the_setting_says() -> None:
    assert look_again_seconds(7_000, Settings(not_ready_seconds=600)) == 600


def a_look(epoch: str, *, type_: EventType = EventType.RESYNC, name: str = "chat") -> ChangeEvent:
    key = ObjectKey("inferadeployment", "team", name)
    return ChangeEvent(key=key, type=type_, id=resync_id(key, epoch) if epoch else "")


def test_one_periodic_look_in_so_many_lists_and_not_at_all_resources_at_once() -> None:
    listing = {
        name: [epoch for epoch in range(12) if lists(a_look(str(epoch), name=name), 6)]
        for name in map(str, range(60))
    }
    assert all(len(epochs) == 2 and epochs[1] - epochs[0] == 6 for epochs in listing.values())
    assert {epochs[0] for epochs in listing.values()} == set(range(6))
    assert all(lists(a_look(str(epoch)), 1) for epoch in range(12))


def test_the_look_that_a_person_asks_for_lists_and_that_of_a_bridge_which_starts_does_not() -> None:
    assert lists(a_look(""), 6)
    assert not lists(a_look("start-0123456789abcdef"), 1)
    assert not lists(a_look("", type_=EventType.CHANGED), 1)
