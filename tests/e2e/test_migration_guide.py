"""Every command of docs/migrate-from-infera-operator.md does what the guide says of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bridge.settings import variable
from crds.inferadeployment import CONTRACT
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, Manifest
from handlers.cli.devstack import locate
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.process import reserve_port
from handlers.cli.devstack.weir import REPOSITORY
from tests.e2e.live import SILENT_SECONDS, Live
from tests.e2e.stage import Stage
from tests.faults.stand_ins.reference_operator import OF_ITS_IMAGE
from tests.stack.eventually import eventually

GUIDE = REPOSITORY / "docs" / "migrate-from-infera-operator.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## \d\. (.*)$", re.MULTILINE)
COMMAND_SECONDS = 120
OPERATOR = "infera-operator"
HOME = "infera-system"


class Reader:
    """Somebody who types the guide's commands, section by section, in a folder of their own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        text = GUIDE.read_text("utf-8")
        for port in (":8080", ":8081"):
            assert port in text
            text = text.replace(port, f"127.0.0.1:{reserve_port()}")
        parts = SECTION.split(text)
        self._blocks = {
            title: BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        self._said_where = self._blocks["Before"].pop(0)

    def does(self, section: str) -> str:
        """Return what the commands of a section print; each has to succeed."""
        blocks = self._blocks.pop(section)
        assert blocks
        return "".join(map(self._typed, blocks))

    def has_done_all(self) -> bool:
        """Return whether no section with commands is left."""
        return not any(self._blocks.values())

    def _typed(self, block: str) -> str:
        script = f"{self._said_where}\n{self._environment['SAID_HERE']}\n{block}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def reader(
    fresh_control_plane: ControlPlane, nats_server: NatsServer, scratch: Path
) -> Iterator[Reader]:
    """With `weir` and `kubectl` at hand; what they started ends with the test."""
    folder = scratch / "reader"
    folder.mkdir()
    weir = folder / "weir"
    python = shlex.quote(sys.executable)
    weir.write_text(f'#!/bin/sh\nexec {python} -m handlers "$@"\n', encoding="utf-8")
    weir.chmod(0o755)
    kubectl = locate.kubectl(os.environ)
    shutil.copy(kubectl, folder / "kubectl")
    here = {"WEIR": str(REPOSITORY), "NATS_URL": nats_server.url}
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "KUBECONFIG": str(fresh_control_plane.kubeconfig()),
        "SAID_HERE": "\n".join(f"export {name}={shlex.quote(it)}" for name, it in here.items()),
        variable("other_operator_seconds"): str(SILENT_SECONDS),
        variable("not_ready_seconds"): "1",
    }
    yield Reader(folder, environment)
    for path in folder.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text("utf-8")), signal.SIGKILL)


def _the_operators_own(stage: Stage) -> Manifest:
    """Have the Deployment of AMD's operator, and its CRD; return the one of ours."""
    labels = {"app.kubernetes.io/name": OPERATOR}
    container = {"name": "manager", "image": "registry.example/operator:1"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    stage.cluster.kubectl("create", "namespace", HOME)
    operator: Manifest = {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": OPERATOR, "namespace": HOME, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": pods},
    }
    stage.cluster.kubectl("create", "-f-", document=operator)

    crd: Manifest = stage.cluster.get(_CRD)
    theirs = {**crd, "metadata": {"name": crd["metadata"]["name"]}}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    (version,) = crd["spec"]["versions"]
    schema = {"openAPIV3Schema": {**anything, "properties": {"spec": anything, "status": anything}}}
    theirs["spec"] = {**crd["spec"], "versions": [{**version, "schema": schema}]}
    stage.cluster.kubectl("replace", "-f-", document=theirs)
    return crd


_CRD = CUSTOM_RESOURCE_DEFINITION.path(name=CONTRACT.kind.crd_name)


async def test_who_follows_the_guide_changes_operators_there_and_back_without_a_restart(
    stage: Stage, reader: Reader
) -> None:
    crd = _the_operators_own(stage)
    live = Live(stage, "nats-absent", manager=OF_ITS_IMAGE)
    live.apply()
    await live.is_served_by_the_reference()
    await eventually(lambda: len(live.pods()) == 3)

    said = reader.does("Before")
    assert f"{HOME} " in said
    assert "exit code 1" in said
    assert "no pod restarts" in said.splitlines()[-1]
    pods = live.pods()
    listed = (reader.folder / "pods-before.txt").read_text("utf-8").splitlines()
    assert {line.split()[2] for line in listed} == pods.keys()

    reader.does("The switch")
    assert stage.cluster.get(_CRD)["spec"] == crd["spec"]
    assert not stage.cluster.get(f"/api/v1/namespaces/{HOME}/pods")["items"]
    said = reader.does("Did it work?")
    assert "Nothing differs: 1 resource compared." in said
    assert "no pod restarted" in said
    assert f"{stage.namespace}/nats-absent" in said
    children = await live.is_ours()
    assert len(children) == 8

    said = reader.does("Back to AMD's operator")
    assert re.search(r"nats-absent-nats +\{", said)
    templates = live.made_from()
    live.mark_as_others_do()
    await live.is_served_by_the_reference()
    assert (live.made_from(), live.pods()) == (templates, pods)
    assert reader.has_done_all()
