"""What would be done is said before it is done: `weir render --diff`, and handlers in a dry run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.kube import FIELD_MANAGER
from crds.inferadeployment import DEPLOYMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from crds.kubernetes import DEPLOYMENT, Manifest
from handlers.cli.devstack import access
from tests.builders import InferaDeploymentBuilder, a_small_deployment
from tests.e2e.crowd import http_get
from tests.e2e.stage import Stage, uid
from tests.e2e.terminal import Said, Terminal
from tests.stack.eventually import eventually
from tests.witness.audit import AuditEvent
from tests.witness.history import read_history

NEWER = "registry.example/infera:2"
IMAGE = 'spec.template.spec.containers[name="infera"].image'


class Reader:
    """Someone who asks what would change, and the witness that nothing did."""

    def __init__(self, stage: Stage, kubeconfig: Path, directory: Path) -> None:
        self._stage = stage
        self._kubeconfig = kubeconfig
        self._file = directory / "resource.yaml"
        self._offset = stage.audit.offset()

    def diff(self, *words: str, of: InferaDeploymentBuilder | None = None) -> Said:
        """Return what `weir render --diff` says, of a file where a resource is given."""
        given: tuple[str, ...] = words
        if of is not None:
            manifest = of.in_namespace(self._stage.namespace).manifest()
            self._file.write_text(yaml.safe_dump(manifest))
            given = ("-f", str(self._file), *words)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(self._kubeconfig))
            return Terminal("nats://127.0.0.1:1").weir("render", "--diff", *given)

    def objects(self, *words: str, of: InferaDeploymentBuilder | None = None) -> dict[str, Any]:
        """Return, by `Kind/name`, what differs of the one resource that is compared."""
        (resource,) = json.loads(self.diff("-o", "json", *words, of=of).out)["resources"]
        return {f"{one['kind']}/{one['name']}": one for one in resource["objects"]}

    def asked(self) -> list[AuditEvent]:
        """Return the writes that were asked for, every one a dry run."""
        events = [
            event
            for event in self._stage.audit.events(from_offset=self._offset)
            if event.user_agent.startswith("weir-cli")
            and event.verb in ("create", "update", "patch", "delete")
        ]
        for event in events:
            assert "dryRun=All" in event.request_uri, str(event)
            assert event.verb != "delete" or event.body["dryRun"] == ["All"], str(event)
        return events


@pytest.fixture
def reader(running: Stage, tmp_path: Path) -> Reader:
    """An administrator, beside running handlers."""
    return Reader(running, running.cluster.kubeconfig(), tmp_path)


def _states(stage: Stage) -> dict[str, Any]:
    """Return which objects there are, and our last write of each; others write status any time."""
    objects = {**stage.children(), "resource": stage.resource("chat")}
    return {
        name: (
            uid(item),
            [e for e in item["metadata"]["managedFields"] if e["manager"] == FIELD_MANAGER],
        )
        for name, item in objects.items()
    }


async def test_what_handlers_brought_to_rest_does_not_differ_and_an_edit_says_which_pods_restart(
    running: Stage, reader: Reader
) -> None:
    chat = a_small_deployment("chat").with_service("worker", replicas=2)
    running.apply(chat)
    await running.ready("chat")
    where = f"{running.namespace}/chat"

    for words in (("idep", where), ("-n", running.namespace)):
        said = reader.diff(*words)
        assert said == (0, "", "Nothing differs: 1 resource compared.\n")
    assert reader.diff(of=chat).code == 0
    assert {event.object_ref.resource for event in reader.asked()} == {"inferadeployments"}

    at_rest = _states(running)
    edited = chat.with_image(NEWER)
    said = reader.diff(of=edited)
    assert said.code == 1
    assert said.out.splitlines() == [
        f"InferaDeployment {where}",
        "  ~ Deployment/chat-server: 1 pod would restart",
        f"      {IMAGE}: registry.example/infera:1 -> {NEWER}",
        "  ~ Deployment/chat-worker: 2 pods would restart",
        f"      {IMAGE}: registry.example/infera:1 -> {NEWER}",
        "1 of 1 resource differ; change 2; 3 pods of 2 workloads restart",
    ]
    scaled = reader.objects(of=chat.with_service("worker", replicas=3))
    assert list(scaled) == ["Deployment/chat-worker"]
    assert "restarts" not in scaled["Deployment/chat-worker"]

    # A resource that does not exist yet, and one that the API server would not take.
    new = reader.objects(of=chat.named("new"))
    assert len(new) == 6
    assert {one["action"] for one in new.values()} == {"create"}
    refused = reader.diff(of=chat.with_service("worker", replicas=-1))
    assert (refused.code, refused.out) == (2, "")
    assert "replicas" in refused.err

    assert len(reader.asked()) > 10
    assert _states(running) == at_rest


async def test_what_is_missing_stale_foreign_or_edited_by_hand_is_named_and_left_as_it_is(
    running: Stage, reader: Reader, tmp_path: Path
) -> None:
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")
    running.handlers.terminate()
    worker = running.get(DEPLOYMENT, "chat-worker")
    stale = _like(worker, "chat-former")
    running.kubectl("create", "-f-", document=stale)
    running.kubectl("delete", "deployment/chat-worker", "serviceaccount/chat-disc")
    running.kubectl("create", "serviceaccount", "chat-disc")
    image = '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mine"}]'
    running.kubectl("patch", "deployment/chat-server", "--type=json", "-p", image)
    running.kubectl("annotate", "service/chat-server", "example.com/note=kept")
    found = _states(running)

    said = reader.diff("-A")
    assert said.code == 1
    assert f"InferaDeployment {running.namespace}/chat" in said.out
    objects = reader.objects("idep", f"{running.namespace}/chat")
    assert {name: one["action"] for name, one in objects.items()} == {
        "ServiceAccount/chat-disc": "blocked",
        "Deployment/chat-server": "change",
        "Deployment/chat-worker": "create",
        "Deployment/chat-former": "delete",
    }
    assert objects["ServiceAccount/chat-disc"]["reason"] == "ForeignObject"
    assert objects["Deployment/chat-server"]["restarts"] is True
    assert objects["Deployment/chat-server"]["fields"] == [
        {"path": IMAGE, "old": "mine", "new": "registry.example/infera:1"}
    ]

    # Who may not write may not try either, and is told so; whom nobody answers as well.
    stranger = Reader(running, running.cluster.kubeconfig(access.BRIDGE), tmp_path)
    assert "cannot be compared" in stranger.diff("-n", running.namespace).err
    nobody = Reader(running, tmp_path / "none", tmp_path).diff("-A")
    assert (nobody.code, nobody.out) == (2, "")

    assert "delete" in {event.verb for event in reader.asked()}
    assert _states(running) == found


async def test_handlers_in_a_dry_run_write_nothing_and_tell_what_they_would(stage: Stage) -> None:
    stage.bridge = stage.weir.bridge()
    trying = stage.weir.handlers(dry_run="true")
    stage.bridge.wait_ready()
    trying.wait_ready()
    offset = stage.audit.offset()
    stage.apply(a_small_deployment("chat"))

    async def is_told() -> list[str]:
        moments = await read_history(stage.weir.nats.url)
        told = [m for m in moments if m.owner == f"{stage.namespace}/chat" and m.result]
        assert told, moments
        assert {moment.result for moment in told} == {"would-change"}
        return list(told[0].writes)

    writes = await eventually(is_told)
    assert sorted(writes) == [
        "create Deployment/chat-server",
        "create Deployment/chat-worker",
        "create Role/chat-disc",
        "create RoleBinding/chat-disc",
        "create Service/chat-server",
        "create ServiceAccount/chat-disc",
        "status InferaDeployment/chat",
    ]
    assert stage.children() == {}
    assert "status" not in stage.resource("chat")
    events = stage.audit.events(from_offset=offset)
    tried = [e for e in events if e.user_agent.startswith("weir-handlers") and e.verb == "create"]
    assert len(tried) >= 5
    assert stage.audit.mutating(from_offset=offset, namespace=stage.namespace) == []

    said = Terminal(stage.weir.nats.url).weir(
        "history", "idep", f"{stage.namespace}/chat", "-ojson"
    )
    foretold = json.loads(said.out)["items"][0]["foretold"]
    assert {one["verb"] for one in foretold} == {"create"}
    _, metrics = await http_get(trying.http_url + "/metrics")
    assert 'weir_dry_run_changes_total{kind="inferadeployment",verb="create"}' in metrics
    assert "weir_dry_run 1.0" in metrics

    # The switch is thrown: a resync brings what was only tried.
    trying.terminate()
    stage.handlers = stage.weir.handlers()
    stage.bridge.restart()
    await stage.ready("chat")


def _like(live: Manifest, name: str) -> Manifest:
    """Return another workload of the same resource, as an earlier spec of it had made one."""
    metadata = live["metadata"]
    assert metadata["labels"][MANAGED_BY_LABEL] == MANAGED_BY
    assert metadata["labels"][DEPLOYMENT_LABEL] == "chat"
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": name,
            "labels": metadata["labels"],
            "ownerReferences": metadata["ownerReferences"],
        },
        "spec": {**live["spec"], "replicas": 0},
    }
