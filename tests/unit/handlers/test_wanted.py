"""What a resource asks for, or that only an edit of it helps."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.children import wanted_of
from handlers.handler import Facts, TerminalError
from handlers.inferadeployment import HANDLER
from tests.unit.handlers.inferadeployment.resources import raw


@pytest.mark.parametrize("levels", [700, 900])
def test_a_spec_that_no_renderer_gets_to_the_bottom_of_is_the_users_to_mend(levels: int) -> None:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"d": deep}
    pod = {"containers": [{"name": "c", "image": "x", "zzz": deep}]}
    services = {"worker": {"componentType": "worker", "extraPodSpec": pod}}
    with pytest.raises(TerminalError, match="nested too deeply") as refused:
        wanted_of(HANDLER, raw(services=services), Facts())
    assert refused.value.reason == "InvalidSpec"
