"""Conditions: when their time moves, and which changes are news."""

from __future__ import annotations

import pytest

from handlers.conditions import (
    DEGRADED,
    MESSAGE_LENGTH_MAX,
    PROGRESSING,
    READY,
    WARNING,
    Judgement,
    Reason,
    conditions,
    moment,
    transitions,
    with_condition,
)

THEN, NOW = "2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z"


def holds(
    reason: str = Reason.ALL_READY,
    message: str = "",
    type_: str = READY,
    *,
    status: bool | None = True,
) -> Judgement:
    return Judgement(type=type_, status=status, reason=reason, message=message)


def fails(reason: str = Reason.AS_ASKED, message: str = "", type_: str = READY) -> Judgement:
    return holds(reason, message, type_, status=False)


def test_a_new_condition_has_the_standard_shape() -> None:
    built = conditions(None, [holds(message="fine")], generation=4, now=NOW)
    assert built == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllReady",
            "message": "fine",
            "lastTransitionTime": NOW,
            "observedGeneration": 4,
        }
    ]


def test_the_time_stays_while_the_status_does_and_moves_with_it() -> None:
    before = conditions([], [fails(Reason.ROLLING_OUT)], generation=1, now=THEN)
    same = conditions(before, [fails(Reason.CRASHING)], generation=2, now=NOW)
    assert (same[0]["lastTransitionTime"], same[0]["reason"]) == (THEN, "Crashing")
    other = conditions(before, [holds()], generation=2, now=NOW)
    assert other[0]["lastTransitionTime"] == NOW


def test_the_same_judgement_later_gives_the_same_bytes() -> None:
    before = conditions([], [holds(), fails(type_=DEGRADED)], generation=1, now=THEN)
    again = conditions(before, [holds(), fails(type_=DEGRADED)], generation=1, now=NOW)
    assert again == before


def test_conditions_of_others_stay_and_those_that_are_gone_go() -> None:
    theirs: dict[str, object] = {"type": "Theirs", "status": "True", "reason": "X", "extra": 1}
    before: list[dict[str, object]] = [theirs, {"type": "Warning", "status": "True", "reason": "Y"}]
    built = conditions(before, [holds()], generation=None, now=NOW, gone=("Warning",))
    assert [c["type"] for c in built] == ["Theirs", "Ready"]
    assert built[0] == theirs


def test_an_unknown_status_is_written_as_unknown() -> None:
    built = conditions([], [holds(status=None)], generation=None, now=NOW)
    assert built[0]["status"] == "Unknown"
    assert "observedGeneration" not in built[0]


def test_a_message_has_an_end() -> None:
    built = conditions([], [holds(message="x" * 5000)], generation=None, now=NOW)
    assert len(built[0]["message"]) == MESSAGE_LENGTH_MAX
    assert built[0]["message"].endswith("...")


def test_one_condition_is_set_in_a_raw_status_whatever_else_it_holds() -> None:
    status = {"state": "ready", "conditions": [{"type": "Ready", "status": "True", "reason": "R"}]}
    judgement = holds("Quarantined", "ten failures", DEGRADED)
    built = with_condition(status, judgement, generation=2, now=NOW)
    assert built["state"] == "ready"
    assert [c["type"] for c in built["conditions"]] == ["Ready", "Degraded"]
    assert len(status["conditions"]) == 1
    assert with_condition(None, judgement, generation=2, now=NOW)["conditions"][0]["reason"]
    assert with_condition({"conditions": None}, judgement, generation=2, now=NOW)["conditions"]


def status_of(*given: Judgement) -> dict[str, object]:
    return {"conditions": conditions([], given, generation=1, now=NOW)}


def test_a_change_of_status_or_reason_is_a_transition_and_one_of_words_is_none() -> None:
    one = status_of(fails(Reason.WAITING_FOR_PODS, "0 of 3"))
    two = status_of(fails(Reason.WAITING_FOR_PODS, "2 of 3"))
    assert transitions(one, two) == []
    three = status_of(holds(Reason.ALL_READY, "all"))
    (changed,) = transitions(two, three)
    assert (changed.type, changed.status, changed.reason) == ("Ready", "True", "AllReady")
    assert changed.message == "all"
    assert not changed.warning


def test_trouble_is_a_warning_and_waiting_is_none() -> None:
    calm = status_of(holds())
    for reason, warns in ((Reason.ROLLING_OUT, False), (Reason.UNSCHEDULABLE, True)):
        (changed,) = transitions(calm, status_of(fails(reason)))
        assert changed.warning is warns
    (changed,) = transitions(None, status_of(holds(Reason.FIELD_NOT_KNOWN, "f", DEGRADED)))
    assert changed.warning


def test_an_autoscaler_at_work_is_told_and_is_no_warning() -> None:
    before = status_of(holds())
    scaled = status_of(holds(), holds(Reason.SCALED_BY_OTHER, "keda", WARNING))
    (changed,) = transitions(before, scaled)
    assert not changed.warning
    (changed,) = transitions(
        before, status_of(holds(), holds(Reason.FIELDS_IGNORED, "args", WARNING))
    )
    assert changed.warning


def test_at_birth_only_what_is_not_a_matter_of_course_is_news() -> None:
    born = status_of(fails(Reason.CREATING), fails(Reason.AS_ASKED, type_=DEGRADED))
    assert transitions(None, born) == []
    assert transitions({"conditions": None}, born) == []
    refused = status_of(
        fails(Reason.REFUSED),
        holds(Reason.REFUSED, "quota", DEGRADED),
        holds(Reason.CREATING, "wait", PROGRESSING),
    )
    assert [changed.type for changed in transitions(None, refused)] == ["Ready"]
    adopted = status_of(holds(Reason.ALL_READY), fails(Reason.AS_ASKED, type_=DEGRADED))
    assert [changed.type for changed in transitions(None, adopted)] == ["Ready"]


def test_a_return_to_ready_is_one_piece_of_news() -> None:
    waiting = fails(Reason.REFUSED, "quota")
    before = status_of(
        holds(Reason.ROLLING_OUT, "1 of 2", PROGRESSING),
        holds(Reason.REFUSED, "quota", DEGRADED),
        waiting,
    )
    after = status_of(
        fails(Reason.ALL_READY, "nothing is under way", type_=PROGRESSING),
        fails(Reason.AS_ASKED, "as asked", type_=DEGRADED),
        holds(Reason.ALL_READY, "all"),
    )
    (changed,) = transitions(before, after)
    assert (changed.type, changed.message) == ("Ready", "all")


def test_what_is_degraded_no_more_while_it_was_ready_is_told() -> None:
    ready = holds(Reason.ALL_READY, "all")
    before = status_of(ready, holds(Reason.FIELD_NOT_KNOWN, "f", DEGRADED))
    (changed,) = transitions(before, status_of(ready, fails(Reason.AS_ASKED, type_=DEGRADED)))
    assert (changed.type, changed.reason, changed.warning) == ("Degraded", "AsAsked", False)


def test_conditions_that_change_for_one_reason_are_told_once_and_others_besides() -> None:
    before = status_of(holds(Reason.ALL_READY), fails(Reason.AS_ASKED, type_=DEGRADED))
    same = status_of(
        holds(Reason.REFUSED, "quota", DEGRADED), fails(Reason.REFUSED, "quota; 0 of 2 ready")
    )
    (changed,) = transitions(before, same)
    assert (changed.type, changed.message) == ("Ready", "quota; 0 of 2 ready")
    other = status_of(fails(Reason.CREATING, "wait"), holds(Reason.FIELD_NOT_KNOWN, "f", DEGRADED))
    assert [c.type for c in transitions(before, other)] == ["Ready", "Degraded"]


def test_a_warning_is_told_whatever_else_has_its_reason() -> None:
    before = status_of(holds(Reason.ALL_READY))
    after = status_of(
        fails(Reason.NOT_SERVED_YET, "gaie"), holds(Reason.NOT_SERVED_YET, "left", WARNING)
    )
    assert [c.message for c in transitions(before, after)] == ["gaie", "left"]


def test_two_conditions_that_say_the_same_are_told_once() -> None:
    both = status_of(
        fails(Reason.INVALID_SPEC, "no image"),
        holds(Reason.INVALID_SPEC, "no image", DEGRADED),
    )
    (changed,) = transitions(None, both)
    assert (changed.type, changed.warning) == ("Ready", True)


@pytest.mark.parametrize("text", ["yesterday", "", None, 7, "2026-11-30T12:00:00"])
def test_a_time_that_somebody_wrote_and_nobody_can_read_is_replaced(text: object) -> None:
    judged = Judgement(type="Ready", status=True, reason=Reason.ALL_READY, message="x")
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": text}]
    (built,) = conditions(before, [judged], generation=1, now="2026-11-30T12:00:00Z")
    assert built["lastTransitionTime"] == "2026-11-30T12:00:00Z"
    assert moment(text) is None
