"""The brake for everything: it outlives every process, and costs nothing at rest."""

from __future__ import annotations

import pytest

from crds.kubernetes import DEPLOYMENT
from handlers.cli.devstack.control_plane import ControlPlane
from tests.builders import a_small_deployment
from tests.e2e.crowd import http_get
from tests.e2e.stage import Stage, container, versions
from tests.e2e.terminal import weir_command
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir
from tests.witness.quiet import quiet

LOOK_SECONDS = 0.5


@pytest.fixture
def own_stage(control_plane: ControlPlane, namespace: str, weir: Weir) -> Stage:
    """A namespace whose handlers take it for Weir's own: nobody else is paused with them."""
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

    async def is_counted() -> bool:
        _, text = await http_get(f"{stage.handlers.http_url}/metrics")
        return "weir_paused 1.0" in text

    await eventually(is_counted)
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
