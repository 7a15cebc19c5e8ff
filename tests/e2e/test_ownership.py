"""Whose is an object of a child's name? What is not ours is never touched; orphans are adopted."""

from __future__ import annotations

import json

import pytest

from crds.kind import Kind
from crds.kubernetes import (
    DEPLOYMENT,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    Manifest,
)
from tests.builders import a_small_deployment, an_infera_deployment
from tests.e2e.stage import Stage, container, controller_of, uid
from tests.stack.eventually import eventually
from tests.witness.quiet import calm, quiet

_LABELS = {"app": "somebody-elses"}
_POD = {
    "metadata": {"labels": _LABELS},
    "spec": {"containers": [{"name": "theirs", "image": "registry.example/theirs:1"}]},
}
_ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs"}


def _foreign(kind: Kind, name: str, **more: object) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": dict(_LABELS)},
        **more,
    }


FOREIGN = {
    "a Deployment": _foreign(
        DEPLOYMENT,
        "chat-worker",
        spec={"replicas": 0, "selector": {"matchLabels": _LABELS}, "template": _POD},
    ),
    "a Service": _foreign(SERVICE, "chat-server", spec={"ports": [{"port": 1}]}),
    "a ServiceAccount": _foreign(SERVICE_ACCOUNT, "chat-disc"),
    "a Role": _foreign(
        ROLE, "chat-disc", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    ),
    "a RoleBinding": _foreign(ROLE_BINDING, "chat-disc", roleRef=_ROLE_REF),
}
KINDS = {kind.kind: kind for kind in (DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
async def test_a_foreign_object_of_a_child_s_name_is_never_touched(
    running: Stage, foreign: Manifest
) -> None:
    """Byte for byte as it was; the siblings are made; its removal lets us go on within 60 s."""
    kind, name = KINDS[foreign["kind"]], foreign["metadata"]["name"]
    running.apply(foreign)
    before = await _settled(running, kind, name)
    chat = a_small_deployment("chat")

    running.apply(chat)

    await running.says("chat", "Ready", "False", "ForeignObject", kind.kind, name)
    await running.says("chat", "Degraded", "True", "ForeignObject", kind.kind, name)
    await eventually(lambda: len(running.children()) == 5)
    running.apply(chat.with_service("worker", replicas=2))
    await running.says("chat", "Ready", "False", "ForeignObject", kind.kind, name)
    assert json.dumps(running.get(kind, name)) == before

    running.kubectl("delete", foreign["kind"], name)
    await running.ready("chat", within_seconds=60)
    assert len(running.children()) == 6
    assert running.condition("chat", "Degraded")["status"] == "False"


async def test_an_object_with_our_labels_and_another_controller_is_foreign(
    running: Stage,
) -> None:
    running.kubectl("create", "configmap", "keeper")
    keeper = running.cluster.get(f"/api/v1/namespaces/{running.namespace}/configmaps/keeper")
    foreign = _foreign(SERVICE_ACCOUNT, "chat-disc")
    foreign["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "chat",
        "infera.amd.com/service": "disc",
    }
    foreign["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "keeper",
            "uid": uid(keeper),
            "controller": True,
        }
    ]
    running.apply(foreign)
    before = await _settled(running, SERVICE_ACCOUNT, "chat-disc")

    running.apply(a_small_deployment("chat"))

    await running.says("chat", "Ready", "False", "ForeignObject", "chat-disc")
    assert json.dumps(running.get(SERVICE_ACCOUNT, "chat-disc")) == before


async def test_two_resources_that_want_one_name_do_not_fight_over_it(running: Stage) -> None:
    """`a` with a service `b-c`, and `a-b` with a service `c`: the first to come has it."""
    running.apply(an_infera_deployment("a").with_server("b-c"))
    await running.ready("a")
    await calm(running.cluster, running.namespace)
    first = running.get(DEPLOYMENT, "a-b-c")

    running.apply(an_infera_deployment("a-b").with_server("c"))

    await running.says("a-b", "Ready", "False", "ForeignObject", "a-b-c")
    await running.looked_at_again("a", "a-b")
    assert running.get(DEPLOYMENT, "a-b-c")["metadata"] == first["metadata"]
    assert running.condition("a", "Ready")["status"] == "True"

    running.kubectl("delete", "idep", "a")
    await running.ready("a-b", within_seconds=60)
    assert controller_of(running.get(DEPLOYMENT, "a-b-c"))["name"] == "a-b"


async def test_a_foreign_object_is_not_pruned_when_its_name_is_no_longer_wanted(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(FOREIGN["a Service"])
    running.apply(chat)
    await running.says("chat", "Degraded", "True", "ForeignObject", "chat-server")
    before = json.dumps(running.get(SERVICE, "chat-server"))

    running.apply(chat.without_service("server"))

    await running.ready("chat")
    assert running.find(DEPLOYMENT, "chat-server") is None
    assert json.dumps(running.get(SERVICE, "chat-server")) == before


async def test_an_orphan_with_our_labels_is_adopted_and_made_as_rendered(
    running: Stage,
) -> None:
    """It keeps its uid; what the user's manifest said otherwise is set right; the rest stays."""
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "chat",
        "infera.amd.com/service": "worker",
    }
    orphan: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat-worker", "labels": {**labels, "team": "blue"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "infera", "image": "registry.example/old:0"}]},
            },
        },
    }
    running.apply(orphan)
    before = running.get(DEPLOYMENT, "chat-worker")

    running.apply(a_small_deployment("chat"))

    await running.ready("chat")
    after = running.get(DEPLOYMENT, "chat-worker")
    assert uid(after) == uid(before)
    assert controller_of(after)["uid"] == uid(running.resource("chat"))
    assert after["metadata"]["labels"] == {**labels, "team": "blue"}
    assert after["spec"]["replicas"] == 1
    assert container(after)["image"] == "registry.example/infera:1"
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


async def test_an_orphan_of_another_resource_s_labels_is_foreign(running: Stage) -> None:
    orphan = _foreign(SERVICE_ACCOUNT, "chat-disc")
    orphan["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "not-chat",
        "infera.amd.com/service": "disc",
    }
    running.apply(orphan)
    before = await _settled(running, SERVICE_ACCOUNT, "chat-disc")

    running.apply(a_small_deployment("chat"))

    await running.says("chat", "Degraded", "True", "ForeignObject", "chat-disc")
    assert json.dumps(running.get(SERVICE_ACCOUNT, "chat-disc")) == before


async def _settled(stage: Stage, kind: Kind, name: str) -> str:
    """Return the object's bytes once its own controller is done with it."""

    def is_observed() -> bool:
        found = stage.get(kind, name)
        if kind != DEPLOYMENT:
            return True
        status = found.get("status") or {}
        return status.get("observedGeneration") == 1 and "conditions" in status

    await eventually(is_observed)
    return json.dumps(stage.get(kind, name))
