"""Deleting is never held up, leaves nothing, and a new resource of the name starts afresh."""

from __future__ import annotations

import asyncio

from crds.kubernetes import DEPLOYMENT
from tests.builders import a_small_deployment
from tests.e2e.stage import INFERA_DEPLOYMENT, Stage, controller_of, uid
from tests.stack.eventually import eventually

SIX = (
    "ServiceAccount/chat-disc",
    "Role/chat-disc",
    "RoleBinding/chat-disc",
    "Service/chat-server",
    "Deployment/chat-server",
    "Deployment/chat-worker",
)
HOLD = "test.example/hold"


async def test_a_deleted_resource_takes_all_its_children_with_it(running: Stage) -> None:
    running.apply(a_small_deployment("chat"), a_small_deployment("other"))
    await running.ready("chat")
    await running.ready("other")

    running.kubectl("delete", "idep", "chat")

    await running.vanish("InferaDeployment/chat", *SIX)
    assert len(running.children()) == 6
    await running.ready("other")


async def test_deletion_needs_neither_handlers_nor_bridge(running: Stage) -> None:
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")
    assert "finalizers" not in running.resource("chat")["metadata"]
    running.handlers.kill()
    running.bridge.kill()

    running.kubectl("delete", "idep", "chat", "--timeout=60s")
    await running.vanish(*SIX)

    offset = running.audit.offset()
    running.handlers.start()
    running.bridge.start()
    running.apply(a_small_deployment("next"))
    await running.ready("next")
    written = running.audit.mutating(from_offset=offset, namespace=running.namespace)
    assert not [str(e) for e in written if e.object_ref.name.startswith("chat")]


async def test_a_resource_deleted_while_handlers_are_down_is_not_born_again(
    running: Stage,
) -> None:
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")
    running.handlers.kill()

    running.kubectl("delete", "idep", "chat", "--timeout=60s")
    await running.vanish(*SIX)
    offset = running.audit.offset()
    running.handlers.start()
    await running.read_since(offset, "chat")

    written = running.audit.mutating(from_offset=offset, namespace=running.namespace)
    assert not [str(event) for event in written if event.landed]
    assert running.children() == {}


async def test_nothing_is_created_for_a_resource_that_is_being_deleted(running: Stage) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    running.patch("idep/chat", {"metadata": {"finalizers": [HOLD]}}, "--type=merge")
    running.kubectl("delete", "idep", "chat", "--wait=false")
    offset = running.audit.offset()

    running.kubectl("delete", "deployment", "chat-worker")
    await running.looked_at_again("chat")

    assert running.find(DEPLOYMENT, "chat-worker") is None
    assert not running.audit.mutating(from_offset=offset, namespace=running.namespace)
    running.patch("idep/chat", {"metadata": {"finalizers": None}}, "--type=merge")
    await running.vanish("InferaDeployment/chat", *SIX)


async def test_a_resource_deleted_and_recreated_at_once_gets_children_of_its_own(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    for _ in range(3):
        before = {name: uid(child) for name, child in running.children().items()}
        running.kubectl("delete", "idep", "chat", "--wait=false")
        running.apply(chat)
        owner = uid(running.resource("chat"))

        def are_new(owner: str = owner, before: dict[str, str] = before) -> bool:
            children = running.children()
            assert set(children) == set(SIX), set(children)
            owners = {controller_of(child)["uid"] for child in children.values()}
            assert owners == {owner}, "some belong to the resource before"
            assert not {uid(child) for child in children.values()} & set(before.values())
            return True

        await eventually(are_new, 40)
        await running.ready("chat")


async def test_a_resource_recreated_while_handlers_are_down_gets_children_of_its_own(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    running.handlers.kill()
    running.kubectl("delete", "idep", "chat")
    running.apply(chat.without_service("server"))
    owner = uid(running.resource("chat"))

    running.handlers.start()

    await running.ready("chat")
    await running.vanish("Deployment/chat-server", "Service/chat-server")
    assert {controller_of(child)["uid"] for child in running.children().values()} == {owner}


async def test_children_that_outlive_their_resource_are_adopted_by_the_next_of_its_name(
    running: Stage,
) -> None:
    chat = a_small_deployment("chat")
    running.apply(chat)
    await running.ready("chat")
    before = {name: uid(child) for name, child in running.children().items()}

    running.kubectl("delete", "idep", "chat", "--cascade=orphan")
    await eventually(lambda: running.children() == {})
    running.apply(chat)

    await running.ready("chat")
    assert {name: uid(child) for name, child in running.children().items()} == before


async def test_a_foreground_deletion_ends(running: Stage) -> None:
    """It waits for children with blockOwnerDeletion: whoever made them anew would block it."""
    running.apply(a_small_deployment("chat"))
    await running.ready("chat")

    running.kubectl("delete", "idep", "chat", "--cascade=foreground", "--timeout=60s")

    assert running.find(INFERA_DEPLOYMENT, "chat") is None
    await running.vanish(*SIX)


async def test_a_namespace_with_resources_goes_and_nothing_is_created_in_it(
    running: Stage,
) -> None:
    running.apply(*a_small_deployment("chat").many(5))
    await asyncio.gather(*(running.ready(f"chat-{number:03}") for number in range(5)))

    running.cluster.kubectl("delete", "namespace", running.namespace, "--timeout=60s")

    refused = [e for e in running.audit.mutating(namespace=running.namespace) if not e.landed]
    own_failures = [event for event in refused if event.response_status.code not in {403, 404, 409}]
    assert not [str(event) for event in own_failures]
