"""What may be found out of one resource: well, and what a test changes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from bridge.events import ObjectKey
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Condition
from handlers.cli.history import Attempt
from handlers.cli.queue import Group
from handlers.cli.why_findings import Child, ClusterHalf, Findings, Pod, QueueHalf, Slot
from handlers.cli.why_reasons import explain
from handlers.cli.why_text import headline
from handlers.dead import DeadLetter
from handlers.state import FailState

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
UID = "u-1"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def condition(status: str = "True", reason: str = "AllReady", message: str = "") -> Condition:
    return Condition(
        type="Ready",
        status=status,  # type: ignore[arg-type]
        reason=reason,
        message=message,
        last_transition_time=ago(90),
    )


CHILD = Child(
    kind="Deployment",
    name="chat-worker",
    standing="ours",
    owner="InferaDeployment/chat",
    is_as_rendered=True,
    created=ago(3600),
    replicas=2,
    ready_replicas=2,
)
CLUSTER = ClusterHalf(
    uid=UID,
    generation=3,
    observed_generation=3,
    created=ago(3600),
    edited=ago(200),
    conditions=(condition(),),
    children=(CHILD,),
)
GROUP = Group(name="kubernetes", kinds=("inferadeployment",), pulls=4)
QUEUE = QueueHalf(group=GROUP, has_live_handlers=True)
WELL = Findings(
    key=ObjectKey("inferadeployment", "team-a", "chat"),
    contract=CONTRACT,
    now=NOW,
    cluster=CLUSTER,
    queue=QUEUE,
    other_operator_seconds=60,
)
POD = Pod(name="chat-worker-1", workload="Deployment chat-worker", phase="Pending", created=ago(60))
SLOT = Slot(slot="0", sequence=7, published=ago(30), cause="changed")
IDLE = replace(GROUP, pulls=0, pending=1)
FAILED = FailState(
    uid=UID,
    generation=3,
    failures=2,
    error="RuntimeError: no way",
    since=NOW.timestamp() - 40,
    retry_at=NOW.timestamp() + 12,
)
GIVEN_UP = replace(FAILED, failures=10, is_quarantined=True)
LETTER = DeadLetter(
    kind="inferadeployment",
    namespace="team-a",
    name="chat",
    uid=UID,
    generation=3,
    reason="RuntimeError",
    error="RuntimeError: no way",
    time=ago(20),
)


def cluster(**changes: Any) -> ClusterHalf:
    return replace(CLUSTER, **changes)


def queue(**changes: Any) -> QueueHalf:
    return replace(QUEUE, **changes)


def child(**changes: Any) -> Child:
    return replace(CHILD, **changes)


def attempt(result: str, error: str) -> Attempt:
    return Attempt(
        time=ago(10), kind="", namespace="", name="", result=result, error=error, handler="h-1"
    )


def no_room(name: str, why: str) -> Pod:
    message = f"pod {name} is not scheduled: {why}"
    return replace(POD, name=name, reason="Unschedulable", message=message, since=ago(60))


class Situation(NamedTuple):
    """What was found, and what is to be said of it."""

    cluster: ClusterHalf | None
    queue: QueueHalf | None
    reasons: list[str]
    says: str
    step: str


UNSEEN = {"generation": 4}
"""An edit that no status speaks of."""
NOT_READY = (condition("False", "WaitingForPods", "service worker has 1 of 2 pods ready"),)
LACKING = (child(ready_replicas=1),)
GPUS = "0/10 nodes are available: 10 Insufficient amd.com/gpu. preemption: 0/10 nodes are available"


def check(situation: Situation) -> None:
    """The situation is told with its reasons, and with what to do."""
    found = replace(WELL, cluster=situation.cluster, queue=situation.queue)

    explanation = explain(found)

    assert [cause.reason for cause in explanation.causes] == situation.reasons
    assert situation.says in headline(found, explanation)
    assert situation.step in "\n".join(explanation.steps)
