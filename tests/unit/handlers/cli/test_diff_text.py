"""How `weir render --diff` tells that all of it would wait for another operator."""

from __future__ import annotations

from msgspec.structs import replace

from bridge.events import ObjectKey
from handlers.cli.diff_text import Compared, ObjectDifference, as_plain, as_text, summary

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
