"""What a resource asks for, or that only an edit of it helps."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

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


class FakeKube:
    """Holds one object, and counts who asks for it."""

    def __init__(self, held: Manifest | None) -> None:
        self.held = held
        self.asked = 0

    async def read(self, kind: Kind, namespace: str, name: str) -> bytes:
        """Return what is held."""
        assert (kind.kind, name, namespace) == (*BROKER, "models")
        self.asked += 1
        if self.held is None:
            raise NotFound(404, "NotFound", "not found")
        return msgspec.json.encode(self.held)


def broker(**metadata: Any) -> Manifest:
    """Return a broker as AMD's operator or we made it for that resource."""
    made = children(rendered(a_resource(nats=None)))[BROKER]
    return {**made, "metadata": {**made["metadata"], **metadata}}


async def wanted(held: Manifest | None, **spec: Any) -> tuple[set[str], FakeKube]:
    kube = FakeKube(held)
    reads = Reads(cast("Any", kube), HANDLER.contract, "models")
    found = await wanted_in_cluster(HANDLER, raw(**spec), SHARED, reads)
    return {kind for kind, _ in children(found.rendering)}, kube


FORMER = [{"kind": "InferaDeployment", "apiVersion": "infera.amd.com/v1alpha1", "name": "demo"}]


@pytest.mark.parametrize(
    ("held", "is_kept"),
    [
        (broker(), True),
        ({**broker(), "status": None}, True),
        (broker(deletionTimestamp="2026-11-30T12:00:00Z"), True),
        (broker(ownerReferences=[]), True),
        (broker(ownerReferences=[{**FORMER[0], "uid": "former", "controller": True}]), False),
        (broker(ownerReferences=[{"kind": "X", "uid": "x", "controller": True}]), False),
        (broker(ownerReferences=[], labels={}), False),
        (None, False),
    ],
)
async def test_a_deployment_that_says_nothing_keeps_the_broker_that_it_has(
    held: Manifest | None, is_kept: bool
) -> None:
    kinds, kube = await wanted(held, nats=None)
    assert ("StatefulSet" in kinds) is is_kept
    assert kube.asked == 1


async def test_an_edit_of_anything_else_takes_no_broker_away() -> None:
    kinds, _ = await wanted(broker(), nats=None, image="engine:2", backendFramework="vllm")
    assert "StatefulSet" in kinds


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
