"""What a resource waits for in NATS, over a table of situations."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from handlers.cli.queue import Group
from handlers.cli.why_findings import Lease
from handlers.handler import ChildName, Problem
from handlers.state import FailState
from tests.unit.handlers.cli.why_situations import (
    FAILED,
    GIVEN_UP,
    GROUP,
    IDLE,
    LETTER,
    NOW,
    QUEUE,
    SLOT,
    UID,
    UNSEEN,
    Situation,
    ago,
    attempt,
    check,
    child,
    cluster,
    condition,
    queue,
)


def a_refusal(reason: str, message: str) -> FailState:
    """Return what is remembered of a resource whose worker the API server refused 5 s ago."""
    child = ChildName("Deployment", "chat-worker")
    return FailState(
        uid=UID,
        generation=3,
        refusals=1,
        since=NOW.timestamp() - 5,
        refused=(Problem(child=child, reason=reason, message=message),),
        refused_until=NOW.timestamp() + 9,
    )


SITUATIONS = {
    "it was given up": Situation(
        cluster(conditions=(condition("False", "Quarantined"),)),
        queue(state=GIVEN_UP, letter=LETTER, timer_due=ago(-12)),
        ["Quarantined"],
        "given up after 10 failures, RuntimeError: no way; tried again in 12s, or when it is",
        "weir dead retry inferadeployment team-a/chat",
    ),
    "it was given up so long ago that only the letter remembers": Situation(
        cluster(conditions=(condition("False", "Quarantined"),)),
        queue(letter=LETTER),
        ["Quarantined"],
        "given up, RuntimeError: no way; it is tried when it changes, and at each resync",
        "weir dead retry inferadeployment team-a/chat",
    ),
    "it killed its handlers": Situation(
        cluster(conditions=(condition("False", "Quarantined"),)),
        queue(state=GIVEN_UP, letter=replace(LETTER, reason="Crashed")),
        ["Quarantined"],
        "its cause of failure to be mended",
        "read why the handlers died (memory, logs); see what was tried: weir history",
    ),
    "it was edited after it was given up": Situation(
        cluster(**UNSEEN, conditions=(condition("False", "Quarantined"),)),
        queue(state=GIVEN_UP, letter=LETTER, slots=(replace(SLOT, before=2),)),
        ["Queued"],
        "its turn: 2 messages before it",
        "weir queue --watch",
    ),
    "it is in back-off": Situation(
        cluster(**UNSEEN),
        queue(state=replace(FAILED, generation=4), timer_due=ago(-12)),
        ["BackOff"],
        "its next try: it failed 2 times, the last time with RuntimeError: no way; tried again "
        "in 12s",
        "weir dead retry inferadeployment team-a/chat",
    ),
    "no handler runs": Situation(
        cluster(**UNSEEN),
        queue(group=IDLE, has_live_handlers=False, slots=(replace(SLOT, before=1),)),
        ["NoHandlers"],
        "a handler: no handler runs, and its message (changed) waits, 1 message before it",
        "start or scale up `weir handlers`",
    ),
    "the last handler died with the message in its hands": Situation(
        cluster(**UNSEEN),
        queue(group=replace(IDLE, in_flight=1), slots=(replace(SLOT, is_taken=True),)),
        ["HandlersStand"],
        "its message (changed) waits, to be taken again",
        "/readyz",
    ),
    "handlers run, and take nothing because a backend is out": Situation(
        cluster(**UNSEEN),
        queue(
            group=IDLE,
            slots=(SLOT,),
            attempts=(attempt("dependency-down", "kubernetes: 503"),),
        ),
        ["HandlersStand"],
        "a handler: none takes messages, though one lived a minute ago (kubernetes: 503), and its",
        "/readyz",
    ),
    "it is in work": Situation(
        cluster(**UNSEEN),
        queue(
            group=replace(GROUP, leases=1),
            slots=(replace(SLOT, is_taken=True),),
            lease=Lease(holder="h-1", renewed=ago(1), since=ago(3)),
        ),
        ["InWork"],
        "h-1, which works on it, for 3s",
        "wait",
    ),
    "its handler gave it back because a backend is out": Situation(
        cluster(**UNSEEN),
        queue(
            slots=(replace(SLOT, is_taken=True),),
            attempts=(attempt("dependency-down", "kubernetes: 503"),),
        ),
        ["DependencyDown"],
        "a backend of the handlers: kubernetes: 503; it is driven again as soon as that answers",
        "/readyz",
    ),
    "its handler gave it back": Situation(
        cluster(**UNSEEN),
        queue(slots=(replace(SLOT, is_taken=True),)),
        ["TakenAgain"],
        "its message to be taken again",
        "weir history inferadeployment team-a/chat",
    ),
    "its turn comes next": Situation(
        cluster(observed_generation=None, conditions=(), children=(child(standing="missing"),)),
        queue(slots=(SLOT,)),
        ["Queued", "Creating"],
        "its turn: next in the queue, for 30s",
        "weir queue --watch",
    ),
    "no bridge told of its edit": Situation(
        cluster(**UNSEEN),
        QUEUE,
        ["NotTold"],
        "a bridge: nothing in the queue speaks of its last edit, for 3m20s",
        "check that `weir bridge` runs, is ready (/readyz) and watches team-a",
    ),
    "its timer looks for it": Situation(
        cluster(children=(child(standing="missing", replicas=None),)),
        queue(timer_due=ago(-7)),
        ["Timer", "Creating"],
        "its next look, in 7s",
        "",
    ),
    "the queue is gone": Situation(
        cluster(**UNSEEN),
        queue(
            group=Group(name="kubernetes", kinds=("inferadeployment",), is_missing=True),
            missing=("WEIR_QUEUE",),
        ),
        ["QueueMissing"],
        "its queue: WEIR_QUEUE missing",
        "--nats-url",
    ),
    "the API server refuses a child": Situation(
        cluster(
            conditions=(condition("False", "Refused"),),
            children=(child(standing="missing", replicas=None),),
        ),
        queue(
            state=a_refusal("Refused", "the API server says: exceeded quota: q"),
            timer_due=ago(-9),
        ),
        ["Refused"],
        "Deployment chat-worker to be accepted: the API server says: exceeded quota: q; tried "
        "again in 9s, for 5s",
        "kubectl describe quota -n team-a",
    ),
    "the kind of a child is not installed": Situation(
        cluster(
            conditions=(condition("False", "KindNotInstalled"),),
            children=(child(standing="missing", replicas=None),),
        ),
        queue(
            state=a_refusal("KindNotInstalled", "the API server serves no such kind"),
            timer_due=ago(-9),
        ),
        ["KindNotInstalled"],
        "Deployment chat-worker to be accepted: the API server serves no such kind; tried again",
        "install what that names",
    ),
    "an edit touches what cannot be changed": Situation(
        cluster(conditions=(condition("False", "ImmutableField"),)),
        queue(
            state=FailState(
                uid=UID,
                generation=3,
                refusals=1,
                refused=(
                    Problem(
                        child=ChildName("StatefulSet", "chat-nats"),
                        reason="ImmutableField",
                        message="the API server says: field is immutable",
                    ),
                ),
                refused_until=NOW.timestamp() + 9,
            ),
        ),
        ["ImmutableField"],
        "it is not tried again until something changes",
        "kubectl delete statefulset chat-nats -n team-a",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_resource_waits_for_in_nats_is_told_with_what_to_do(name: str) -> None:
    check(SITUATIONS[name])
