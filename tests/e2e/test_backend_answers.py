"""What the API server may answer, and what is to come of it: as the API conventions ask."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from crds.inferadeployment import CONTRACT
from crds.kubernetes import DEPLOYMENT, SERVICE, STATEFUL_SET, Manifest
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from tests.builders import a_small_deployment, an_infera_deployment
from tests.e2e.stage import Stage, uid
from tests.faults import answers
from tests.faults.api_proxy import DROP_AFTER, Action, ApiProxy, Request
from tests.faults.own_loop import in_thread
from tests.stack.eventually import eventually
from tests.stack.fixtures import Kubectl
from tests.witness.audit import AuditEvent
from tests.witness.quiet import CALM_SECONDS

SOON: dict[str, Any] = {
    "child_retry_seconds": 1.0,
    "child_retry_max_seconds": 2.0,
    "not_ready_seconds": 2.0,
}


@pytest.fixture
def proxy(stage: Stage, scratch: Path) -> Iterator[ApiProxy]:
    """What stands between the handlers of the stage and the API server."""
    shipped = stage.cluster.kubeconfig(access.HANDLERS)
    with in_thread(ApiProxy(shipped)) as between:
        stage.bridge = stage.weir.bridge(**SOON)
        stage.handlers = stage.weir.handlers(
            kubeconfig=between.kubeconfig(shipped, scratch / "proxied"), **SOON
        )
        stage.bridge.wait_ready()
        yield between
        stage.handlers.kill()


def to(
    method: str, plural: str, action: Action, *, times: int = 10**6, name: str = ""
) -> Callable[[Request], Action | None]:
    """Return the rule that does so with the first requests of a method to a kind's objects."""
    left = [times]

    def rule(request: Request) -> Action | None:
        is_meant = request.method == method and f"/{plural}" in request.path
        if not is_meant or (name and f'"name":"{name}"' not in request.body.decode()):
            return None
        left[0] -= 1
        return action if left[0] >= 0 else None

    return rule


@pytest.mark.parametrize(
    "action",
    [
        answers.throttled(1),
        answers.unavailable_html(),
        answers.internal_error(),
        answers.conflict("chat"),
        DROP_AFTER,
    ],
    ids=["429", "503 of a proxy", "500", "409", "a reply that is lost"],
)
@pytest.mark.parametrize("what", [("POST", "deployments"), ("PUT", "inferadeployments")])
async def test_an_answer_that_asks_for_another_try_gets_one(
    stage: Stage, proxy: ApiProxy, action: Action, what: tuple[str, str]
) -> None:
    proxy.on_request(to(*what, action, times=2))
    stage.apply(a_small_deployment("chat"))
    await stage.ready("chat", within_seconds=30)
    assert len(stage.children()) == 6
    assert _is_well(stage)


@pytest.mark.parametrize(
    "action",
    [
        answers.internal_error(),
        answers.refusal(504, "Timeout", "Timeout: request did not complete within 5s"),
    ],
    ids=["500", "504"],
)
async def test_a_webhook_that_fails_or_is_slow_is_the_trouble_of_one_child(
    stage: Stage, proxy: ApiProxy, action: Action
) -> None:
    remove = proxy.on_request(to("POST", "deployments", action, name="chat-worker"))
    stage.apply(a_small_deployment("chat"), a_small_deployment("well"))
    await stage.ready("well")
    await stage.says("chat", "Degraded", "True", "Refused", "chat-worker")
    assert stage.find(DEPLOYMENT, "chat-server") is not None
    assert _is_well(stage)
    assert "backend is out" not in stage.handlers.log_text()
    remove()
    await stage.ready("chat")


async def test_a_deletion_that_is_refused_is_said_and_tried_until_it_succeeds(
    stage: Stage, proxy: ApiProxy
) -> None:
    chat = a_small_deployment("chat")
    stage.apply(chat)
    await stage.ready("chat")
    forbidden = answers.refusal(403, "Forbidden", "a policy keeps it")
    remove = proxy.on_request(to("DELETE", "deployments/chat-worker", forbidden))
    stage.apply(chat.without_service("worker"))
    await stage.says("chat", "Degraded", "True", "Refused", "chat-worker", "a policy keeps it")
    tried = len([r for r in proxy.records if r.method == "DELETE"])

    def is_tried_again() -> bool:
        return len([r for r in proxy.records if r.method == "DELETE"]) >= tried + 2

    await eventually(is_tried_again)
    assert stage.condition("chat", "Degraded")["status"] == "True"
    remove()
    await stage.vanish("Deployment/chat-worker")
    await stage.ready("chat")


async def test_a_broker_that_another_operator_made_is_taken_over_without_a_restart(
    running: Stage,
) -> None:
    """Ours has probes and requests that AMD's operator gives none: its pods would restart."""
    running.handlers.kill()
    running.apply(an_infera_deployment("chat").with_server().with_managed_nats())
    owner = running.resource("chat")
    running.kubectl("create", "-f-", document=_reference_broker(owner))
    before = running.get(STATEFUL_SET, "chat-nats")
    running.handlers.start()
    await running.says("chat", "Warning", "True", "TemplateKept", "StatefulSet chat-nats")
    assert running.find(SERVICE, "chat-nats") is not None
    after = running.get(STATEFUL_SET, "chat-nats")
    assert uid(after) == uid(before)
    assert after["spec"]["template"] == before["spec"]["template"]
    assert {entry["manager"] for entry in after["metadata"]["managedFields"]} >= {"weir"}


async def test_a_resource_that_nobody_can_decode_says_so(
    fresh_control_plane: ControlPlane, stage: Stage, scratch: Path
) -> None:
    """
    The API server takes what is nested deeper than any decoder of ours goes.

    In a control plane of its own: the audit log holds it, and its other readers decode, too.
    """
    stage.start()
    file = scratch / "deep.json"
    file.write_text(_nested("deep", levels=1_400))
    stage.kubectl("create", "-f", str(file))
    stage.apply(a_small_deployment("well"))
    await stage.ready("well")

    def is_told() -> bool:
        said = stage.kubectl("get", "idep", "deep", "-o=jsonpath={.status.conditions}")
        return '"InvalidSpec"' in said and "nested too deeply" in said

    await eventually(is_told)
    events = stage.kubectl("get", "events", "--field-selector=involvedObject.name=deep")
    assert "InvalidSpec" in events


async def test_a_resource_left_behind_in_a_namespace_that_is_gone_costs_nothing(
    running: Stage, kubectl: Kubectl, scratch: Path
) -> None:
    """Created while its namespace was finalized: it is there, and nothing can be written for it."""
    gone = f"gone-{running.namespace}"
    kubectl("create", "namespace", gone)
    running.handlers.kill()
    kubectl("apply", "-n", gone, "-f-", document=a_small_deployment("left").manifest())
    finalized = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": gone}, "spec": {}}
    file = scratch / "finalized.json"
    file.write_text(json.dumps(finalized))
    path = f"/api/v1/namespaces/{gone}"
    running.cluster.pause("kube-controller-manager")
    try:
        kubectl("delete", "namespace", gone, "--wait=false")
        kubectl("replace", "--raw", f"{path}/finalize", "-f", str(file))
    finally:
        running.cluster.resume("kube-controller-manager")
    running.handlers.start()
    running.apply(a_small_deployment("well"))
    await running.ready("well")
    offset = running.audit.offset()
    await running.looked_at_again("well")
    # A resync comes to one resource after the other, and may pause between them.
    await eventually(lambda: _asked(running, gone, offset))
    await running.read_since(offset, "well")
    assert "left behind in a namespace that is gone" in running.handlers.log_text()
    asked_before: list[int] = []

    def is_left_alone() -> bool:
        asked_before.append(len(_asked(running, gone, 0)))
        return asked_before[-1:] == asked_before[-2:-1]

    # A bridge that starts may look at everything twice: kinds that it could not list at once.
    await eventually(is_left_alone, every_seconds=CALM_SECONDS)
    offset = running.audit.offset()
    running.apply(a_small_deployment("other"))
    await running.ready("other")
    asked = _asked(running, gone, offset)
    kubectl("delete", "idep", "left", "-n", gone, "--wait=false", check=False)
    assert asked == []


def _asked(stage: Stage, namespace: str, offset: int) -> list[AuditEvent]:
    """Return what handlers asked about a namespace."""
    return [
        event
        for event in stage.audit.events(from_offset=offset)
        if event.object_ref.namespace == namespace and event.user_agent.startswith("weir-handlers")
    ]


def _is_well(stage: Stage) -> bool:
    with urllib.request.urlopen(stage.handlers.http_url + "/readyz") as answer:  # noqa: S310
        return bool(answer.status == HTTPStatus.OK)


def _nested(name: str, levels: int) -> str:
    """Return a resource as text: encoders give up on what is so deep, too."""
    deep = '{"d":' * levels + "1" + "}" * levels
    pod = '{"containers": [{"name": "c", "image": "x"}], "unknown": ' + deep + "}"
    kind = CONTRACT.kind
    return (
        f'{{"apiVersion": "{kind.api_version}", "kind": "{kind.kind}", '
        f'"metadata": {{"name": "{name}"}}, "spec": {{"services": {{'
        f'"w": {{"componentType": "worker", "extraPodSpec": {pod}}}}}}}}}'
    )


def _reference_broker(owner: Manifest) -> Manifest:
    """Return a broker as AMD's operator makes it: no probes, no requests, an older image."""
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/component": "nats",
        "infera.amd.com/deployment": "chat",
    }
    container = {"name": "nats", "image": "nats:2.10", "args": ["-js"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "chat-nats",
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": "chat",
                    "uid": uid(owner),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "serviceName": "chat-nats",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
