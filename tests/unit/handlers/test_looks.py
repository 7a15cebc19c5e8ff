"""When what is not ready is looked at again."""

from __future__ import annotations

import pytest

from bridge.settings import Settings
from handlers.reconcile import look_again_seconds


@pytest.mark.parametrize(
    ("waited", "expected"), [(0, 10), (59, 10), (120, 20), (360, 60), (86_400, 60)]
)
def test_the_longer_it_takes_the_less_often_it_is_looked_at(waited: float, expected: float) -> None:
    assert look_again_seconds(waited, Settings()) == expected


def test_it_is_never_looked_at_more_often_than_the_setting_says() -> None:
    assert look_again_seconds(7_000, Settings(not_ready_seconds=600)) == 600
