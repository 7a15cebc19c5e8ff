"""A take-over in which nobody stopped the other operator: one of the two writes at a time."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds.kubernetes import DEPLOYMENT, POD, Manifest
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.pause import ANNOTATION
from tests.builders import a_small_deployment
from tests.e2e.crowd import http_get, log_lines
from tests.e2e.stage import Stage, uid
from tests.e2e.terminal import Terminal
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.reference_operator import (
    LABEL,
    MANAGER,
    StandInReferenceOperator,
    as_rendered,
)
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir
from tests.witness.audit import AuditEvent
from tests.witness.history import read_history

QUIET_SECONDS = 10
"""Many times as long as the stand-in is ever silent."""
COUNTED = re.compile(r"^weir_other_operator_total\{(.*)\} (\d+)", re.MULTILINE)


class Takeover:
    """Resources that the other operator serves, and what Weir does beside it."""

    def __init__(self, stage: Stage, *names: str) -> None:
        self.stage = stage
        self.names = names
        self._offset = stage.audit.offset()

    async def looks(self) -> int:
        """Return how many looks a handlers process has given up, by its own count."""
        _, text = await http_get(f"{self.stage.handlers.http_url}/metrics")
        counted = COUNTED.findall(text)
        assert {labels for labels, _ in counted} == {
            f'kind="inferadeployment",manager="{MANAGER}"'
        }, counted
        return sum(int(count) for _, count in counted)

    async def is_told(self, **results: str) -> None:
        """Return once the history tells this of each resource."""

        async def are_told() -> bool:
            moments = await read_history(self.stage.weir.nats.url)
            told = {(moment.owner, moment.result) for moment in moments if moment.result}
            namespace = self.stage.namespace
            assert told >= {(f"{namespace}/{name}", result) for name, result in results.items()}
            return True

        await eventually(are_told)

    async def goes_on(self, looks: int, seconds: float = 0) -> None:
        """Return after so many looks more, and as long."""
        begun = time.monotonic()

        async def is_enough() -> bool:
            assert await self.looks() >= looks
            return time.monotonic() - begun > seconds

        await eventually(is_enough, 30 + seconds)

    def ours(self) -> list[AuditEvent]:
        """Return what Weir asked to change, refused or not."""
        return self.stage.audit.mutating(from_offset=self._offset, namespace=self.stage.namespace)

    def theirs(self) -> list[AuditEvent]:
        """Return what the other operator wrote."""
        namespace = self.stage.namespace
        return self.stage.audit.mutating(
            from_offset=self._offset, namespace=namespace, user_agent_prefix="stand-in"
        )

    def events(self) -> list[Manifest]:
        """Return the Kubernetes Events that tell of the other operator."""
        path = f"/api/v1/namespaces/{self.stage.namespace}/events"
        selector = "fieldSelector=reason=OtherOperator"
        items: list[Manifest] = self.stage.cluster.get(f"{path}?{selector}")["items"]
        return items

    def pods(self) -> set[str]:
        """Return which pods there are."""
        return {uid(pod) for pod in self.stage.cluster.get(POD.path(self.stage.namespace))["items"]}

    def managers(self) -> set[str]:
        """Return who owns fields of a child."""
        return {
            entry["manager"]
            for child in self.stage.children().values()
            for entry in child["metadata"]["managedFields"]
        }

    async def told(self, *words: str) -> Any:
        """Return what a command says, for machines; the other operator writes on meanwhile."""
        stage = self.stage
        terminal = Terminal(
            stage.weir.nats.url,
            stage.cluster.kubeconfig(),
            WEIR_OTHER_OPERATOR_SECONDS=str(QUIET_SECONDS),
        )
        where = f"{stage.namespace}/chat"
        said = await asyncio.to_thread(terminal.weir, *words, "idep", where, "-o", "json")
        return json.loads(said.out)


@pytest.fixture
def takeover(control_plane: ControlPlane, namespace: str, weir: Weir) -> Takeover:
    """Two resources that Weir has never seen; one of them is paused."""
    stage = Stage(control_plane, namespace, weir)
    held = a_small_deployment("held").manifest()
    held["metadata"]["annotations"] = {ANNOTATION: "true"}
    stage.apply(a_small_deployment("chat"), held)
    return Takeover(stage, "chat", "held")


@contextmanager
def _served(takeover: Takeover) -> Iterator[None]:
    """Have both resources served by the other operator, which writes all the time."""
    stage = takeover.stage
    with ExitStack() as running:
        for name in takeover.names:
            served = as_rendered(stage.resource(name))
            operator = StandInReferenceOperator(
                stage.cluster, stage.namespace, served, is_restless=True
            )
            running.enter_context(in_thread(operator))
        yield


async def test_what_another_operator_still_writes_is_left_to_it_and_becomes_ours_once_it_stopped(
    takeover: Takeover,
) -> None:
    stage = takeover.stage
    with _served(takeover):
        stage.start(
            watch_namespaces=stage.namespace,
            other_operator_seconds=QUIET_SECONDS,
            not_ready_seconds=1,
        )
        await takeover.is_told(chat="other-operator", held="other-operator")
        stage.handlers.terminate()
        stage.handlers.start()
        stage.handlers.wait_ready()
        await takeover.goes_on(looks=4, seconds=QUIET_SECONDS)

        _assert_only_told(takeover)
        await _assert_commands_tell_of_it(takeover)
    pods = takeover.pods()

    # Nothing happens any more but that time passes.
    await stage.ready("chat", within_seconds=60)
    await stage.says("held", "Progressing", "False", "Paused", "apply Deployment/held-worker")
    for name in takeover.names:
        last = max(event.stage_timestamp for event in _of(name, takeover.theirs()))
        ours = _of(name, _but_events(takeover.ours()))
        # The API server notes the times of writes in whole seconds.
        first = min(event.request_received_timestamp for event in ours)
        assert first - last > timedelta(seconds=QUIET_SECONDS - 1)
    for name in ("chat-server", "chat-worker"):
        live = stage.get(DEPLOYMENT, name)
        assert LABEL not in live["metadata"]["labels"]
        assert MANAGER not in {entry["manager"] for entry in live["metadata"]["managedFields"]}
    assert stage.get(DEPLOYMENT, "held-worker")["metadata"]["labels"][LABEL]
    assert takeover.pods() == pods
    assert len(takeover.events()) == 2


def _of(name: str, written: Sequence[AuditEvent]) -> list[AuditEvent]:
    """Return what was written of a resource and its children; a creation names them in its body."""
    return [event for event in written if event.object_ref.name.partition("-")[0] == name]


def _but_events(written: Sequence[AuditEvent]) -> list[AuditEvent]:
    return [event for event in written if event.object_ref.resource != "events"]


def _assert_only_told(takeover: Takeover) -> None:
    """One Event for each resource is all that was written, or asked to be."""
    told = takeover.ours()
    assert [str(event) for event in _but_events(told)] == []
    assert [event.landed for event in told] == [True, True], list(map(str, told))
    events = {event["involvedObject"]["name"]: event for event in takeover.events()}
    assert sorted(events) == ["chat", "held"]
    for event in events.values():
        assert event["type"] == "Warning"
        assert event["message"].startswith(f"{MANAGER} wrote ")
        assert "kubectl scale" in event["message"]
        assert f"{QUIET_SECONDS} s old" in event["message"]
    assert "weir" not in takeover.managers()
    warned = [
        line["name"]
        for line in log_lines(takeover.stage.handlers)
        if line["message"] == "another operator writes"
    ]
    assert sorted(warned) == ["chat", "held"]


async def _assert_commands_tell_of_it(takeover: Takeover) -> None:
    why = await takeover.told("why")
    (cause, *_) = why["waitingFor"]
    assert cause["reason"] == "OtherOperator"
    assert cause["waitsFor"].startswith(f"{MANAGER} to be stopped: it wrote ")
    assert any("kubectl scale" in step for step in cause["steps"])
    # Since the first look that saw it, and not since the last write.
    since = datetime.now(UTC) - datetime.fromisoformat(cause["since"])
    assert since > timedelta(seconds=QUIET_SECONDS)

    attempts = (await takeover.told("history"))["items"]
    (kept,) = [one for one in attempts if one["result"] == "other-operator"]
    assert (kept["reason"], kept["writes"]) == ("OtherOperator", ["event OtherOperator"])
    assert kept["error"].startswith(f"{MANAGER} wrote ")

    # What there is to do is shown all the same: with this a take-over begins.
    (found,) = (await takeover.told("render", "--diff"))["resources"]
    assert found["waits"].startswith(f"{MANAGER} wrote ")
    assert found["differs"] is True
    assert {one["name"] for one in found["objects"]} >= {"chat-server", "chat-worker", "chat-disc"}


async def test_a_dry_run_beside_another_operator_tells_what_it_would_do_and_that_it_would_wait(
    takeover: Takeover,
) -> None:
    stage = takeover.stage
    with _served(takeover):
        stage.start(watch_namespaces=stage.namespace, dry_run="true")
        await takeover.is_told(chat="would-change", held="paused")
        attempts = (await takeover.told("history"))["items"]
    # The newest may be one that runs, or that met the other's writes too often and was given back.
    foretold = [one for one in attempts if one["result"] == "would-change"]
    assert {one["reason"] for one in foretold} == {"OtherOperator"}
    assert foretold[0]["error"].startswith(f"{MANAGER} wrote ")
    assert "apply Deployment/chat-worker" in foretold[0]["writes"]
    assert takeover.ours() == []
    assert takeover.events() == []
