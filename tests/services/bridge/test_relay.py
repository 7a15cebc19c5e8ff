"""From a change at the API server to a message in the queue."""

from __future__ import annotations

import time

import msgspec

from bridge.events import ChildHint, EventType
from crds.kubernetes import DEPLOYMENT, SERVICE
from tests.services.bridge.conftest import (
    Bridge,
    Published,
    Resources,
    Taker,
    a_deployment_of,
    a_service_of,
    ready,
)
from tests.stack.eventually import eventually


async def test_every_resource_is_looked_at_when_a_bridge_starts(
    bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    await resources.create("before")
    async with bridge():
        await eventually(lambda: taken.of("before", EventType.RESYNC))


async def test_two_bridges_put_one_message_per_change_into_the_queue(
    bridge: Bridge, taken: Taker, resources: Resources, published: Published
) -> None:
    async with bridge() as one, bridge() as other:
        await ready(one)
        await ready(other)
        await resources.create("twice-seen")
        await eventually(lambda: published(EventType.CHANGED, "duplicate") == 1)
        await resources.edit("twice-seen", "i:2")
        await eventually(lambda: published(EventType.CHANGED, "duplicate") == 2)
        await eventually(lambda: len(taken.of("twice-seen")) == 2)
        assert published(EventType.CHANGED, "stored") == 2


async def test_a_child_wakes_its_owner_and_the_hint_names_it(
    bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    async with bridge() as relay:
        await ready(relay)
        await resources.create("parent")
        await eventually(lambda: taken.of("parent"))
        taken.events.clear()
        await resources.create_object(SERVICE, a_service_of("parent", "parent-s"))
        [event] = await eventually(lambda: taken.of("parent", EventType.OBSERVED))
        assert [(hint.kind, hint.name) for hint in event.children] == [("Service", "parent-s")]
        assert all(isinstance(hint, ChildHint) and hint.uid for hint in event.children)
        await resources.patch(SERVICE, "parent-s", {"spec": {"ports": [{"port": 81}]}})
        await eventually(lambda: taken.of("parent", EventType.CHANGED))
        await resources.delete("parent-s", SERVICE)
        [event] = await eventually(lambda: taken.of("parent", EventType.DELETED))
        assert event.children == ()


async def test_a_row_of_changes_of_children_is_one_event_and_an_edit_waits_for_none(
    bridge: Bridge, taken: Taker, resources: Resources, published: Published
) -> None:
    async with bridge(child_hold_seconds=10) as relay:
        await ready(relay)
        await resources.create("parent")
        await eventually(lambda: taken.of("parent"))
        taken.events.clear()
        for name in ("parent-a", "parent-b", "parent-c"):
            await resources.create_object(SERVICE, a_service_of("parent", name))
        await eventually(lambda: relay._publisher.pending)
        assert not taken.of("parent")
        await resources.edit("parent", "i:2")
        [event] = await eventually(lambda: taken.of("parent"))
        assert event.type is EventType.CHANGED
        await resources.delete("parent-b", SERVICE)
        await eventually(lambda: taken.of("parent", EventType.DELETED))
    # Who stops lets go of it.
    [event] = await eventually(lambda: taken.of("parent", EventType.OBSERVED))
    assert {hint.name for hint in event.children} == {"parent-a", "parent-c"}
    assert published(EventType.OBSERVED, "stored") == 1


async def test_children_that_never_come_to_rest_are_told_of_all_the_same(
    bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    async with bridge(child_hold_seconds=2) as relay:
        await ready(relay)
        await resources.create("parent")
        await eventually(lambda: taken.of("parent"))
        await resources.create_object(DEPLOYMENT, a_deployment_of("parent", "parent-d"))

        async def is_told_while_it_changes() -> bool:
            paused = bool(int(time.time() * 10) % 2)
            await resources.patch(DEPLOYMENT, "parent-d", {"spec": {"paused": paused}})
            return bool(taken.of("parent", EventType.OBSERVED))

        await eventually(is_told_while_it_changes)


async def test_any_change_of_a_workload_is_observed(
    bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    async with bridge(child_hold_seconds=0) as relay:
        await ready(relay)
        await resources.create("parent")
        await eventually(lambda: taken.of("parent"))
        await resources.create_object(DEPLOYMENT, a_deployment_of("parent", "parent-d"))
        await eventually(lambda: taken.of("parent", EventType.OBSERVED))
        for change, subresource in (
            ({"status": {"replicas": 1, "readyReplicas": 1}}, "status"),
            ({"spec": {"replicas": 3}}, None),
        ):
            taken.events.clear()
            await resources.patch(DEPLOYMENT, "parent-d", change, subresource)
            await eventually(lambda: taken.of("parent", EventType.OBSERVED))
            assert not taken.of("parent", EventType.CHANGED)


async def test_what_no_reconcile_needs_to_see_makes_no_event(
    bridge: Bridge, taken: Taker, resources: Resources, published: Published
) -> None:
    async with bridge() as relay:
        await ready(relay)
        await resources.create("quiet")
        await eventually(lambda: taken.of("quiet"))
        kind = relay._contracts[0].kind
        await resources.patch(kind, "quiet", {"status": {"state": "pending"}}, "status")
        note = {"metadata": {"annotations": {"somebody.else/note": "x"}}}
        await resources.patch(kind, "quiet", note)
        # Events of one watch keep their order: once this one is there, those would be.
        await resources.patch(kind, "quiet", {"metadata": {"annotations": {"weir.dev/paused": ""}}})
        await eventually(lambda: len(taken.of("quiet")) == 2)
        assert published(EventType.CHANGED, "stored") == 2


async def test_a_resource_nested_deeper_than_a_decoder_goes_stops_nobody(
    bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    deep = msgspec.Raw(b'{"x":[' * 700 + b"{}" + b"]}" * 700)
    pod = {"containers": [{"name": "main", "image": "i"}], "odd": deep}
    service = {"componentType": "server", "extraPodSpec": pod}
    await resources.create("deep-before", services={"s": service})
    async with bridge() as relay:
        await ready(relay)
        await eventually(lambda: taken.of("deep-before", EventType.RESYNC))
        await resources.create("deep-after", services={"s": service})
        await resources.create("shallow")
        await eventually(lambda: taken.names(EventType.CHANGED) == {"deep-after", "shallow"})


async def test_the_periodic_look_is_one_per_resource_and_interval_however_many_bridges(
    bridge: Bridge, taken: Taker, resources: Resources
) -> None:
    for n in range(5):
        await resources.create(f"periodic-{n}")
    async with bridge(resync_seconds=2), bridge(resync_seconds=2):

        def epochs(name: str) -> list[str]:
            ids = [event.id for event in taken.of(name, EventType.RESYNC)]
            return [id_ for id_ in ids if id_.rpartition(":")[2].isdigit()]

        await eventually(lambda: all(len(epochs(f"periodic-{n}")) >= 3 for n in range(5)))
        for n in range(5):
            assert len(set(epochs(f"periodic-{n}"))) == len(epochs(f"periodic-{n}"))


async def test_one_trace_begins_with_each_event(
    bridge: Bridge, taken: Taker, resources: Resources, published: Published
) -> None:
    async with bridge() as relay:
        await ready(relay)
        await resources.create("traced-1")
        await resources.create("traced-2")
        await eventually(lambda: taken.names() == {"traced-1", "traced-2"})
    traces = {event.traceparent.split("-")[1] for event in taken.events}
    assert len(traces) == len(taken.events)
