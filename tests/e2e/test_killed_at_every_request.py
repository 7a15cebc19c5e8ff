"""
A reconcile that dies at any of its requests ends like one that did not.

One resource per request and side: the handler that reconciles it is killed at its n-th request,
before the API server saw that request, or after it was carried out and before the answer. A handler
holds one resource at a time, so each death is that of one reconcile, and the waits for the leases
of the dead pass side by side.
"""

from __future__ import annotations

import difflib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from msgspec import Struct

from crds.inferadeployment import KIND
from crds.kubernetes import Manifest
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import WeirProcess
from handlers.reconcile import TAKEN_OVER
from handlers.writes import FENCE
from tests.builders import IMAGE, InferaDeploymentBuilder, an_infera_deployment
from tests.e2e.population import SHORT, Population, is_ready, population, queue_depth
from tests.faults.api_proxy import Action, ApiProxy, Forward, Request
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir

HANDLERS = 4
FENCE_ALONE: Manifest = {"f:metadata": {"f:labels": {f"f:{FENCE}": {}}}}
"""What is owned by the fence of a child that had been applied before its handler died."""
CONTROL = "control-00"
"""The resource whose handler nobody kills."""
VOLATILE = frozenset(
    {
        "clusterIP",
        "clusterIPs",
        "creationTimestamp",
        "lastTransitionTime",
        "managedFields",
        "resourceVersion",
        "uid",
        "weir.dev/applied",
        "weir.dev/paths",
        FENCE,
        f"f:{FENCE}",
    }
)
"""Fields that differ between any two objects that are otherwise alike: two are hashes of names."""

When: TypeAlias = Literal["before", "after"]
SIDES: tuple[When, ...] = ("before", "after")

settings_of_the_test = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.timeout(600)),
        pytest.param({}, id="production", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)


class Death(Struct, frozen=True, kw_only=True):
    """What befalls the handler of one resource."""

    n: int
    """At which of its requests, counted from 1."""
    when: When

    @property
    def name(self) -> str:
        """The resource that it befalls; as long as every other name, and in none of them."""
        return f"{self.when:x<7}-{self.n:02}"


class Handlers:
    """Handlers processes behind a proxy, which are killed as told, and replaced when they died."""

    def __init__(self, weir: Weir, kubeconfig: Path, settings: Mapping[str, Any]) -> None:
        self._weir = weir
        self._kubeconfig = kubeconfig
        self._settings = settings
        self._watched: dict[str, Death | None] = {}
        self._running: dict[str, WeirProcess] = {}
        self.requests: dict[str, list[Request]] = {}
        """What was asked for each resource since it is watched."""
        self.died: list[Death] = []

    def start_one(self) -> None:
        """One more process runs."""
        process = self._weir.handlers(kubeconfig=self._kubeconfig, concurrency=1, **self._settings)
        self._running[process.name] = process

    def watch(self, deaths: Iterable[Death]) -> None:
        """Requests count from now on, those for the control too."""
        self._watched = {CONTROL: None, **{death.name: death for death in deaths}}
        self.requests = {name: [] for name in self._watched}

    def judge(self, request: Request) -> Action | None:
        """Return what becomes of a request: a rule of the proxy."""
        name = next((name for name in self._watched if _concerns(request, name)), None)
        if name is None:
            return None
        self.requests[name].append(request)
        death = self._watched[name]
        if death is None or len(self.requests[name]) != death.n:
            return None

        def kill() -> None:
            os.kill(self._running.pop(request.identity).pid, signal.SIGKILL)
            self.died.append(death)
            self.start_one()

        if death.when == "before":
            return Forward(before=kill, forward=False)
        return Forward(after=kill, reply=False)


class Scene(Struct, frozen=True, kw_only=True):
    """Where the resources live and who reconciles them."""

    handlers: Handlers
    crowd: Population
    nats_url: str

    async def come_to_rest(self, names: Iterable[str]) -> None:
        """Everything is Ready in its present generation, and nothing waits or is in hand."""

        async def are_ready() -> bool:
            resources = await self.crowd.resources()
            lacking = [name for name in names if not is_ready(resources[name])]
            assert not lacking, f"{lacking}: {resources[lacking[0]].get('status')}"
            return True

        await eventually(are_ready, within_seconds=120, every_seconds=0.2)
        await self.queue_is_empty()

    async def queue_is_empty(self) -> None:
        """Nothing waits in the queue, and nothing is in hand."""

        async def is_empty() -> bool:
            depth = await queue_depth(self.nats_url)
            assert (depth.pending, depth.in_flight) == (0, 0), depth
            return True

        await eventually(is_empty, within_seconds=60, every_seconds=0.2)

    def one_reconcile(self) -> list[Request]:
        """Return the requests of the first reconcile of the control."""
        path = KIND.path(self.crowd.namespace, CONTROL)
        asked = self.handlers.requests[CONTROL]
        begins = [n for n, one in enumerate(asked) if (one.method, one.path) == ("GET", path)]
        assert begins[0] == 0
        return asked[: (*begins, len(asked))[1]]


@asynccontextmanager
async def _scene(
    control_plane: ControlPlane, namespace: str, weir: Weir, scratch: Path, settings: Any
) -> AsyncIterator[Scene]:
    shipped = control_plane.kubeconfig(access.HANDLERS)
    async with ApiProxy(shipped) as proxy, population(control_plane, namespace) as crowd:
        handlers = Handlers(weir, proxy.kubeconfig(shipped, scratch / "proxied"), settings)
        proxy.on_request(handlers.judge)
        weir.bridge(**settings, watch_namespaces=namespace)
        for _ in range(HANDLERS):
            handlers.start_one()
        yield Scene(handlers=handlers, crowd=crowd, nats_url=weir.nats.url)


def _concerns(request: Request, name: str) -> bool:
    return name in request.path or (request.method == "POST" and name.encode() in request.body)


def _all_deaths(requests: list[Request]) -> list[Death]:
    """Return a death at every request; of one that changes something, on both sides of it."""
    return [
        Death(n=n, when=when)
        for n, request in enumerate(requests, start=1)
        for when in (SIDES if request.is_mutating else SIDES[:1])
    ]


def _born() -> InferaDeploymentBuilder:
    return an_infera_deployment(CONTROL).with_server().with_worker("left")


def _edited() -> Manifest:
    """Return the change of a spec that applies to children, creates one and prunes one."""
    new = _born().with_image(f"{IMAGE}-edited").with_worker("added").spec
    return {**new, "services": {**new["services"], "left": None}}


async def _end_states(crowd: Population) -> dict[str, str]:
    """Return what there is of each resource, without its name and what is never the same twice."""
    resources, children = await crowd.resources(), await crowd.children()
    found = {}
    for name, resource in resources.items():
        parts = [
            {**child, "status": None, "managers": _managers(child)}
            for _, child in sorted(children.get(name, {}).items())
        ]
        text = json.dumps(_lasting([resource, *parts]), indent=1, sort_keys=True)
        found[name] = text.replace(name, "NAME").replace(resource["metadata"]["uid"], "UID")
    return found


async def _nothing_was_just_taken_over(crowd: Population) -> bool:
    """The words of a take-over go at the next look."""
    return TAKEN_OVER not in json.dumps(await crowd.resources())


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in VOLATILE}
    return [_lasting(item) for item in value] if isinstance(value, list) else value


def _managers(child: Manifest) -> list[list[Any]]:
    return [
        [entry["manager"], entry["operation"], entry["fieldsV1"]]
        for entry in child["metadata"]["managedFields"]
        if entry["manager"] == "weir" and entry["fieldsV1"] != FENCE_ALONE
    ]


async def _assert_all_ended_as_the_control(scene: Scene, deaths: list[Death]) -> None:
    assert sorted(scene.handlers.died, key=str) == sorted(deaths, key=str)
    await eventually(partial(_nothing_was_just_taken_over, scene.crowd), within_seconds=30)
    states = await _end_states(scene.crowd)
    assert len(states) == 1 + len(deaths)
    wanted = states[CONTROL].splitlines()
    for name, state in sorted(states.items()):
        differences = list(difflib.unified_diff(wanted, state.splitlines(), CONTROL, name, n=1))
        assert not differences, "\n".join(differences)


@settings_of_the_test
async def test_a_birth_killed_at_any_request_ends_as_one_that_was_not(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    settings: Mapping[str, Any],
) -> None:
    async with _scene(control_plane, namespace, weir, scratch, settings) as scene:
        scene.handlers.watch([])
        await scene.crowd.create([_born().manifest()])
        await scene.come_to_rest([CONTROL])
        deaths = _all_deaths(scene.one_reconcile())
        assert len(deaths) > 2 * 7  # six children and the status

        scene.handlers.watch(deaths)
        await scene.crowd.create(_born().named(death.name).manifest() for death in deaths)
        await scene.come_to_rest([death.name for death in deaths])

        await _assert_all_ended_as_the_control(scene, deaths)


@settings_of_the_test
async def test_an_edit_killed_at_any_request_ends_as_one_that_was_not(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    settings: Mapping[str, Any],
) -> None:
    """The edit changes an image, adds a service and removes another."""
    async with _scene(control_plane, namespace, weir, scratch, settings) as scene:
        await scene.crowd.create([_born().manifest()])
        await scene.come_to_rest([CONTROL])
        scene.handlers.watch([])
        await scene.crowd.edit(CONTROL, _edited())
        await scene.come_to_rest([CONTROL])
        deaths = _all_deaths(scene.one_reconcile())
        asked = {request.method for request in scene.handlers.requests[CONTROL]}
        assert asked == {"GET", "POST", "PATCH", "DELETE", "PUT"}

        await scene.crowd.create(_born().named(death.name).manifest() for death in deaths)
        await scene.come_to_rest([death.name for death in deaths])
        scene.handlers.watch(deaths)
        for death in deaths:
            await scene.crowd.edit(death.name, _edited())
        await scene.come_to_rest([death.name for death in deaths])

        await _assert_all_ended_as_the_control(scene, deaths)


@settings_of_the_test
async def test_a_deletion_killed_at_any_request_leaves_as_little_as_one_that_was_not(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    settings: Mapping[str, Any],
) -> None:
    async with _scene(control_plane, namespace, weir, scratch, settings) as scene:
        deaths = [Death(n=1, when=when) for when in SIDES]
        names = [CONTROL, *(death.name for death in deaths)]
        await scene.crowd.create(_born().named(name).manifest() for name in names)
        await scene.come_to_rest(names)

        scene.handlers.watch(deaths)
        for name in names:
            await scene.crowd.delete(name)

        async def nothing_is_left() -> bool:
            assert not await scene.crowd.resources()
            assert not await scene.crowd.children()
            return len(scene.handlers.died) == len(deaths)

        await eventually(nothing_is_left, within_seconds=60)
        await scene.queue_is_empty()
        asked = {request.method for one in scene.handlers.requests.values() for request in one}
        assert asked == {"GET"}
