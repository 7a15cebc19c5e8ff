"""How the status says what stays for now."""

from __future__ import annotations

from handlers.handler import ChildName
from handlers.stays import NAMED_MAX, Stay, enumerated, notices_of

FORMER = ChildName("Deployment", "d-s")
BROKER = [ChildName("Service", "d-nats"), ChildName("StatefulSet", "d-nats")]


def test_what_stays_for_the_same_reason_is_told_once_and_taken_for_no_fault() -> None:
    stays = [Stay(child=FORMER, why="goes on serving until noon")]
    stays += [Stay(child=child, why="kept until night", is_blocked=True) for child in BROKER]
    serving, kept = notices_of(stays)
    assert (serving.reason, serving.degraded) == ("HandingOver", False)
    assert serving.message == "Deployment d-s goes on serving until noon" == stays[0].said
    assert (kept.reason, kept.degraded) == ("HandingOver", False)
    assert kept.message == "Service d-nats, StatefulSet d-nats kept until night"
    assert notices_of(()) == ()


def test_of_many_names_the_first_are_told_and_the_others_counted() -> None:
    names = [f"pod-{number}" for number in reversed(range(NAMED_MAX + 2))]
    assert enumerated(names) == "pod-0, pod-1, pod-2, pod-3, pod-4 and 2 more"
    assert enumerated(names[-2:]) == "pod-0, pod-1"
