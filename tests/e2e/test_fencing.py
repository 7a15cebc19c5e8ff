"""
What a handler sent too late changes nothing: the object has moved on, or is made right at once.

Each resource has one write that is held on its way while its user changes his mind and another
handler takes over. The audit log tells when the late write arrived, and what it was answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from crds.inferadeployment import KIND
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import WeirProcess
from tests.builders import IMAGE, an_infera_deployment
from tests.e2e.population import SHORT, ChildId, Population, is_ready, population, queue_depth
from tests.faults.api_proxy import Action, ApiProxy, Forward, Request
from tests.faults.own_loop import in_thread
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir
from tests.witness.audit import AuditEvent, AuditLog
from tests.witness.history import read_history, spans_of_history
from tests.witness.overlap import overlaps

ON_ITS_WAY_SECONDS = 40.0
UNTIL_RELEASED_SECONDS = 300.0
PRUNED_SECONDS = 5.0
HANDLERS = 9
"""Each holds one resource at a time, and most of them get paused."""

FIRST, SECOND, THIRD = (f"{IMAGE}-{number}" for number in (1, 2, 3))
EXTRA = {"componentType": "worker"}
DEPLOYMENTS, RESOURCES = "deployments", KIND.plural


class Late(Struct, frozen=True, kw_only=True):
    """One request of a resource that comes too late: the first of this method on this object."""

    resource: str
    method: str
    plural: str
    path: str
    """What follows the plural; a create has the name in its body instead."""
    target: str

    def is_it(self, request: Request) -> bool:
        """Whether this is the request."""
        _, found, rest = request.path.partition(f"/{self.plural}")
        if not found or request.method != self.method or rest != self.path:
            return False
        return bool(self.path) or f'"name":"{self.target}"'.encode() in request.body

    def is_logged_as(self, event: AuditEvent) -> bool:
        """Whether a line of the audit log is about this request, or one like it."""
        verb = {"PATCH": "patch", "DELETE": "delete", "PUT": "update", "POST": "create"}
        reference = event.object_ref
        return (event.verb, reference.resource, reference.name) == (
            verb[self.method],
            self.plural,
            self.target,
        )


def _late(resource: str, method: str, service: str = "") -> Late:
    """Return a late write of the workload of a service, or of the resource's status."""
    plural, target = (DEPLOYMENTS, f"{resource}-{service}") if service else (RESOURCES, resource)
    path = "" if method == "POST" else f"/{target}" + ("" if service else "/status")
    return Late(resource=resource, method=method, plural=plural, path=path, target=target)


APPLY = _late("apply", "PATCH", "server")
DELETE = _late("delete", "DELETE", "extra")
STATUS = _late("status", "PUT")
REFUSED = _late("refused", "POST", "server")
COLLECTED = _late("collected", "POST", "server")
PRUNED = _late("pruned", "POST", "extra")
WRITES = (APPLY, DELETE, STATUS, REFUSED, COLLECTED, PRUNED)
READ = Late(resource="read", method="GET", plural=RESOURCES, path="/read", target="read")
"""A resource whose handler stops between what it read and its first write."""


class Way:
    """The way to the API server, on which requests are held, and who sent them is stopped."""

    def __init__(self, weir: Weir, settings: Mapping[str, Any], *, is_pausing: bool) -> None:
        self._weir = weir
        self._at_least_seconds = 0.0 if settings else ON_ITS_WAY_SECONDS
        self._last_held = 0.0
        self._is_pausing = is_pausing
        self._awaited: set[Late] = set()
        self.held: dict[Late, WeirProcess] = {}
        """Who sent each request that has been held."""

    def await_(self, *late: Late) -> None:
        """Hold these requests as soon as they come by."""
        self._awaited.update(late)

    def judge(self, request: Request) -> Action | None:
        """Return what becomes of a request: a rule of the proxy."""
        late = next((late for late in self._awaited if late.is_it(request)), None)
        if late is None:
            return None
        self._awaited.discard(late)
        sender = next(p for p in self._weir.processes if p.name == request.identity)
        self.held[late] = sender
        if late is READ:
            return Forward(after=sender.pause)
        if self._is_pausing:
            sender.pause()
        self._last_held = time.monotonic()
        return Forward(hold_seconds=UNTIL_RELEASED_SECONDS)

    async def release(self, proxy: ApiProxy) -> None:
        """Let the held requests go on, none of them before its time."""
        await asyncio.sleep(self._last_held + self._at_least_seconds - time.monotonic())
        proxy.release()


class Scene:
    """The resources, their user, and what the log says."""

    def __init__(self, crowd: Population, audit: AuditLog, nats_url: str) -> None:
        self.crowd = crowd
        self._audit = audit
        self._nats_url = nats_url

    async def change_of_mind(self) -> None:
        """Each resource asks for something else than the request that is on its way."""
        crowd = self.crowd
        for name in ("apply", "status", "read"):
            await crowd.edit(name, {"image": THIRD})
        await crowd.edit("pruned", {"services": {"extra": None}})
        await crowd.delete("collected")

        async def extra_is_deleted() -> bool:
            children = await crowd.children()
            assert ChildId("Deployment", "delete-extra") not in children["delete"]
            return True

        # Another handler does what the late request asks for, and then it is no longer wanted.
        await eventually(extra_is_deleted, within_seconds=60, every_seconds=0.2)
        await crowd.edit("delete", {"services": {"extra": EXTRA}})

    async def come_to_rest(self) -> None:
        """Everything that there is is Ready, and nothing waits or is in hand."""

        async def all_are_ready() -> bool:
            resources = await self.crowd.resources()
            waiting = [name for name, resource in resources.items() if not is_ready(resource)]
            assert not waiting, f"{waiting}: {resources[waiting[0]].get('status')}"
            depth = await queue_depth(self._nats_url)
            assert (depth.pending, depth.in_flight) == (0, 0), depth
            return True

        await eventually(all_are_ready, within_seconds=120, every_seconds=0.2)

    def offset(self) -> int:
        """Return where the log ends now."""
        return self._audit.offset()

    def written(self, from_offset: int) -> list[AuditEvent]:
        """Return what our handlers asked to change since then."""
        return self._audit.mutating(namespace=self.crowd.namespace, from_offset=from_offset)

    async def arrived(self, from_offset: int) -> dict[Late, AuditEvent]:
        """Return the late writes once all of them have been answered."""

        def all_are_answered() -> dict[Late, AuditEvent]:
            written = self.written(from_offset)
            found = {
                late: event
                for late in WRITES
                for event in reversed(written)
                if late.is_logged_as(event)
            }
            assert len(found) == len(WRITES), f"not yet: {set(WRITES) - set(found)}"
            return found

        return await eventually(all_are_answered, within_seconds=30)

    async def images(self) -> dict[str, str]:
        """Return the image of each Deployment."""
        return {
            child.name: manifest["spec"]["template"]["spec"]["containers"][0]["image"]
            for children in (await self.crowd.children()).values()
            for child, manifest in children.items()
            if child.kind == "Deployment"
        }

    async def nothing_of_it_stays(self) -> None:
        """Neither late create left a child behind."""

        async def are_gone() -> bool:
            children = await self.crowd.children()
            assert "collected" not in children
            assert ChildId("Deployment", "pruned-extra") not in children["pruned"]
            return True

        await eventually(are_gone, within_seconds=30)


@asynccontextmanager
async def _scene(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    way: Way,
    settings: Mapping[str, Any],
) -> AsyncIterator[tuple[Scene, ApiProxy]]:
    shipped = control_plane.kubeconfig(access.HANDLERS)
    with in_thread(ApiProxy(shipped)) as proxy:
        proxy.on_request(way.judge)
        proxied = proxy.kubeconfig(shipped, scratch / "proxied")
        weir.bridge(**settings, watch_namespaces=namespace)
        for _ in range(HANDLERS):
            weir.handlers(kubeconfig=proxied, concurrency=1, **settings)
        async with population(control_plane, namespace) as crowd:
            yield Scene(crowd, AuditLog(control_plane.audit_log), weir.nats.url), proxy


async def _hold_one_request_each(scene: Scene, way: Way, *late: Late) -> None:
    """Every resource has a request that is on its way and does not arrive."""
    crowd = scene.crowd
    one = an_infera_deployment().with_image(FIRST).with_server()
    living = [one.named(name) for name in ("apply", "status", "pruned", "read")]
    living.append(one.named("delete").with_worker("extra"))
    await crowd.create(builder.manifest() for builder in living)
    await scene.come_to_rest()

    way.await_(*late)
    await crowd.create(one.named(name).manifest() for name in ("refused", "collected"))
    await crowd.edit("apply", {"image": SECOND})
    await crowd.edit("status", {"image": SECOND})
    await crowd.edit("delete", {"services": {"extra": None}})
    await crowd.edit("pruned", {"services": {"extra": EXTRA}})
    if READ in late:
        await crowd.edit("read", {"image": SECOND})

    def all_are_held() -> bool:
        assert set(way.held) == set(late), f"not yet: {set(late) - set(way.held)}"
        return True

    await eventually(all_are_held, within_seconds=60)


async def _assert_late_writes_change_nothing(
    scene: Scene, way: Way, proxy: ApiProxy, settings: Mapping[str, Any]
) -> None:
    """Let the held requests go on: those that create land, and what they made is gone again."""
    at_rest = scene.offset()
    images = await scene.images()
    assert images["apply-server"] == THIRD
    assert {"delete-extra", "refused-server"} <= set(images)
    resources = {name: one["status"] for name, one in (await scene.crowd.resources()).items()}
    await way.release(proxy)

    answers = await scene.arrived(at_rest)

    codes = {late.resource: event.response_status.code for late, event in answers.items()}
    assert codes == {
        "apply": 409,
        "delete": 409,
        "status": 409,
        "refused": 409,
        "collected": 201,
        "pruned": 201,
    }
    await scene.nothing_of_it_stays()
    await scene.come_to_rest()
    assert await scene.images() == images
    assert {n: o["status"] for n, o in (await scene.crowd.resources()).items()} == resources
    landed = [event for event in scene.written(at_rest) if event.landed]
    [pruned] = [event for event in landed if event not in answers.values()]
    assert (pruned.verb, pruned.object_ref.name) == ("delete", "pruned-extra")
    appeared = answers[PRUNED].stage_timestamp
    assert pruned.stage_timestamp > appeared
    if not settings:  # of production
        assert (pruned.stage_timestamp - appeared).total_seconds() <= PRUNED_SECONDS


FENCED = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.timeout(600)),
        pytest.param({}, id="production", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
"""In short the requests go on once everything is at rest; else not before their 40 seconds."""


@FENCED
async def test_a_write_that_was_long_on_its_way_changes_nothing(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    settings: Mapping[str, Any],
) -> None:
    way = Way(weir, settings, is_pausing=False)
    async with _scene(control_plane, namespace, weir, scratch, way, settings) as (scene, proxy):
        await _hold_one_request_each(scene, way, *WRITES)
        await scene.change_of_mind()
        await scene.come_to_rest()

        await _assert_late_writes_change_nothing(scene, way, proxy, settings)


@FENCED
async def test_a_handler_that_is_paused_beyond_its_lease_changes_nothing_when_it_wakes(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    settings: Mapping[str, Any],
) -> None:
    way = Way(weir, settings, is_pausing=True)
    async with _scene(control_plane, namespace, weir, scratch, way, settings) as (scene, proxy):
        await _hold_one_request_each(scene, way, *WRITES, READ)
        await scene.change_of_mind()
        await scene.come_to_rest()

        await _assert_late_writes_change_nothing(scene, way, proxy, settings)

        awake = scene.offset()
        told = {late: sender.log_text().count(_about(late)) for late, sender in way.held.items()}
        for sender in way.held.values():
            sender.resume()

        def all_have_ended() -> bool:
            still = [
                late.resource
                for late, sender in way.held.items()
                if sender.log_text().count(_about(late)) == told[late]
            ]
            assert not still, f"not yet: {still}"
            return True

        await eventually(all_have_ended, within_seconds=30)
        await scene.come_to_rest()
        assert [str(event) for event in scene.written(awake)] == []


@pytest.mark.timeout(300)
async def test_a_reconcile_of_three_ack_waits_and_two_leases_is_taken_by_nobody_else(
    control_plane: ControlPlane, namespace: str, weir: Weir, scratch: Path
) -> None:
    # Less than a handler waits for what it reads.
    settings = {**SHORT, "lease_seconds": 6, "ack_wait_seconds": 4}
    seconds = max(3 * settings["ack_wait_seconds"], 2 * settings["lease_seconds"])
    way = Way(weir, settings, is_pausing=False)
    async with _scene(control_plane, namespace, weir, scratch, way, settings) as (scene, proxy):
        looks: list[tuple[float, str]] = []

        def slow(request: Request) -> Action | None:
            if (request.method, request.path) != ("GET", KIND.path(namespace, "slow")):
                return None
            looks.append((time.monotonic(), request.identity))
            return Forward(hold_seconds=seconds) if len(looks) == 1 else None

        proxy.on_request(slow)
        await scene.crowd.create([an_infera_deployment("slow").with_server().manifest()])
        await scene.come_to_rest()

        [first, *others] = looks
        assert not [look for look in others if look[0] < first[0] + seconds]
        writes = [event for event in scene.written(0) if event.object_ref.resource != "events"]
        assert {e.writer.identity for e in writes if e.verb == "create" and e.writer} == {first[1]}
        moments = await read_history(weir.nats.url)
        assert not [str(overlap) for overlap in overlaps(spans_of_history(moments))]


def _about(late: Late) -> str:
    """Return what a line of a log about a resource has in it."""
    return f'"name":"{late.resource}"'
