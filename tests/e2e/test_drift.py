"""What a person changes on a child is set right; what other managers put there stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from crds.kubernetes import DEPLOYMENT, SERVICE, Manifest
from tests.builders import a_small_deployment
from tests.e2e.stage import Stage, container, controller_of
from tests.faults import policies
from tests.stack.eventually import eventually
from tests.witness.quiet import quiet

_WORKER = "deployment/chat-worker"
_IDENTITY = {
    "app.kubernetes.io/managed-by": "infera-operator",
    "infera.amd.com/deployment": "chat",
    "infera.amd.com/service": "worker",
}

EDITS: dict[str, tuple[str, ...]] = {
    "the image": ("set", "image", _WORKER, "infera=registry.example/other:9"),
    "the replicas": ("scale", _WORKER, "--replicas=3"),
    "an environment variable": ("set", "env", _WORKER, "POD_IP=nonsense"),
    "an identity label": ("label", _WORKER, "infera.amd.com/service-"),
    "a value of a label": ("label", "--overwrite", _WORKER, "infera.amd.com/deployment=other"),
    "a port": (
        "patch",
        "service/chat-server",
        "--type=json",
        '--patch=[{"op": "replace", "path": "/spec/ports/0/port", "value": 1}]',
    ),
    "the selector of a Service": (
        "patch",
        "service/chat-server",
        "--type=merge",
        '--patch={"spec": {"selector": {"infera.amd.com/service": "nobody"}}}',
    ),
    "the rules of a Role": ("patch", "role/chat-disc", "--type=merge", '--patch={"rules": []}'),
    "the command": (
        "patch",
        _WORKER,
        "--type=json",
        '--patch=[{"op": "remove", "path": "/spec/template/spec/containers/0/command"}]',
    ),
    "the strategy": (
        "patch",
        _WORKER,
        "--type=merge",
        '--patch={"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}',
    ),
    "our annotations": (
        "annotate",
        "--overwrite",
        _WORKER,
        "weir.dev/applied=0000000000000000",
        "weir.dev/renderer-",
    ),
    "the whole object": ("delete", _WORKER),
    "the Service": ("delete", "service/chat-server"),
    "the owner": (
        "patch",
        _WORKER,
        "--type=merge",
        '--patch={"metadata": {"ownerReferences": null}}',
    ),
}


@pytest.fixture
async def chat(running: Stage) -> Stage:
    """A Ready deployment that nothing concerns any more."""
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")
    await running.looked_at_again("chat")
    return running


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_an_edit_by_hand_of_a_child_is_repaired(chat: Stage, edit: tuple[str, ...]) -> None:
    before = _rendered(chat)

    chat.kubectl(*edit)

    def is_repaired() -> bool:
        assert _rendered(chat) == before
        return True

    await eventually(is_repaired)
    await chat.ready("chat")
    async with quiet(chat.cluster, chat.namespace):
        await chat.looked_at_again("chat")


async def test_fields_labels_and_annotations_of_others_survive_an_edit_of_the_resource(
    chat: Stage,
) -> None:
    """As an injector, a policy engine and a person put them there, each by its own means."""
    theirs: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "chat-worker",
            "labels": {"injector.example/label": "yes"},
            "annotations": {"injector.example/note": "keep"},
        },
        "spec": {
            "template": {
                "metadata": {"annotations": {"injector.example/restarted": "once"}},
                "spec": {
                    "nodeSelector": {"pool": "gpus"},
                    "schedulingGates": [{"name": "injector.example/gate"}],
                    "containers": [
                        {"name": "infera", "env": [{"name": "INJECTED", "value": "1"}]},
                        {"name": "sidecar", "image": "registry.example/sidecar:1"},
                    ],
                },
            },
        },
    }
    chat.cluster.kubectl(
        f"--namespace={chat.namespace}",
        "apply",
        "--server-side",
        "--field-manager=injector",
        "-f-",
        document=theirs,
    )
    # The API server gave this its default when we created the object, so it counts as ours.
    chat.patch(_WORKER, {"spec": {"revisionHistoryLimit": 3}})
    chat.kubectl("label", _WORKER, "team=blue")
    chat.kubectl("annotate", "service/chat-server", "team.example/on-call=nobody")

    changed = a_small_deployment("chat").with_image("registry.example/infera:2")
    chat.apply(changed.with_service("server", port=8001))

    def are_edited() -> bool:
        image = container(chat.get(DEPLOYMENT, "chat-worker"), "infera")["image"]
        port = chat.get(SERVICE, "chat-server")["spec"]["ports"][0]["port"]
        return (image, port) == ("registry.example/infera:2", 8001)

    await eventually(are_edited)
    worker = chat.get(DEPLOYMENT, "chat-worker")
    assert worker["metadata"]["labels"] == {
        **_IDENTITY,
        "injector.example/label": "yes",
        "team": "blue",
    }
    assert worker["metadata"]["annotations"]["injector.example/note"] == "keep"
    assert worker["spec"]["revisionHistoryLimit"] == 3
    template = worker["spec"]["template"]
    assert template["metadata"]["annotations"] == {"injector.example/restarted": "once"}
    assert template["spec"]["nodeSelector"] == {"pool": "gpus"}
    assert template["spec"]["schedulingGates"] == [{"name": "injector.example/gate"}]
    assert container(worker, "sidecar")["image"] == "registry.example/sidecar:1"
    assert {"name": "INJECTED", "value": "1"} in container(worker, "infera")["env"]
    service = chat.get(SERVICE, "chat-server")
    assert service["metadata"]["annotations"]["team.example/on-call"] == "nobody"


async def test_replicas_that_an_autoscaler_owns_are_left_to_it_until_the_user_edits_them(
    chat: Stage,
) -> None:
    chat.patch(
        _WORKER,
        {"spec": {"replicas": 3}},
        "--subresource=scale",
        "--field-manager=horizontal-pod-autoscaler",
    )
    small = a_small_deployment("chat")

    chat.apply(small.with_service("worker", args=["--x"]))

    def is_edited() -> bool:
        return bool(container(chat.get(DEPLOYMENT, "chat-worker"))["command"][-1] == "--x")

    await eventually(is_edited)
    assert chat.get(DEPLOYMENT, "chat-worker")["spec"]["replicas"] == 3
    await chat.says("chat", "Warning", "True", "ScaledByOther", "chat-worker")
    await chat.ready("chat")
    await chat.looked_at_again("chat")
    async with quiet(chat.cluster, chat.namespace):
        await chat.looked_at_again("chat")

    # Whatever is edited elsewhere, and however often.
    generation = chat.get(DEPLOYMENT, "chat-worker")["metadata"]["generation"]
    for number in range(20):
        edited = small.with_service("worker", args=["--x"]).with_service(
            "server", args=[f"{number}"]
        )
        chat.apply(edited)
        await chat.ready("chat")
    worker = chat.get(DEPLOYMENT, "chat-worker")
    assert (worker["spec"]["replicas"], worker["metadata"]["generation"]) == (3, generation)

    chat.apply(small.with_service("worker", args=["--x"], replicas=2))
    await eventually(lambda: chat.get(DEPLOYMENT, "chat-worker")["spec"]["replicas"] == 2)


@pytest.fixture
def in_force(stage: Stage) -> Iterator[Any]:
    """Creates policies now, and deletes them after the test: they live outside namespaces."""
    created: list[Manifest] = []

    def create(manifests: list[Manifest]) -> None:
        created.extend(manifests)
        stage.apply(*manifests)

    yield create
    stage.cluster.kubectl("delete", "--wait=false", "-f-", document=created, check=False)


@pytest.mark.parametrize("what", ["label", "image", "env"])
async def test_a_policy_that_rewrites_children_meets_no_fight(
    running: Stage, in_force: Any, what: str
) -> None:
    """It rewrites a value of ours: at most one more write per child, then quiet."""
    label = policies.rewriting_label(running.namespace, "infera.amd.com/service", "rewritten")
    rewriting = {
        "label": label,
        "image": policies.rewriting_image(running.namespace, "mirror.example/infera:1"),
        "env": policies.rewriting_env(running.namespace, "LEVEL", "rewritten"),
    }
    in_force(rewriting[what])
    await _rewrites(running)
    running.apply(a_small_deployment("chat").with_env("LEVEL", "ours"))
    await running.ready("chat")
    await running.looked_at_again("chat")

    offset = running.audit.offset()
    await running.looked_at_again("chat")
    again = running.audit.mutating(from_offset=offset, namespace=running.namespace)
    assert len([e for e in again if e.object_ref.resource == "deployments"]) <= 2
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")
        await running.looked_at_again("chat")


def _rendered(stage: Stage) -> dict[str, Any]:
    """Return what of every child must come back: whose it is, and all that is asked of it."""
    children = {}
    for name, child in stage.children().items():
        metadata = child["metadata"]
        spec = json.loads(json.dumps(child.get("spec")))
        for field in ("clusterIP", "clusterIPs"):
            (spec or {}).pop(field, None)
        children[name] = (
            metadata["labels"],
            metadata["annotations"].get("weir.dev/applied"),
            controller_of(child)["uid"],
            spec,
            child.get("rules"),
            child.get("roleRef"),
        )
    return children


async def _rewrites(stage: Stage) -> None:
    """Return once the policy is in force: it rewrites a Deployment that nobody keeps."""
    labels = {"app": "probe"}
    containers = [{"name": "x", "image": "x", "env": [{"name": "LEVEL", "value": "x"}]}]
    probe: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "probe", "namespace": stage.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }

    def is_rewritten() -> bool:
        printed = stage.kubectl("create", "--dry-run=server", "-f-", "-o", "json", document=probe)
        return "rewritten" in printed or "mirror.example" in printed

    await eventually(is_rewritten)
