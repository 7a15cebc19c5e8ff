from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.events import EventType
from bridge.publish import RESYNC_RANK, Waiting


def waiting(rank: int, seen: float = 0.0, type: EventType = EventType.CHANGED) -> Waiting:  # noqa: A002
    return Waiting(type, f"id-{rank}", rank, seen)


@given(st.lists(st.integers(RESYNC_RANK, 50), min_size=1))
def test_of_the_events_that_wait_for_one_key_the_latest_state_is_told_and_the_oldest_time(
    ranks: list[int],
) -> None:
    """An id that another bridge may have published before the latest state must not survive."""
    kept = waiting(ranks[0], seen=0.0)
    for n, rank in enumerate(ranks[1:], start=1):
        kept = kept.or_later(waiting(rank, seen=float(n)))
    assert (kept.id, kept.seen) == (f"id-{max(ranks)}", 0.0)


def test_a_look_never_hides_a_change() -> None:
    look = waiting(RESYNC_RANK, type=EventType.RESYNC)
    assert waiting(5).or_later(look).type == EventType.CHANGED
    assert look.or_later(waiting(0)).type == EventType.CHANGED


def test_an_event_that_comes_back_unsent_gives_way_to_a_later_one() -> None:
    assert waiting(5).or_later(waiting(7)).id == "id-7"
    assert waiting(7).or_later(waiting(5)).id == "id-7"
    assert waiting(7).or_later(None) == waiting(7)
