"""An upgrade that gives every workload new pods does it a few at a time; an edit waits for none."""

from __future__ import annotations

import sys
from pathlib import Path

from crds.kubernetes import DEPLOYMENT
from handlers.cli.devstack import access
from handlers.cli.devstack.weir import WeirProcess
from tests.builders import an_infera_deployment
from tests.e2e.crowd import QUICK
from tests.e2e.stage import Stage
from tests.faults.newer_renderer import RESTARTS
from tests.stack.eventually import eventually

NAMES = [f"r{number}" for number in range(6)]
PER_MINUTE = 2
SETTINGS = {**QUICK, "resync_seconds": 1, "rollouts_per_minute": PER_MINUTE}


def renewed(stage: Stage) -> list[str]:
    """Return the resources whose Deployment has the new template."""
    return [
        name
        for name in NAMES
        if stage.get(DEPLOYMENT, f"{name}-server")["spec"]["template"]["spec"].get(
            "terminationGracePeriodSeconds"
        )
        == 77
    ]


async def test_a_newer_release_renews_so_many_workloads_a_minute_and_edits_at_once(
    stage: Stage, scratch: Path
) -> None:
    stage.start(**SETTINGS, watch_namespaces=stage.namespace)
    stage.apply(*(an_infera_deployment(name).with_server() for name in NAMES))
    for name in NAMES:
        await stage.ready(name)
    stage.handlers.kill()
    newer = WeirProcess(
        "handlers",
        "handlers-newer",
        directory=scratch,
        kubeconfig=stage.cluster.kubeconfig(access.HANDLERS),
        nats_url=stage.weir.nats.url,
        settings=SETTINGS,
        environment={RESTARTS: "yes"},
    )
    newer.command = (sys.executable, "-m", "tests.faults.newer_renderer")
    stage.weir.processes.append(newer)
    newer.start()
    newer.wait_ready()

    await eventually(lambda: len(renewed(stage)) == PER_MINUTE)
    first = set(renewed(stage))
    *_, edited = sorted(set(NAMES) - first)
    said = await stage.says(edited, "Warning", "True", "RolloutWaits", "WEIR_ROLLOUTS_PER_MINUTE")
    assert f"Deployment {edited}-server" in said["message"]
    assert stage.condition(edited, "Ready")["status"] == "True"
    offset = stage.audit.offset()
    await stage.read_since(offset, *NAMES)
    await stage.read_since(stage.audit.offset(), *NAMES)
    assert set(renewed(stage)) == first

    image = "registry.example/infera:2"
    stage.apply(an_infera_deployment(edited).with_server().with_image(image))
    await eventually(lambda: set(renewed(stage)) == {*first, edited})
    await stage.ready(edited)
