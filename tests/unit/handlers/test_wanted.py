"""What a resource asks for, or that only an edit of it helps."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from bridge.events import ChangeEvent, EventType, ObjectKey
from bridge.kube_errors import NotFound
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers.children import wanted_in_cluster, wanted_of
from handlers.handler import ChildName, Facts, TerminalError
from handlers.inferadeployment import HANDLER
from handlers.reads import Reads
from tests.unit.handlers.inferadeployment.resources import a_resource, children, raw, rendered


@pytest.mark.parametrize("levels", [700, 900])
def test_a_spec_that_no_renderer_gets_to_the_bottom_of_is_the_users_to_mend(levels: int) -> None:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"d": deep}
    pod = {"containers": [{"name": "c", "image": "x", "zzz": deep}]}
    services = {"worker": {"componentType": "worker", "extraPodSpec": pod}}
    with pytest.raises(TerminalError, match="nested too deeply") as refused:
        wanted_of(HANDLER, raw(services=services), Facts())
    assert refused.value.reason == "InvalidSpec"


SHARED = Facts(nats_default="shared", nats_engine_url="nats://weir:4222")
BROKER = ChildName("StatefulSet", "demo-nats")
FRONT = ChildName("Service", "demo-nats")
ENGINES = ChildName("Deployment", "demo-worker")
KEY = ObjectKey(HANDLER.contract.kind.queue_name, "models", "demo")
BIRTH = ChangeEvent(key=KEY, type=EventType.CHANGED, id="id")
LATER = ChangeEvent(key=KEY, type=EventType.TIMER, id="id")


class FakeKube:
    """Holds one object, and counts who asks for what a broker is known by."""

    def __init__(self, held: Manifest | None) -> None:
        self.held = held
        self.asked = 0

    async def read(self, kind: Kind, namespace: str, name: str) -> bytes:
        """Return what is held."""
        assert kind.kind == "Deployment" or (kind.kind, name) in (BROKER, FRONT)
        assert namespace == "models"
        self.asked += 1
        held = self.held or {"kind": "", "metadata": {"name": ""}}
        if (held["kind"], held["metadata"]["name"]) != (kind.kind, name):
            raise NotFound(404, "NotFound", "not found")
        return msgspec.json.encode(held)


def broker(name: ChildName = BROKER, **metadata: Any) -> Manifest:
    """Return a broker, or what goes with it, as AMD's operator or we made it for that resource."""
    made = children(rendered(a_resource(nats=None)))[name]
    return {**made, "metadata": {**made["metadata"], **metadata}}


async def wanted(held: Manifest | None, **spec: Any) -> tuple[set[str], FakeKube]:
    kube = FakeKube(held)
    reads = Reads(cast("Any", kube), HANDLER.contract, "models")
    found = await wanted_in_cluster(LATER, HANDLER, raw(**spec), SHARED, reads)
    return {kind for kind, _ in children(found.rendering)}, kube


OF_A_FORMER_ONE = [
    {
        "kind": "InferaDeployment",
        "apiVersion": "infera.amd.com/v1alpha1",
        "name": "demo",
        "uid": "former",
        "controller": True,
    }
]


@pytest.mark.parametrize(
    ("held", "is_kept"),
    [
        (broker(), True),
        ({**broker(), "status": None}, True),
        (broker(deletionTimestamp="2026-11-30T12:00:00Z"), True),
        (broker(ownerReferences=[]), True),
        (broker(ownerReferences=OF_A_FORMER_ONE), False),
        (broker(ownerReferences=[{"kind": "X", "uid": "x", "controller": True}]), False),
        (broker(ownerReferences=[], labels={}), False),
        (broker(FRONT), True),
        (broker(FRONT, ownerReferences=OF_A_FORMER_ONE), False),
        (broker(FRONT, ownerReferences=[], labels={}), False),
        (broker(ENGINES), True),
        (broker(ENGINES, ownerReferences=OF_A_FORMER_ONE), False),
        (None, False),
    ],
)
async def test_a_deployment_that_says_nothing_keeps_the_broker_that_it_has(
    held: Manifest | None, is_kept: bool
) -> None:
    """Its Service, or engines that use it, are the rest of a broker that somebody deleted."""
    kinds, kube = await wanted(held, nats=None)
    assert ("StatefulSet" in kinds) is is_kept
    assert kube.asked == 4


async def test_an_edit_of_anything_else_takes_no_broker_away() -> None:
    kinds, _ = await wanted(broker(), nats=None, image="engine:2", backendFramework="vllm")
    assert "StatefulSet" in kinds


async def test_a_service_of_a_name_that_no_object_has_is_not_asked_for() -> None:
    services = {"../../secrets": {"componentType": "worker"}}
    reads = Reads(cast("Any", FakeKube(None)), HANDLER.contract, "models")
    with pytest.raises(TerminalError, match="no DNS label"):
        await wanted_in_cluster(LATER, HANDLER, raw(services=services, nats=None), SHARED, reads)


async def test_a_birth_asks_for_no_workload() -> None:
    kube = FakeKube(None)
    reads = Reads(cast("Any", kube), HANDLER.contract, "models")
    await wanted_in_cluster(BIRTH, HANDLER, raw(nats=None), SHARED, reads)
    assert kube.asked == len((BROKER, FRONT))
    await wanted_in_cluster(BIRTH, HANDLER, raw(nats=None), Facts(), reads)
    assert kube.asked == len((BROKER, FRONT))


async def test_nothing_is_read_where_nothing_depends_on_it() -> None:
    for nats in ({"deploy": False}, {}, {"shared": True}):
        _, kube = await wanted(broker(), nats=nats)
        assert kube.asked == 0


async def test_what_was_seen_is_what_is_then_written_to_and_read_once() -> None:
    kube = FakeKube(broker())
    reads = Reads(cast("Any", kube), HANDLER.contract, "models")
    assert await reads.see(BROKER) == await reads.see(BROKER) == await reads.take(BROKER)
    assert kube.asked == 1
    await reads.take(BROKER)
    assert kube.asked == 2
