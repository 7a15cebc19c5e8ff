"""An edit reaches the children that it concerns, and no others."""

from __future__ import annotations

from crds.kubernetes import DEPLOYMENT, SERVICE, STATEFUL_SET
from tests.builders import a_small_deployment, an_infera_deployment
from tests.e2e.stage import Stage, container, uid
from tests.stack.eventually import eventually
from tests.witness.quiet import calm, quiet


async def test_a_small_deployment_becomes_its_six_children_and_ready(running: Stage) -> None:
    running.apply(a_small_deployment("chat"))

    ready = await running.ready("chat")

    assert set(running.children()) == {
        "ServiceAccount/chat-disc",
        "Role/chat-disc",
        "RoleBinding/chat-disc",
        "Service/chat-server",
        "Deployment/chat-server",
        "Deployment/chat-worker",
    }
    assert ready["status"]["state"] == "ready"
    assert ready["status"]["services"] == {
        "server": {"kind": "Deployment", "replicas": 1, "readyReplicas": 1},
        "worker": {"kind": "Deployment", "replicas": 1, "readyReplicas": 1},
    }


async def test_an_edit_of_one_service_reaches_its_child_and_restarts_nothing_else(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    await calm(running.cluster, running.namespace)
    before = running.children()

    running.apply(chat.with_service("worker", image="registry.example/infera:2", args=["--x"]))

    def is_edited() -> bool:
        main = container(running.get(DEPLOYMENT, "chat-worker"))
        return (main["image"], main["command"][-1]) == ("registry.example/infera:2", "--x")

    await eventually(is_edited)
    await running.ready("chat")
    after = running.children()
    same = {name for name in before if _version(before, name) == _version(after, name)}
    assert same == set(before) - {"Deployment/chat-worker"}


async def test_an_edit_of_replicas_alone_restarts_no_pod(running: Stage) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    template = running.get(DEPLOYMENT, "chat-worker")["spec"]["template"]

    running.apply(chat.with_service("worker", replicas=3))

    await eventually(lambda: running.get(DEPLOYMENT, "chat-worker")["spec"]["replicas"] == 3)
    ready = await running.ready("chat")
    assert ready["status"]["services"]["worker"]["readyReplicas"] == 3
    assert running.get(DEPLOYMENT, "chat-worker")["spec"]["template"] == template


async def test_a_field_that_the_user_removes_is_removed_from_the_child(running: Stage) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat.with_env("A", "1").with_env("B", "2"))
    await running.ready("chat")

    running.apply(chat.with_env("B", "2"))

    def names() -> list[str]:
        return [v["name"] for v in container(running.get(DEPLOYMENT, "chat-worker"))["env"]]

    await eventually(lambda: "A" not in names())
    assert "B" in names()


async def test_the_children_of_a_removed_service_are_pruned_and_the_others_stay(
    running: Stage,
) -> None:
    chat = an_infera_deployment("chat").with_server().with_server("second").with_worker()
    running.apply(chat)
    await running.ready("chat")
    before = running.children()

    running.apply(chat.without_service("second"))

    await running.vanish("Deployment/chat-second", "Service/chat-second")
    await running.ready("chat")
    after = running.children()
    gone = {"Deployment/chat-second", "Service/chat-second"}
    assert {name: uid(child) for name, child in after.items()} == {
        name: uid(child) for name, child in before.items() if name not in gone
    }
    assert set(running.resource("chat")["status"]["services"]) == {"server", "worker"}


async def test_a_server_that_becomes_a_worker_loses_its_service(running: Stage) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")

    running.apply(chat.with_service("server", componentType="worker"))

    await running.vanish("Service/chat-server")
    await running.ready("chat")


async def test_a_nats_that_is_turned_off_is_pruned(running: Stage) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat.with_managed_nats())
    await eventually(lambda: running.find(STATEFUL_SET, "chat-nats"))
    assert running.find(SERVICE, "chat-nats")

    running.apply(chat.without_nats())

    await running.vanish("StatefulSet/chat-nats", "Service/chat-nats")
    await running.ready("chat")
    command = container(running.get(DEPLOYMENT, "chat-worker"))["command"]
    assert "--nats-server" not in command


async def test_edits_made_while_handlers_are_down_land_when_they_come_back(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    running.handlers.kill()

    running.apply(chat.with_service("worker", replicas=2).without_service("server"))
    running.apply(a_small_deployment("born-meanwhile"))
    running.handlers.start()

    await running.vanish("Deployment/chat-server", "Service/chat-server")
    ready = await running.ready("chat")
    assert ready["status"]["services"]["worker"]["readyReplicas"] == 2
    await running.ready("born-meanwhile")


async def test_edits_made_while_the_bridge_is_down_land_when_it_comes_back(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    running.bridge.kill()

    running.apply(chat.with_service("worker", replicas=2).without_service("server"))
    running.bridge.start()

    await running.vanish("Deployment/chat-server", "Service/chat-server")
    ready = await running.ready("chat")
    assert ready["status"]["services"]["worker"]["readyReplicas"] == 2


async def test_a_ready_deployment_that_is_looked_at_again_is_left_as_it_is(
    running: Stage,
) -> None:
    running.apply(*a_small_deployment("chat").many(5))
    names = [f"chat-{number:03}" for number in range(5)]
    for name in names:
        await running.ready(name)
    # Whatever the last change of status woke comes first.
    await running.looked_at_again(*names)

    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again(*names)


def _version(children: dict[str, dict[str, dict[str, str]]], name: str) -> str:
    return children[name]["metadata"]["resourceVersion"]
