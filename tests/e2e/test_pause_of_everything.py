"""The brake for everything: it outlives every process, and costs nothing at rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from crds.kubernetes import DEPLOYMENT
from handlers.cli.devstack.control_plane import ControlPlane
from tests.builders import a_small_deployment
from tests.e2e.stage import Stage, container
from tests.e2e.test_pause import versions, weir_command
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir
from tests.witness.quiet import quiet

LOOK_SECONDS = 0.5


@pytest.fixture
def own_stage(
    control_plane: ControlPlane, namespace: str, weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> Stage:
    """A namespace whose handlers take it for Weir's own: nobody else is paused with them."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    stage = Stage(control_plane, namespace, weir)
    stage.start(
        watch_namespaces=namespace,
        own_namespace=namespace,
        pause_check_seconds=LOOK_SECONDS,
        not_ready_seconds=1,
    )
    return stage


async def test_a_pause_of_everything_outlives_the_handlers_and_costs_nothing_at_rest(
    own_stage: Stage,
) -> None:
    stage = own_stage
    stage.apply(a_small_deployment("chat"))
    await stage.ready("chat")
    before = versions(stage)

    told = weir_command(stage, "pause", "--all", "--reason", "an upgrade of the GPUs")
    assert told.startswith("everything is paused: handlers stop writing")
    assert "paused already" in weir_command(stage, "pause", "--all")
    stage.handlers.restart()
    stage.handlers.wait_ready()
    await eventually(lambda: "weir_paused 1.0" in _metrics(stage))
    async with quiet(stage.cluster, stage.namespace):
        await stage.looked_at_again("chat")

    stage.patch("idep/chat", {"spec": {"image": "registry.example/infera:2"}}, "--type=merge")
    stage.apply(a_small_deployment("new"))
    why = ("an upgrade of the GPUs", "`weir resume --all`")
    for name, waits in (("chat", "apply Deployment/chat-server"), ("new", "create Role/new-disc")):
        await stage.says(name, "Progressing", "False", "Paused", *why, waits)
    assert versions(stage) == before

    assert weir_command(stage, "resume", "--all").startswith("handlers write again")
    assert weir_command(stage, "resume", "--all").startswith("nothing was paused")
    await stage.ready("new")
    await stage.ready("chat")
    image = container(stage.get(DEPLOYMENT, "chat-server"))["image"]
    assert image == "registry.example/infera:2"


def _metrics(stage: Stage) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())",
            f"{stage.handlers.http_url}/metrics",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
