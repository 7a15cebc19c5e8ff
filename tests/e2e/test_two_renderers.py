"""Two releases of the handlers at once, as in an upgrade: no child flips, no pod restarts."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import nats
import pytest

from bridge import streams
from crds.kubernetes import DEPLOYMENT, POD, Manifest
from handlers.cli.devstack import access
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.weir import Setting, WeirProcess
from handlers.inferadeployment.render import RENDERER
from handlers.plan import renderer_of
from tests.builders import an_infera_deployment
from tests.e2e.crowd import PRODUCTION, QUICK
from tests.e2e.stage import Stage, container, uid
from tests.faults.newer_renderer import MARK, NEWER
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir

HASTY: Mapping[str, Setting] = {
    **QUICK,
    "resync_seconds": 2,
    "renderer_mark_seconds": 15,
    "other_renderer_seconds": 0.3,
}
"""Every resource is looked at every 2 s, by whichever release gets the message."""
LOOKS = 2


class Upgrade:
    """Resources with pods, served by the present release, and soon by the next one too."""

    def __init__(
        self, stage: Stage, settings: Mapping[str, Setting], scratch: Path, nats: NatsServer
    ) -> None:
        self.stage = stage
        self.names = [f"r{number}" for number in range(8)]
        self._settings = settings
        self._scratch = scratch
        self._nats = nats
        self._images = dict.fromkeys(self.names, "registry.example/infera:1")

    async def begin(self) -> None:
        """The resources are Ready, served by the present release alone."""
        self.stage.start(**{**self._settings, "watch_namespaces": self.stage.namespace})
        self.stage.apply(*(an_infera_deployment(name).with_server() for name in self.names))
        for name in self.names:
            await self.stage.ready(name)

    def start_newer(self) -> WeirProcess:
        """Start the next release beside the present one."""
        process = WeirProcess(
            "handlers",
            "handlers-newer",
            directory=self._scratch,
            kubeconfig=self.stage.cluster.kubeconfig(access.HANDLERS),
            nats_url=self._nats.url,
            settings=self._settings,
        )
        process.command = (sys.executable, "-m", "tests.faults.newer_renderer")
        self.stage.weir.processes.append(process)
        process.start()
        process.wait_ready()
        return process

    def edit(self, name: str, image: str) -> None:
        """Give a resource another image."""
        self.stage.apply(an_infera_deployment(name).with_server().with_image(image))
        self._images[name] = image

    def has_landed(self, name: str, renderer: int) -> bool:
        """Whether the edit of a resource is in its Deployment, written by that release."""
        deployment = self.deployment(name)
        assert container(deployment)["image"] == self._images[name]
        assert renderer_of(deployment) == renderer
        return True

    def all_are_newer(self) -> bool:
        """Whether the next release has written every Deployment."""
        assert all(map(is_newer, map(self.deployment, self.names)))
        return True

    def deployment(self, name: str) -> Manifest:
        """Return the Deployment of a resource's server."""
        return self.stage.get(DEPLOYMENT, f"{name}-server")

    def running(self) -> dict[str, object]:
        """Return uid of every pod, and the template of every Deployment."""
        pods = self.stage.cluster.get(POD.path(self.stage.namespace))["items"]
        found: dict[str, object] = {f"{pod['metadata']['name']}": uid(pod) for pod in pods}
        for name in self.names:
            found[f"{name}-server"] = self.deployment(name)["spec"]["template"]
        return found

    def writers_of(self, name: str) -> list[int]:
        """Return the renderer of each write of a Deployment that landed, in their order."""
        found: dict[str, list[int]] = defaultdict(list)
        for event in self.stage.audit.mutating(namespace=self.stage.namespace):
            if event.object_ref.resource == DEPLOYMENT.plural and event.landed and event.body:
                created = event.body["metadata"]["name"]
                found[event.object_ref.name or created].append(renderer_of(event.body))
        return found[f"{name}-server"]


def is_newer(deployment: Manifest) -> bool:
    return bool(deployment["metadata"]["annotations"].get(MARK) == NEWER)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(HASTY, id="short"),
        pytest.param({**PRODUCTION, "resync_seconds": 30}, id="soak", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(1500)
async def test_while_two_releases_serve_no_child_flips_and_edits_land_also_after_a_rollback(
    control_plane: ControlPlane,
    stage: Stage,
    weir: Weir,
    nats_server: NatsServer,
    scratch: Path,
    settings: Mapping[str, Setting],
) -> None:
    upgrade = Upgrade(stage, settings, scratch, nats_server)
    await upgrade.begin()
    before = upgrade.running()
    resync_seconds = float(settings["resync_seconds"])
    mark_seconds = float(settings.get("renderer_mark_seconds", 60))

    newer = upgrade.start_newer()
    # Chance decides which of the two looks at a resource in a resync: a score leaves none over.
    await eventually(upgrade.all_are_newer, 20 * resync_seconds + 20)
    async with await nats.connect(nats_server.url) as client:
        # With it go the marks that tell which releases live.
        await client.jetstream().delete_stream(streams.STATE)
    for _ in range(LOOKS):
        offset = stage.audit.offset()
        await stage.read_since(offset, *upgrade.names, within_seconds=2 * resync_seconds + 20)

    assert upgrade.running() == before
    for name in upgrade.names:
        assert upgrade.writers_of(name) == [RENDERER, RENDERER + 1]

    upgrade.edit("r0", "registry.example/infera:2")
    await eventually(lambda: upgrade.has_landed("r0", RENDERER + 1), 30)
    await stage.ready("r0")

    newer.kill()
    upgrade.edit("r1", "registry.example/infera:3")
    await eventually(lambda: upgrade.has_landed("r1", RENDERER), mark_seconds + 20)
    await stage.ready("r1")

    assert upgrade.writers_of("r0")[:3] == [RENDERER, RENDERER + 1, RENDERER + 1]
    assert upgrade.writers_of("r1") == [RENDERER, RENDERER + 1, RENDERER]
    assert not is_newer(upgrade.deployment("r1"))
    assert others(upgrade.running(), "r0", "r1") == others(before, "r0", "r1")


def others(running: dict[str, object], *names: str) -> dict[str, object]:
    """Return what runs for other resources than these."""
    return {what: it for what, it in running.items() if what.partition("-")[0] not in names}
