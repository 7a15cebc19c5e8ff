"""What `weir render --diff` tells of what waits, and of what would stay."""

from __future__ import annotations

from msgspec.structs import replace

from bridge.events import ObjectKey
from handlers.apply import Child
from handlers.children import Matched
from handlers.cli.diff_text import (
    Compared,
    ObjectDifference,
    as_plain,
    as_text,
    objects_of,
    summary,
)
from handlers.dry_run import Foretold
from handlers.handler import ChildName
from handlers.stays import Stay

WAITS = "infera-operator wrote Service chat-server at 2026-11-30T12:00:00Z, so it still runs"
AT_REST = Compared(
    kind="InferaDeployment", key=ObjectKey("inferadeployment", "team-a", "chat"), waits=WAITS
)
DIFFERS = replace(
    AT_REST, objects=(ObjectDifference(action="create", kind="Role", name="chat-disc"),)
)


def test_what_would_be_done_is_told_below_what_it_would_wait_for() -> None:
    assert as_text(DIFFERS).splitlines() == [
        "InferaDeployment team-a/chat",
        f"  ! OtherOperator: {WAITS}",
        "  + Role/chat-disc",
    ]
    assert summary([DIFFERS, replace(DIFFERS, waits="")]) == (
        "2 of 2 resources differ; create 2; no pod restarts; "
        "1 would wait for another operator to stop"
    )


def test_a_resource_at_rest_that_another_operator_writes_is_told_and_does_not_differ() -> None:
    assert as_text(AT_REST).splitlines()[1:] == [f"  ! OtherOperator: {WAITS}"]
    assert (AT_REST.is_worth_telling, AT_REST.differs) == (True, False)


def test_machines_are_told_too_and_of_others_nothing() -> None:
    told, free = as_plain([DIFFERS, replace(DIFFERS, waits="")])["resources"]
    assert told["waits"] == WAITS
    assert "waits" not in free


FORMER = ChildName("Deployment", "chat-worker")


def lines_of(matched: Matched, *foretold: Foretold) -> list[str]:
    objects = objects_of(matched, foretold)
    return as_text(replace(AT_REST, waits="", objects=objects)).splitlines()[1:]


def handing_over(*, is_blocked: bool) -> Matched:
    stay = Stay(child=FORMER, why="goes on serving for a while", is_blocked=is_blocked)
    return Matched(children=[], problems=[], stays=(stay,))


def test_what_goes_for_another_kind_is_told_with_what_it_waits_for() -> None:
    before = {"spec": {"template": {}}, "status": {"replicas": 2}}
    gone = Foretold(name=FORMER, verb="delete", before=before, after=None)
    (line,) = lines_of(handing_over(is_blocked=False), gone)
    assert line == (
        "  - Deployment/chat-worker: 2 pods would end; Deployment chat-worker goes on serving for "
        "a while"
    )
    assert lines_of(Matched(children=[], problems=[]), gone) == [
        "  - Deployment/chat-worker: 2 pods would end"
    ]


def test_what_stays_since_its_successor_is_refused_is_told() -> None:
    (line,) = lines_of(handing_over(is_blocked=True))
    assert line == (
        "  = Deployment/chat-worker: HandingOver: Deployment chat-worker goes on serving for a "
        "while"
    )


def test_what_only_a_new_object_could_hold_is_told_and_differs() -> None:
    broker = ChildName("StatefulSet", "chat-nats")
    child = Child(name=broker, live={}, unchangeable=("volumeClaimTemplates",))
    matched = Matched(children=[child], problems=[])
    (line,) = lines_of(matched)
    assert line == (
        "  ! StatefulSet/chat-nats: ImmutableField: only a new object can hold another "
        "spec.volumeClaimTemplates: stays as it is"
    )
    assert replace(AT_REST, objects=objects_of(matched, ())).differs
