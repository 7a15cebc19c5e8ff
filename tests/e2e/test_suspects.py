"""One bad object harms no other: it is found among its neighbours, set aside, and told of."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import nats
import pytest

from bridge.events import DEAD_SUBJECT, ObjectKey
from crds.inferadeployment import KIND
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION, Manifest
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import Binaries, ControlPlane
from handlers.cli.devstack.weir import REPOSITORY, WeirProcess, shipped_manifests
from tests.builders import IMAGE, a_small_deployment, an_infera_deployment
from tests.e2e.population import (
    SHORT,
    Population,
    condition,
    is_observed,
    is_ready,
    population,
    queue_depth,
)
from tests.faults.api_proxy import Action, ApiProxy, Request, hold
from tests.faults.crashing_handlers import BUG, POISON
from tests.faults.own_loop import in_thread
from tests.stack.eventually import PATIENCE_SECONDS, dwindles, eventually
from tests.stack.fixtures import Weir

GOOD = 15
BAD = "bad"
SLOW_SECONDS = 2.0
REPLICAS = 2
CRASHING = (sys.executable, "-m", "tests.faults.crashing_handlers")


class Crew:
    """Crashing handlers, as many as a Deployment would keep: who dies is replaced."""

    def __init__(self, weir: Weir, scratch: Path, kubeconfig: Path, settings: Any) -> None:
        self._weir = weir
        self._scratch = scratch
        self._kubeconfig = kubeconfig
        self._settings = settings
        self.living: list[WeirProcess] = []
        self.died = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """They run inside, and none afterwards."""
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self._keep())
            yield
            keeping.cancel()
        for process in self.living:
            process.kill()

    async def _keep(self) -> None:
        while True:
            dead = [process for process in self.living if not process.is_running]
            self.died += len(dead)
            self.living = [process for process in self.living if process.is_running]
            while len(self.living) < REPLICAS:
                self.living.append(self._start())
            await asyncio.sleep(0.1)

    def _start(self) -> WeirProcess:
        name = f"crashing-{1 + self.died + len(self.living)}"
        process = WeirProcess(
            "handlers",
            name,
            directory=self._scratch,
            kubeconfig=self._kubeconfig,
            nats_url=self._weir.nats.url,
            settings=self._settings,
        )
        process.command = CRASHING
        self._weir.processes.append(process)
        process.start()
        return process

    async def dead_letters_counted(self, reason: str) -> int:
        """Return what the living say in their metric of dead letters."""
        found = 0.0
        async with aiohttp.ClientSession() as session:
            for process in self.living:
                async with session.get(process.http_url + "/metrics") as reply:
                    lines = (await reply.text()).splitlines()
                found += sum(
                    float(line.rpartition(" ")[2])
                    for line in lines
                    if line.startswith("weir_dead_letters_total{")
                    and f'reason="{reason}"' in line
                    and f'kind="{KIND.queue_name}"' in line
                )
        return int(found)


@asynccontextmanager
async def _buried(nats_url: str) -> AsyncIterator[list[ObjectKey]]:
    """Give the objects of which a dead letter is written while inside, one entry each time."""
    client = await nats.connect(nats_url)
    found: list[ObjectKey] = []

    async def on_letter(message: Any) -> None:
        found.append(ObjectKey.from_token(message.subject.removeprefix(f"{DEAD_SUBJECT}.")))

    try:
        await client.subscribe(f"{DEAD_SUBJECT}.>", cb=on_letter)
        await client.flush()
        yield found
    finally:
        await client.close()


async def _weir(nats_url: str, *arguments: str) -> str:
    """Return what the command `weir` prints."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "handlers", *arguments],
        env={"PATH": os.environ["PATH"], "WEIR_NATS_URL": nats_url},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _ready(crowd: Population, *names: str, within_seconds: float) -> None:
    async def are_ready() -> bool:
        resources = await crowd.resources()
        waiting = [name for name in names if not is_ready(resources[name])]
        assert not waiting, f"{waiting}: {resources[waiting[0]].get('status')}"
        return True

    await eventually(are_ready, within_seconds, every_seconds=0.5)


async def _quarantined(crowd: Population, within_seconds: float) -> Manifest:
    """Return the bad resource once its status says that it is given up."""

    async def is_quarantined() -> Manifest:
        resource = await crowd.resource(BAD)
        assert resource is not None
        assert condition(resource).get("reason") == "Quarantined", resource.get("status")
        return resource

    return await eventually(is_quarantined, within_seconds, every_seconds=0.5)


def _slow(request: Request) -> Action | None:
    """Hold back the first and the last request of a reconcile: together they take SLOW_SECONDS."""
    is_ours = f"/{KIND.plural}/" in request.path
    return hold(SLOW_SECONDS / 2 + 0.1) if is_ours and request.method in {"GET", "PUT"} else None


@pytest.fixture
def slow_way(control_plane: ControlPlane) -> Iterator[ApiProxy]:
    """A way to the API server on which every reconcile takes SLOW_SECONDS."""
    with in_thread(ApiProxy(control_plane.kubeconfig(access.HANDLERS))) as proxy:
        proxy.on_request(_slow)
        yield proxy


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.timeout(600)),
        pytest.param({}, id="production", marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
async def test_what_kills_its_handler_is_convicted_and_its_15_slow_neighbours_never_are(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    scratch: Path,
    slow_way: ApiProxy,
    settings: Mapping[str, Any],
) -> None:
    patience = 30 * float(settings.get("lease_seconds", 12))
    shipped = control_plane.kubeconfig(access.HANDLERS)
    good = a_small_deployment("good").many(GOOD)
    names = [manifest["metadata"]["name"] for manifest in good]
    bad = a_small_deployment(BAD).with_image(POISON).manifest()
    weir.bridge(**settings, watch_namespaces=namespace)
    async with (
        population(control_plane, namespace) as crowd,
        _buried(weir.nats.url) as buried,
    ):
        crew = Crew(weir, scratch, slow_way.kubeconfig(shipped, scratch / "proxied"), settings)
        async with crew.at_work():
            await crowd.create([*good[:7], bad, *good[7:]])
            await _ready(crowd, *names, within_seconds=patience)
            resource = await _quarantined(crowd, within_seconds=patience)

            said = condition(resource)
            assert said["status"] == "False"
            assert "killed 3 handlers that ran it alone" in said["message"]
            assert "weir dead retry" in said["message"]
            assert condition(resource, "Degraded")["status"] == "True"
            [event] = [e for e in await crowd.events(BAD) if e["reason"] == "Quarantined"][:1]
            assert event["type"] == "Warning"
            assert "killed 3 handlers" in event["message"]
            show = ("dead", "show", "idep", f"{namespace}/{BAD}", "-o", "json")
            letter = json.loads(await _weir(weir.nats.url, *show))
            assert letter["reason"] == "Crashed"
            assert await crew.dead_letters_counted("Crashed") == 1
            # The first death was among neighbours; each of the three that convicted was alone.
            assert crew.died == 4
        assert set(buried) == {ObjectKey(KIND.queue_name, namespace, BAD)}

        weir.handlers(**settings)
        await _weir(weir.nats.url, "dead", "retry", "idep", f"{namespace}/{BAD}")
        await _ready(crowd, BAD, within_seconds=30)
        listed = json.loads(await _weir(weir.nats.url, "dead", "list", "-o", "json"))
        assert listed == {"items": []}


async def test_what_fails_again_and_again_is_given_up_after_n_tries_and_an_edit_heals_it(
    control_plane: ControlPlane, namespace: str, weir: Weir, scratch: Path
) -> None:
    settings = {**SHORT, "quarantine_failures": 3, "backoff_seconds": 0.2}
    weir.bridge(**settings, watch_namespaces=namespace)
    async with population(control_plane, namespace) as crowd, _buried(weir.nats.url) as buried:
        crew = Crew(weir, scratch, control_plane.kubeconfig(access.HANDLERS), settings)
        async with crew.at_work():
            await crowd.create(
                [
                    a_small_deployment(BAD).with_image(BUG).manifest(),
                    a_small_deployment("good").manifest(),
                ]
            )
            said = condition(await _quarantined(crowd, within_seconds=30))
            assert "given up after 3 failures: LookupError: a table" in said["message"]
            assert await crew.dead_letters_counted("LookupError") == 1
            assert buried == [ObjectKey(KIND.queue_name, namespace, BAD)]
            await _ready(crowd, "good", within_seconds=30)

            await crowd.edit(BAD, {"image": IMAGE})
            await _ready(crowd, BAD, within_seconds=30)
            listed = json.loads(await _weir(weir.nats.url, "dead", "list", "-o", "json"))
            assert listed == {"items": []}
            assert crew.died == 0


UNDECODABLE: Mapping[str, Manifest] = {
    "wrong-type": {"services": {"server": {"componentType": "server", "replicas": "two"}}},
    "unknown-word": {"services": {"server": {"componentType": "toaster"}}},
    "wrong-shape": {"services": ["server"]},
}
"""Specs that an API server takes only while its CRD says less than ours."""
NO_STATUS = "wrong-shape"
"""The API server takes no status of it: the rules of the CRD cannot be evaluated any more."""


@pytest.fixture
def fresh_control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """An API server whose CRD is this test's to change, without controllers."""
    own = ControlPlane(control_plane_binaries, manifests=shipped_manifests(), controllers=())
    own.start()
    yield own
    own.stop()


async def _store_undecodable(control_plane: ControlPlane, crowd: Population) -> None:
    """The resources exist, stored before the CRD was as strict as it is again now."""
    crd = control_plane.get(CUSTOM_RESOURCE_DEFINITION.path(name=KIND.crd_name))
    path = "/spec/versions/0/schema/openAPIV3Schema"
    strict = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax = {
        "type": "object",
        "properties": {"spec": anything, "status": strict["properties"]["status"]},
    }

    def say(schema: Manifest) -> None:
        patch = [{"op": "replace", "path": path, "value": schema}]
        control_plane.kubectl(
            "patch", "crd", KIND.crd_name, "--type=json", f"-p={json.dumps(patch)}"
        )

    def takes(manifest: Manifest) -> bool:
        done = control_plane.kubectl(
            *("create", "-f-", f"--namespace={crowd.namespace}", "--dry-run=server"),
            document=manifest,
            check=False,
        )
        return done.returncode == 0

    bad = [
        an_infera_deployment(name).with_spec(**spec).manifest()
        for name, spec in UNDECODABLE.items()
    ]
    assert not any(map(takes, bad))
    say(lax)
    await eventually(lambda: all(map(takes, bad)), within_seconds=30, every_seconds=0.2)
    await crowd.create(bad)
    say(strict)
    await eventually(lambda: not any(map(takes, bad)), within_seconds=30, every_seconds=0.2)


@pytest.mark.timeout(600)
async def test_undecodable_resources_among_99_good_ones_are_told_so_and_harm_nobody(
    fresh_control_plane: ControlPlane, namespace: str, weir: Weir
) -> None:
    settings = {**SHORT, "not_ready_seconds": 600}
    async with population(fresh_control_plane, namespace) as crowd:
        await _store_undecodable(fresh_control_plane, crowd)
        bridge = weir.bridge(**settings)
        weir.handlers(**settings)
        bridge.wait_ready()
        await crowd.create(a_small_deployment("good").many(99))

        async def not_served() -> list[str]:
            resources, children = await crowd.resources(), await crowd.children()
            good = {name: one for name, one in resources.items() if name not in UNDECODABLE}
            assert len(good) == 99
            return [
                name
                for name, resource in good.items()
                if not is_observed(resource) or len(children.get(name, ())) != 6
            ]

        await dwindles(not_served, every_seconds=0.5)

        async def the_bad_are_told() -> bool:
            resources = await crowd.resources()
            for name in UNDECODABLE:
                said = condition(resources[name])
                if name != NO_STATUS:
                    assert (said.get("status"), said.get("reason")) == ("False", "InvalidSpec")
                reasons = {event["reason"] for event in await crowd.events(name)}
                assert "InvalidSpec" in reasons, name
            return True

        await eventually(the_bad_are_told, within_seconds=30)
        said = condition((await crowd.resources())["wrong-type"])
        assert "spec.services[...].replicas" in said["message"]
        assert bridge.is_running

        async def the_queue_is_empty() -> bool:
            depth = await queue_depth(weir.nats.url)
            return (depth.pending, depth.in_flight) == (0, 0)

        await eventually(the_queue_is_empty, within_seconds=60)

        mended = an_infera_deployment("wrong-type").with_server(replicas=1).spec
        await crowd.edit("wrong-type", mended)

        async def the_mended_is_served() -> bool:
            resource = await crowd.resource("wrong-type")
            assert resource is not None
            assert condition(resource).get("reason") == "WaitingForPods", resource["status"]
            return is_observed(resource)

        await eventually(the_mended_is_served, within_seconds=30)
