"""When a look at the workloads alone may do."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.events import ChangeEvent, ChildHint, EventType, ObjectKey
from crds.kubernetes import Manifest
from handlers.conditions import Reason
from handlers.glance import may_suffice
from handlers.handler import ChildName, Rendering

KEY = ObjectKey("inferadeployment", "a", "chat")


def a_rendering(*names: str) -> Rendering:
    children = tuple({"kind": "Service", "metadata": {"name": name}} for name in names)
    return Rendering(children=children, keep=(ChildName("StatefulSet", "kept"),))


def an_event(type_: EventType = EventType.OBSERVED, *hints: tuple[str, str]) -> ChangeEvent:
    children = tuple(ChildHint(kind, name, "uid") for kind, name in hints)
    return ChangeEvent(key=KEY, type=type_, id="id", children=children)


def an_owner(
    *,
    observed: int | None = 2,
    degraded: str | None = Reason.AS_ASKED,
    progressing: str = Reason.WAITING_FOR_PODS,
    judged_at: int = 2,
) -> Manifest:
    judged: list[Any] = [{"type": "Progressing", "reason": progressing}, "of a former operator"]
    if degraded is not None:
        judged.append({"type": "Degraded", "reason": degraded, "observedGeneration": judged_at})
    return {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": observed, "conditions": judged},
    }


@pytest.mark.parametrize("type_", [EventType.OBSERVED, EventType.TIMER])
def test_what_was_as_asked_for_is_glanced_at(type_: EventType) -> None:
    event = an_event(type_, ("Service", "here"), ("StatefulSet", "kept"))
    assert may_suffice(event, a_rendering("here", "there"), an_owner())


@pytest.mark.parametrize(
    "type_", [EventType.CHANGED, EventType.DELETED, EventType.REFERRED, EventType.RESYNC]
)
def test_what_says_more_than_how_workloads_do_takes_a_full_look(type_: EventType) -> None:
    assert not may_suffice(an_event(type_), a_rendering("here"), an_owner())


def test_so_does_a_child_that_is_not_asked_for() -> None:
    event = an_event(EventType.OBSERVED, ("Service", "here"), ("Service", "too-many"))
    assert not may_suffice(event, a_rendering("here"), an_owner())


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param({"metadata": {"generation": 1}}, id="a birth"),
        pytest.param(an_owner(observed=1), id="an edit"),
        pytest.param(an_owner(observed=None), id="another operator's status"),
        pytest.param(an_owner(judged_at=1), id="another operator's status with our conditions"),
        pytest.param(an_owner(degraded=Reason.REFUSED), id="a child that is not as asked for"),
        pytest.param(an_owner(degraded=None), id="never judged"),
        pytest.param(an_owner(progressing=Reason.PAUSED), id="paused when it was last seen"),
    ],
)
def test_so_does_a_resource_that_was_not_as_asked_for(owner: Manifest) -> None:
    assert not may_suffice(an_event(), a_rendering("here"), owner)
