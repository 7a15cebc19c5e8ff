"""What is refused, or in the way, concerns that child only, and is tried again by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT
from crds.kubernetes import DEPLOYMENT, ROLE_BINDING, Manifest
from handlers.cli.devstack.weir import WeirProcess
from handlers.cli.history import read
from handlers.cli.target import Scope
from tests.builders import a_small_deployment
from tests.e2e.stage import Stage, uid
from tests.faults import policies
from tests.stack.eventually import eventually

_WORKER = "deployment/chat-worker"


@pytest.fixture
def in_force(stage: Stage) -> Iterator[Any]:
    """Creates policies now, and deletes them after the test: they live outside namespaces."""
    created: list[Manifest] = []

    def create(manifests: list[Manifest]) -> None:
        created.extend(manifests)
        stage.apply(*manifests)

    yield create
    stage.cluster.kubectl("delete", "--wait=false", "-f-", document=created, check=False)


async def _history_says(stage: Stage, *words: str) -> bool:
    scope = Scope(kind=CONTRACT.kind.queue_name, namespace=stage.namespace, name="chat")
    async with connect_nats(Settings(nats_url=stage.weir.nats.url), "cli") as bus:
        attempts, _ = await read(bus, scope, limit=0)
    return any(all(word in attempt.error for word in words) for attempt in attempts)


async def test_a_child_that_a_policy_refuses_is_named_and_its_siblings_go_on(
    running: Stage, in_force: Any
) -> None:
    policy = policies.refusing(
        running.namespace, "deployments", "chat-worker", message="no GPUs for you"
    )
    in_force(policy)
    await eventually(lambda: _is_refused(running, "chat-worker", "no GPUs for you"))

    running.apply(a_small_deployment("chat"))

    await running.says("chat", "Degraded", "True", "Refused", "chat-worker", "no GPUs for you")
    await eventually(lambda: len(running.children()) == 5)
    assert running.condition("chat", "Ready")["status"] == "False"
    await eventually(lambda: _history_says(running, "Deployment chat-worker", "no GPUs for you"))

    running.cluster.kubectl("delete", "-f-", document=policy)
    await running.ready("chat", within_seconds=60)
    assert running.condition("chat", "Degraded")["status"] == "False"


async def test_a_child_that_a_quota_refuses_comes_when_the_quota_is_raised(
    running: Stage,
) -> None:
    quota = policies.quota(running.namespace, **{"count/deployments.apps": 1})
    running.apply(quota)
    await eventually(
        lambda: (
            running.cluster.get(f"/api/v1/namespaces/{running.namespace}/resourcequotas/quota")
            .get("status", {})
            .get("hard")
        )
    )

    running.apply(a_small_deployment("chat"))

    await running.says("chat", "Degraded", "True", "Refused", "exceeded quota")
    await eventually(lambda: len(running.children()) == 5)
    assert len(running.children((DEPLOYMENT,))) == 1

    quota["spec"]["hard"]["count/deployments.apps"] = "2"
    running.apply(quota)
    await running.ready("chat", within_seconds=60)


@pytest.fixture
def unhurried(running: Stage) -> Iterator[WeirProcess]:
    """Handlers in place of the stage's that come back to a refused child in an hour."""
    running.handlers.kill()
    hour = 3600
    handlers = running.weir.handlers(child_retry_seconds=hour, child_retry_max_seconds=hour)
    handlers.wait_ready()
    yield handlers
    handlers.kill()


async def test_an_edit_is_not_held_up_by_an_earlier_refusal(
    running: Stage, unhurried: WeirProcess, in_force: Any
) -> None:
    """Of handlers that would try again by themselves after an hour only."""
    assert unhurried.is_running
    in_force(policies.refusing(running.namespace, "deployments", "chat-worker"))
    await eventually(lambda: _is_refused(running, "chat-worker", "not here"))
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.says("chat", "Degraded", "True", "Refused", "chat-worker")

    running.apply(chat.with_service("server", replicas=2).without_service("worker"))

    await running.ready("chat")
    assert running.get(DEPLOYMENT, "chat-server")["spec"]["replicas"] == 2


async def test_a_child_that_takes_long_to_go_is_waited_for_and_then_made_anew(
    running: Stage,
) -> None:
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")
    running.patch(_WORKER, {"metadata": {"finalizers": ["test.example/hold"]}}, "--type=merge")
    before = uid(running.get(DEPLOYMENT, "chat-worker"))

    running.kubectl("delete", _WORKER, "--wait=false")

    await running.says("chat", "Ready", "False", "WaitingForDeletion", "chat-worker")
    running.patch(_WORKER, {"metadata": {"finalizers": None}}, "--type=merge")
    await eventually(lambda: (running.find(DEPLOYMENT, "chat-worker") or {}).get("spec"))
    await running.ready("chat")
    assert uid(running.get(DEPLOYMENT, "chat-worker")) != before


async def test_a_role_that_a_binding_may_not_change_is_bound_anew(running: Stage) -> None:
    """A binding's role is immutable: a person can only delete it and make another."""
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")
    binding = running.get(ROLE_BINDING, "chat-disc")
    metadata = {
        key: binding["metadata"][key]
        for key in ("name", "labels", "annotations", "ownerReferences")
    }
    other = {**binding, "metadata": metadata, "roleRef": {**binding["roleRef"], "name": "other"}}
    running.handlers.kill()
    running.kubectl("delete", "rolebinding", "chat-disc")
    running.kubectl("create", "-f-", document=other)
    running.handlers.start()

    def is_bound() -> bool:
        found = running.children().get("RoleBinding/chat-disc", {})
        return bool(found.get("roleRef", {}).get("name") == "chat-disc")

    await eventually(is_bound, 40)
    await running.ready("chat")


def _is_refused(stage: Stage, name: str, message: str) -> bool:
    done = stage.cluster.kubectl(
        f"--namespace={stage.namespace}",
        "create",
        "deployment",
        name,
        "--image=x",
        "--dry-run=server",
        check=False,
    )
    return message in done.stderr
