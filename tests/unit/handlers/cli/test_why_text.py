"""How `weir why` reads."""

from __future__ import annotations

from msgspec.structs import replace

from handlers.cli.why_findings import Lease
from handlers.cli.why_reasons import explain
from handlers.cli.why_text import as_text
from tests.unit.handlers.cli.why_situations import (
    FAILED,
    GPUS,
    IDLE,
    LACKING,
    LETTER,
    NOT_READY,
    SLOT,
    WELL,
    ago,
    attempt,
    cluster,
    no_room,
    queue,
)


def test_the_text_leads_from_the_conclusion_to_the_evidence() -> None:
    pods = tuple(no_room(f"p-{number:02}", GPUS) for number in range(12))
    bad = attempt("failed", "RuntimeError: no\x1b[2J way")
    situation = replace(
        WELL,
        cluster=cluster(conditions=NOT_READY, children=LACKING, pods=pods),
        queue=queue(
            group=IDLE,
            has_live_handlers=False,
            slots=(SLOT,),
            timer_due=ago(-7),
            lease=Lease(holder="h-1", renewed=ago(2), since=ago(5)),
            state=replace(FAILED, generation=2),
            letter=replace(LETTER, generation=2),
            attempts=(bad,),
        ),
    )

    text = as_text(situation, explain(situation))

    parts = text.split("\n\n")
    assert [part.split(maxsplit=1)[0] for part in parts] == [
        "chat",
        "What",
        "It",
        "Worth",
        "Resource:",
        "CONDITION",
        "CHILD",
        "POD",
        "LAST",
    ]
    assert parts[0].endswith(" left, for 60s (and 1 more, below)")
    facts = {
        line.partition(":")[0]: line.partition(":")[2].strip() for line in parts[4].split("\n")
    }
    assert facts == {
        "Resource": "InferaDeployment team-a/chat",
        "Generation": "3, edited 3m20s ago; the status speaks of it",
        "Queue": "changed (slot 0, sequence 7), 30s old, waits, 0 messages before it",
        "Handlers": "none runs (0 resources in work, 1 messages wait in all)",
        "Lease": "h-1, at work for 5s, renewed 2s ago",
        "Next look": "in 7s (2026-11-30T12:00:07Z)",
        "Failures": "of generation 2, in a row: failed 2 times: RuntimeError: no way",
        "Dead letter": "written 20s ago: RuntimeError",
        "Last attempt": "failed, 10s ago, by h-1",
    }
    assert parts[6].split("\n")[1].split() == [
        "Deployment/chat-worker",
        "InferaDeployment/chat",
        "ours",
        "1/2",
        "60m",
    ]
    assert parts[7].endswith("... and 2 more that are not ready")
    assert r"RuntimeError: no\x1b[2J way" in parts[8]
