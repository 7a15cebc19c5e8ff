"""What a resource waits for, over a table of situations."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from crds.kubernetes import Condition
from handlers.cli.why_findings import ClusterHalf, Refusal
from handlers.cli.why_reasons import Explanation, explain
from handlers.cli.why_text import headline
from handlers.handler import ChildName, Notice
from handlers.lookout import OthersWrite
from handlers.pause import words
from handlers.state import FailState
from tests.unit.handlers.cli.why_situations import (
    FAILED,
    GIVEN_UP,
    GPUS,
    GROUP,
    IDLE,
    LACKING,
    LETTER,
    NOT_READY,
    NOW,
    QUEUE,
    SLOT,
    UNSEEN,
    WELL,
    Situation,
    ago,
    check,
    child,
    cluster,
    condition,
    no_room,
    queue,
)


def paused(*waiting: str, everything: str = "") -> tuple[Condition, ...]:
    said = condition("False", "Paused", words(everything, list(waiting)))
    return (condition(), replace(said, type="Progressing"))


def others(seconds: float) -> OthersWrite:
    time = NOW - timedelta(seconds=seconds)
    return OthersWrite(manager="infera-operator", object="Deployment chat-worker", time=time)


SITUATIONS = {
    "another operator writes to it still": Situation(
        cluster(others_write=others(50), conditions=paused("apply Deployment/x"), **UNSEEN),
        queue(others_since=ago(180), timer_due=ago(-10), slots=(SLOT,)),
        ["OtherOperator", "Paused"],
        "infera-operator to be stopped: it wrote Deployment chat-worker at 2026-11-30T11:59:10Z, "
        "and Weir writes nothing here until its last write is 60 s old, for 3m",
        "kubectl scale deployment NAME -n NAMESPACE --replicas=0",
    ),
    "another operator writes by a clock that is ahead, and NATS cannot be asked": Situation(
        cluster(others_write=others(-90)),
        None,
        ["OtherOperator"],
        "at 2026-11-30T12:01:30Z, and Weir writes nothing here until its last write is 60 s old, "
        "for 0s",
        "kubectl get deployments -A -o wide | grep infera-operator",
    ),
    "another operator wrote to it before it was stopped": Situation(
        cluster(others_write=others(61), **UNSEEN),
        queue(others_since=ago(180), slots=(SLOT,)),
        ["Queued"],
        "its turn",
        "",
    ),
    "somebody paused it, and an edit waits": Situation(
        cluster(conditions=paused("apply Deployment/chat-worker"), **UNSEEN),
        QUEUE,
        ["Paused"],
        "a `weir resume`; paused: the annotation weir.dev/paused says so; what waits: apply",
        "weir resume inferadeployment team-a/chat",
    ),
    "somebody paused everything, and its birth waits": Situation(
        cluster(conditions=paused("create Service/x", everything="`weir pause --all` (night)")),
        QUEUE,
        ["Paused"],
        "(night)",
        "weir resume --all",
    ),
    "it is paused and nothing waits": Situation(
        cluster(conditions=paused()), QUEUE, [], "nothing; it has been Ready for", ""
    ),
    "there is no such resource": Situation(
        ClusterHalf(exists=False),
        QUEUE,
        ["NotFound"],
        "its creation: there is no InferaDeployment team-a/chat",
        "kubectl get inferadeployments -A",
    ),
    "the CRD is not installed": Situation(
        ClusterHalf(exists=False, is_kind_served=False),
        None,
        ["NoSuchKind"],
        "its CRD: this API server serves no InferaDeployment",
        "kubectl apply -f crds/",
    ),
    "a finalizer of somebody holds a deletion up": Situation(
        cluster(deleting_since=ago(600), finalizers=("x.example/keep",)),
        QUEUE,
        ["Deleting"],
        "its deletion to end, which the finalizers x.example/keep hold up (none is Weir's)",
        "kubectl get idep chat -n team-a -o jsonpath='{.metadata.finalizers}'",
    ),
    "only an edit helps": Situation(
        cluster(**UNSEEN, refusal=Refusal(reason="InvalidSpec", message="spec.x must be y")),
        QUEUE,
        ["InvalidSpec"],
        "an edit: spec.x must be y",
        "kubectl edit idep chat -n team-a",
    ),
    "no handler runs, and its pods have no room either": Situation(
        cluster(conditions=NOT_READY, children=LACKING, pods=(no_room("p-1", GPUS),)),
        queue(group=IDLE, has_live_handlers=None, slots=(replace(SLOT, slot="t", cause="timer"),)),
        ["Unschedulable", "NoHandlers"],
        "room for 1 pod of Deployment chat-worker: no node has enough amd.com/gpu left",
        "start or scale up `weir handlers`",
    ),
    "an object of somebody else is in the way": Situation(
        cluster(
            conditions=(condition("False", "ForeignObject"),),
            children=(child(standing="foreign", owner="Rollout/x", replicas=None),),
        ),
        queue(timer_due=ago(-7)),
        ["ForeignObject"],
        "Deployment chat-worker to be out of the way: it is controlled by Rollout/x, and never",
        "kubectl get deployment chat-worker -n team-a -o yaml",
    ),
    "the child of a former resource is still there": Situation(
        cluster(
            conditions=(condition("False", "WaitingForDeletion"),),
            children=(child(standing="predecessor"),),
        ),
        QUEUE,
        ["WaitingForDeletion"],
        "the old Deployment chat-worker to go",
        "its finalizers: kubectl get deployment chat-worker -n team-a",
    ),
    "a part is not served": Situation(
        cluster(
            conditions=(condition("False", "NotServedYet", "gaie is not served"),),
            notices=(
                Notice(reason="NotServedYet", message="gaie is not served"),
                Notice(reason="Duplicates", message="the last counts", degraded=False),
            ),
        ),
        queue(timer_due=ago(-7), slots=(SLOT,)),
        ["NotServedYet"],
        "an edit, or a later version: gaie is not served, for 3m20s",
        "kubectl edit idep chat -n team-a",
    ),
    "only its status says what is wrong": Situation(
        cluster(conditions=(condition("False", "InvalidSpec", "x must be y"),)),
        queue(timer_due=ago(-7), slots=(SLOT,)),
        ["InvalidSpec"],
        "what its condition Ready names: x must be y, for 90s",
        "kubectl edit idep chat -n team-a",
    ),
    "its pods became ready a moment ago": Situation(
        cluster(conditions=NOT_READY),
        queue(slots=(SLOT,)),
        ["Queued"],
        "its turn: next in the queue",
        "",
    ),
    "NATS cannot be asked, and an edit is not carried out": Situation(
        cluster(**UNSEEN),
        None,
        ["NatsUnreachable"],
        "NATS: it cannot be reached from here, and nothing is carried out while the handlers",
        "weir queue",
    ),
    "NATS cannot be asked, and pods have no room": Situation(
        cluster(conditions=NOT_READY, children=LACKING, pods=(no_room("p-1", GPUS),)),
        None,
        ["Unschedulable"],
        "room for 1 pod of Deployment chat-worker",
        "kubectl edit",
    ),
    "NATS cannot be asked, and the status says that it was given up": Situation(
        cluster(conditions=(condition("False", "Quarantined", "given up after 10 failures"),)),
        None,
        ["Quarantined"],
        "what its condition Ready names: given up after 10 failures",
        "weir dead retry inferadeployment team-a/chat",
    ),
    "the API server cannot be asked, and it was given up": Situation(
        None,
        queue(state=GIVEN_UP, letter=LETTER),
        ["Quarantined"],
        "its cause of failure to be mended: given up after 10 failures",
        "weir dead retry inferadeployment team-a/chat",
    ),
    "the API server cannot be asked, and a message waits": Situation(
        None,
        queue(slots=(replace(SLOT, before=3),)),
        ["Queued"],
        "its turn: 3 messages before it",
        "weir queue --watch",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_resource_waits_for_is_told_with_what_to_do(name: str) -> None:
    check(SITUATIONS[name])


def test_what_is_ready_waits_for_nothing() -> None:
    explanation = explain(WELL)

    assert explanation == Explanation(is_ready=True)
    assert headline(WELL, explanation) == (
        "chat is waiting for: nothing; it has been Ready for 90s"
    )


def test_a_status_of_a_former_spec_says_nothing_of_the_present_one() -> None:
    edited = replace(WELL, cluster=cluster(**UNSEEN))

    assert explain(edited).is_ready is False


def test_with_no_message_in_nats_and_no_api_server_only_that_is_said() -> None:
    unknown = replace(WELL, cluster=None)

    explanation = explain(unknown)

    assert explanation.is_ready is None
    assert headline(unknown, explanation) == (
        "chat is waiting for: nothing that NATS knows of; the API server cannot be asked"
    )


def test_a_timer_that_nobody_has_to_wait_for_is_no_reason() -> None:
    assert explain(replace(WELL, queue=queue(timer_due=ago(-7), slots=(SLOT,)))).causes == ()


def test_a_refusal_or_a_failure_of_a_former_spec_is_no_reason() -> None:
    former = replace(FAILED, generation=2)
    explanation = explain(replace(WELL, queue=queue(state=former)))

    assert explanation.causes == ()
    assert "of a former spec" in explanation.notes[0]


def test_a_handler_that_nobody_needs_is_worth_a_word_and_no_more() -> None:
    scaled_to_zero = queue(group=replace(GROUP, pulls=0), has_live_handlers=False)

    explanation = explain(replace(WELL, queue=scaled_to_zero))

    assert explanation.causes == ()
    assert explanation.notes == ("no handler takes messages now; none is needed until one waits",)


def test_a_child_that_differs_from_its_rendering_at_rest_is_worth_a_word() -> None:
    differs = cluster(children=(child(is_as_rendered=False),))

    (note,) = explain(replace(WELL, cluster=differs)).notes

    assert note.startswith("Deployment chat-worker is not as this `weir` renders it")


def test_what_is_not_wanted_any_more_is_told_with_what_it_stays_for() -> None:
    stays = [("Deployment", "chat-worker"), ("StatefulSet", "chat-nats")]
    unwanted = [child(kind=kind, name=name, is_wanted=False) for kind, name in stays]
    state = FailState(handing_over=tuple(ChildName(*name) for name in stays))
    found = replace(WELL, cluster=cluster(children=tuple(unwanted)))
    assert explain(replace(found, queue=queue(state=state))).notes == (
        (
            "Deployment chat-worker goes on serving until its successor does, or one of the "
            "successor's pods lacks room or is not made"
        ),
        "StatefulSet chat-nats is kept for pods of before until every workload is ready as asked",
    )
    assert explain(found).notes == tuple(
        f"{kind} {name} is no longer asked for, and goes at the next look" for kind, name in stays
    )
