"""The brake: paused, nothing that serves is touched; resumed, everything that waited is done."""

from __future__ import annotations

from crds.kubernetes import DEPLOYMENT, SERVICE, Manifest
from handlers.pause import ANNOTATION
from tests.builders import a_small_deployment
from tests.e2e.stage import Stage, container, versions
from tests.e2e.terminal import weir_command
from tests.witness.quiet import quiet


async def test_a_resource_that_is_paused_from_birth_gets_no_child_until_it_is_resumed(
    running: Stage,
) -> None:
    running.apply(_paused(a_small_deployment("chat").manifest()))

    said = await running.says("chat", "Progressing", "False", "Paused", "create Deployment/chat-")
    assert "weir resume" in said["message"]
    assert running.children() == {}

    out = weir_command(running, "resume", "idep", f"{running.namespace}/chat")
    assert out == f"inferadeployment {running.namespace}/chat is taken up again\n"
    await running.ready("chat")


async def test_edits_of_a_paused_resource_wait_and_are_then_carried_out_as_a_whole(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat").with_worker("extra")
    running.apply(chat)
    await running.ready("chat")
    before = versions(running)
    status = running.resource("chat")["status"]

    weir_command(running, "pause", "idep", f"{running.namespace}/chat")
    await running.says("chat", "Progressing", "False", "Paused", "nothing waits")
    assert running.condition("chat", "Ready")["status"] == "True"

    edited = a_small_deployment("chat").with_service("worker", args=["--edited"])
    running.kubectl("replace", "-f-", document=_paused(edited.manifest()))
    waits = ("apply Deployment/chat-worker", "delete Deployment/chat-extra")
    await running.says("chat", "Progressing", "False", "Paused", *waits)
    await running.says("chat", "Ready", "False", "Paused", *waits)
    running.kubectl("delete", "service", "chat-server")
    await running.says("chat", "Progressing", "False", "Paused", "create Service/chat-server")
    running.kubectl("delete", "deployment", "chat-server")
    await running.says("chat", "Ready", "False", "WaitingForPods", "server")
    after = versions(running)
    del before["Service/chat-server"], before["Deployment/chat-server"]
    assert after == before
    services = running.resource("chat")["status"]["services"]
    assert set(services) == set(status["services"])
    assert services["server"]["readyReplicas"] == 0

    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")

    weir_command(running, "resume", "idep", f"{running.namespace}/chat")
    await running.vanish("Deployment/chat-extra")
    ready = await running.ready("chat")
    assert set(ready["status"]["services"]) == {"server", "worker"}
    assert container(running.get(DEPLOYMENT, "chat-worker"))["command"][-1] == "--edited"
    assert running.find(SERVICE, "chat-server") is not None


def _paused(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {ANNOTATION: "true"}}}
