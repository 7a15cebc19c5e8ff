"""
Rolled back to another operator that only takes fields away, and taken over again: no pod restarts.

It owns nothing of the template then, and what we applied is still noted there. Only the resource's
status tells that it was served by another since: at a real API server.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from bridge.events import EventType
from bridge.kube import MERGE_PATCH
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT, InferaDeployment
from crds.kubernetes import Manifest
from handlers.errors import LeaseLost
from handlers.fields import entries_of
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from handlers.kept import KEPT
from handlers.lookout import NAMELESS
from handlers.pause import ANNOTATION
from handlers.state import EMPTY
from tests.services.handlers.conftest import OWNER, Desk
from tests.services.handlers.giving_way import EndingLease
from tests.services.handlers.looking import looked
from tests.services.handlers.taken_over import REFERENCE, managers, pods_of, put
from tests.stack.eventually import eventually

SERVICES = {
    name: {"componentType": name, "replicas": 0, "image": "registry.example/engine:1"}
    for name in ("server", "worker")
}


class Resource:
    """A resource that both operators serve in turn."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.state = EMPTY

    async def read(self) -> Manifest:
        """Return it as the API server holds it."""
        data = await self.desk.admin.get(CONTRACT.kind, self.desk.namespace, OWNER)
        assert data is not None
        found: Manifest = msgspec.json.decode(data)
        return found

    async def edit(self, patch: Manifest) -> None:
        """Its user edits it."""
        await self.desk.admin.request(
            "PATCH",
            CONTRACT.kind.path(self.desk.namespace, OWNER),
            query={"fieldManager": "kubectl-edit"},
            body=msgspec.json.encode(patch),
            content_type=MERGE_PATCH,
        )

    async def edit_worker(self, **fields: Any) -> None:
        """Its user edits the worker."""
        await self.edit({"spec": {"services": {"worker": fields}}})

    async def rest(self) -> None:
        """Look until nothing is written: the first looks meet what controllers still say."""

        async def is_quiet() -> bool:
            return await self.look() == []

        await eventually(is_quiet)

    async def look(self) -> list[str]:
        """Return what we write in one look at everything."""
        writer = self.desk.making().writer
        settings = Settings(other_operator_seconds=0.0)
        _, self.state = await looked(
            self.desk, HANDLER, (EventType.RESYNC, ()), writer, self.state, settings
        )
        return [what for what in writer.written if not what.startswith("event")]

    async def workload(self, name: str = "worker") -> Manifest:
        """Return a service's workload as it is."""
        typed = msgspec.convert(await self.read(), InferaDeployment)
        children = HANDLER.render(typed, Facts()).children
        wanted = ("Deployment", f"{OWNER}-{name}")
        (found,) = (one for one in children if (one["kind"], one["metadata"]["name"]) == wanted)
        return await self.desk.live(found)

    async def is_rolled_back(self, by: str = REFERENCE, field: str = "lifecycle") -> Manifest:
        """Return the worker once the reference took fields of its pods away, and served them."""
        back = deepcopy(await self.workload())
        (container,) = back["spec"]["template"]["spec"]["containers"]
        container["env"] = [one for one in container["env"] if one["name"] != "POD_IP"]
        del container[field], back["metadata"]["managedFields"]
        before = await put(self.desk, back, by=by)
        assert managers(before) == {"weir"}
        await self.is_served(by)
        return before

    async def is_served(self, by: str = REFERENCE) -> None:
        """The reference said something else, and then what we said."""
        resource = await self.read()
        said = resource["status"]
        for state in ("initializing", said["state"]):
            resource = await self._says({**resource, "status": {**said, "state": state}}, by)
        assert self.owner_of_status(resource) == {by, "weir"}

    async def _says(self, resource: Manifest, by: str) -> Manifest:
        data = await self.desk.admin.request(
            "PUT",
            CONTRACT.kind.path(self.desk.namespace, OWNER, "status"),
            query={"fieldManager": by},
            body=msgspec.json.encode(resource),
            content_type="application/json",
        )
        found: Manifest = msgspec.json.decode(data)
        return found

    def owner_of_status(self, resource: Manifest) -> set[str]:
        """Return who owns fields of the status."""
        return {
            entry["manager"]
            for entry in entries_of(resource)
            if entry.get("subresource") == "status"
        }


@pytest.fixture
async def resource(desk: Desk) -> Resource:
    """Its pods are ours."""
    found = Resource(desk)
    await found.edit({"spec": {"services": SERVICES, "nats": {"deploy": False}}})
    await found.rest()
    return found


@pytest.mark.parametrize("by", [REFERENCE, NAMELESS])
async def test_what_was_only_taken_away_stays_away_and_what_is_drift_then_is_mended(
    desk: Desk, resource: Resource, by: str
) -> None:
    before = await resource.is_rolled_back(by)
    server = await resource.workload("server")
    await resource.look()
    after = await resource.workload()
    assert pods_of(after) == pods_of(before)
    assert KEPT in after["metadata"]["annotations"]
    assert managers(after) == {"weir"}
    assert pods_of(await resource.workload("server")) == pods_of(server)
    assert KEPT not in (await resource.workload("server"))["metadata"]["annotations"]
    assert resource.owner_of_status(await resource.read()) == {"weir"}
    await resource.rest()

    # From now on what differs is what somebody did, and is taken back.
    for name, template in (("worker", pods_of(before)), ("server", pods_of(server))):
        live = await resource.workload(name)
        live["spec"]["template"]["spec"]["containers"][0]["command"] = ["mine"]
        await put(desk, live, by="kubectl-edit")
        await resource.look()
        assert pods_of(await resource.workload(name)) == template
    await resource.rest()

    await resource.edit_worker(replicas=1)
    await resource.look()
    scaled = await resource.workload()
    assert (scaled["spec"]["replicas"], pods_of(scaled)) == (1, pods_of(before))
    await resource.edit_worker(replicas=0, image="registry.example/engine:2")
    await resource.look()
    (container,) = (await resource.workload())["spec"]["template"]["spec"]["containers"]
    assert (container["image"], "lifecycle" in container) == ("registry.example/engine:2", True)
    assert "POD_IP" in [variable["name"] for variable in container["env"]]
    await resource.rest()


async def test_where_nothing_differs_the_status_alone_is_taken_back_once(
    desk: Desk, resource: Resource
) -> None:
    held = [await resource.workload(name) for name in SERVICES]
    await resource.is_served()
    assert await resource.look() == [f"own {CONTRACT.kind.kind}/{OWNER}"]
    assert resource.owner_of_status(await resource.read()) == {"weir"}
    assert await resource.look() == []
    assert [await resource.workload(name) for name in SERVICES] == held
    assert desk.written == []


@pytest.mark.parametrize("first", ["paused", "edited", "for a second time"])
async def test_nor_after_a_pause_nor_with_an_edit_under_way_nor_once_more(
    resource: Resource, first: str
) -> None:
    before = await resource.is_rolled_back()
    replicas = 0
    if first == "for a second time":
        await resource.look()
        before = await resource.is_rolled_back(field="readinessProbe")
    if first == "paused":
        await resource.edit({"metadata": {"annotations": {ANNOTATION: "true"}}})
        for _ in range(2):
            assert [what for what in await resource.look() if "Deployment/" in what[:20]] == []
        assert (await resource.workload())["spec"] == before["spec"]
        await resource.edit({"metadata": {"annotations": {ANNOTATION: None}}})
    elif first == "edited":
        replicas = 1
        await resource.edit_worker(replicas=replicas)
    await resource.look()
    after = await resource.workload()
    assert (pods_of(after), after["spec"]["replicas"]) == (pods_of(before), replicas)
    assert KEPT in after["metadata"]["annotations"]


@pytest.mark.parametrize("calls", range(5))
async def test_who_dies_on_the_way_is_followed_by_one_who_restarts_nothing_either(
    desk: Desk, resource: Resource, calls: int
) -> None:
    before = await resource.is_rolled_back()
    alive = desk.lease
    desk.lease = EndingLease(calls)  # type: ignore[assignment]
    with suppress(LeaseLost):
        await resource.look()
    desk.lease = alive
    await resource.look()
    after = await resource.workload()
    assert pods_of(after) == pods_of(before)
    assert KEPT in after["metadata"]["annotations"]
    await resource.rest()
