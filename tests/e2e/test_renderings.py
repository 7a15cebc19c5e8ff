"""Renderings that an API server takes once and refuses or forgets the next time."""

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import DEPLOYMENT, SERVICE
from tests.builders import InferaDeploymentBuilder, a_small_deployment
from tests.e2e.stage import Stage, container
from tests.stack.eventually import eventually
from tests.witness.quiet import quiet

_IMAGE = "registry.example/infera:1"
_TWICE = [{"name": "TWICE", "value": "first"}, {"name": "TWICE", "value": "last"}]

DUPLICATES: dict[str, InferaDeploymentBuilder] = {
    "in the service": a_small_deployment("chat").with_service("worker", env=_TWICE),
    "in the spec": a_small_deployment("chat").with_env("TWICE", "first").with_env("TWICE", "last"),
    "in both": a_small_deployment("chat")
    .with_env("TWICE", "first")
    .with_service("worker", env=[{"name": "TWICE", "value": "last"}]),
    "in a pod of the user's own": a_small_deployment("chat").with_pod_spec(
        "worker", containers=[{"name": "main", "image": _IMAGE, "env": _TWICE}]
    ),
}


@pytest.mark.parametrize("resource", DUPLICATES.values(), ids=DUPLICATES.keys())
async def test_an_env_name_given_twice_is_born_edited_quiet_and_named(
    running: Stage, resource: InferaDeploymentBuilder
) -> None:
    """The last one counts, as in the kubelet."""
    running.apply(resource)
    await running.ready("chat")
    assert _values(running, "TWICE") == ["last"]
    await running.says("chat", "Warning", "True", "Duplicates", "TWICE", "worker")

    running.apply(resource.with_service("worker", replicas=2))

    await eventually(lambda: running.get(DEPLOYMENT, "chat-worker")["spec"]["replicas"] == 2)
    await running.ready("chat")
    assert _values(running, "TWICE") == ["last"]
    await running.looked_at_again("chat")
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


async def test_an_env_name_given_twice_is_no_longer_named_once_it_is_given_once(
    running: Stage,
) -> None:
    running.apply(DUPLICATES["in the service"])
    await running.ready("chat")

    running.apply(a_small_deployment("chat").with_service("worker", env=_TWICE[:1]))

    await eventually(lambda: _values(running, "TWICE") == ["first"])
    await eventually(lambda: running.condition("chat", "Warning") == {})


def _unknown(**more: Any) -> InferaDeploymentBuilder:
    main = {"name": "main", "image": _IMAGE, "gpuPartition": {"mode": "half"}, **more}
    return a_small_deployment("chat").with_pod_spec(
        "worker", containers=[main], warpDrive=True, nodeSelector={}
    )


async def test_fields_that_the_server_does_not_know_are_born_edited_quiet_and_named(
    running: Stage,
) -> None:
    running.apply(_unknown())
    await running.ready("chat")
    await running.says("chat", "Degraded", "True", "FieldNotKnown", "gpuPartition", "warpDrive")

    running.apply(_unknown(args=["--edited"]))

    await eventually(
        lambda: container(running.get(DEPLOYMENT, "chat-worker")).get("args") == ["--edited"]
    )
    await running.ready("chat")
    await running.says("chat", "Degraded", "True", "FieldNotKnown", "gpuPartition", "warpDrive")
    await running.looked_at_again("chat")
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


async def test_a_field_that_the_server_does_not_know_inside_a_port_is_quiet_and_named(
    running: Stage,
) -> None:
    """Items of `ports` have two keys, so the name of that path has a comma in it."""
    ports = [{"containerPort": 30000, "protocol": "TCP", "laser": "on"}]
    running.apply(_unknown(ports=ports))
    await running.ready("chat")
    await running.says("chat", "Degraded", "True", "FieldNotKnown", "laser", "warpDrive")

    running.apply(_unknown(ports=ports, args=["--edited"]))
    await running.ready("chat")
    await running.says("chat", "Degraded", "True", "FieldNotKnown", "laser", "warpDrive")
    await running.looked_at_again("chat")
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


async def test_a_drift_beside_a_field_that_the_server_does_not_know_is_repaired(
    running: Stage,
) -> None:
    running.apply(_unknown())
    await running.ready("chat")

    running.kubectl("set", "image", "deployment/chat-worker", "main=registry.example/other:9")

    await eventually(lambda: container(running.get(DEPLOYMENT, "chat-worker"))["image"] == _IMAGE)


async def test_a_field_that_the_server_does_not_know_is_no_longer_named_once_it_is_gone(
    running: Stage,
) -> None:
    running.apply(_unknown())
    await running.says("chat", "Degraded", "True", "FieldNotKnown", "warpDrive")

    running.apply(a_small_deployment("chat"))

    await running.says("chat", "Degraded", "False", "AsAsked")
    await running.ready("chat")


async def test_a_field_that_becomes_unknown_in_an_edit_does_not_stop_the_edit(
    running: Stage,
) -> None:
    """Apply refuses what creation takes and drops: the rest of the edit lands all the same."""
    main = {"name": "main", "image": _IMAGE}
    running.apply(a_small_deployment("chat").with_pod_spec("worker", containers=[main]))
    await running.ready("chat")

    running.apply(_unknown(args=["--edited"]).with_service("server", port=8001))

    await eventually(
        lambda: container(running.get(DEPLOYMENT, "chat-worker")).get("args") == ["--edited"]
    )
    assert running.get(SERVICE, "chat-server")["spec"]["ports"][0]["port"] == 8001
    await running.says("chat", "Degraded", "True", "FieldNotKnown", "gpuPartition", "warpDrive")


async def test_quantities_that_the_server_rewrites_are_quiet(running: Stage) -> None:
    """`amd.com/gpu: 1` comes back as a string, `1000m` as `1`, and `1024Mi` as `1Gi`."""
    resources = {"limits": {"amd.com/gpu": 1}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}
    main = {"name": "main", "image": _IMAGE, "resources": resources}
    running.apply(
        a_small_deployment("chat")
        .with_pod_spec("worker", containers=[main])
        .with_service("server", resources={"cpu": "1000m", "memory": "1024Mi", "gpu": 1})
    )
    await running.ready("chat")
    await running.looked_at_again("chat")

    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


TWINS: dict[str, dict[str, Any]] = {
    "ports": {"ports": [{"containerPort": 7000, "name": "a"}, {"containerPort": 7000}]},
    "env from two sources": {
        "env": [
            {"name": "TWICE", "value": "first"},
            {"name": "TWICE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
    },
}


@pytest.mark.parametrize("twins", TWINS.values(), ids=TWINS.keys())
async def test_items_of_one_key_are_edited_and_quiet(running: Stage, twins: dict[str, Any]) -> None:
    def chat(**more: Any) -> InferaDeploymentBuilder:
        main = {"name": "main", "image": _IMAGE, **twins, **more}
        return a_small_deployment("chat").with_pod_spec("worker", containers=[main])

    running.apply(chat())
    await running.ready("chat")

    running.apply(chat(args=["--edited"]))

    await eventually(
        lambda: container(running.get(DEPLOYMENT, "chat-worker")).get("args") == ["--edited"]
    )
    await running.ready("chat")
    await running.looked_at_again("chat")
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


async def test_empty_values_that_the_server_leaves_out_are_quiet(running: Stage) -> None:
    """Users and templates write them all the time; Go leaves them out of JSON."""
    main: dict[str, Any] = {
        "name": "main",
        "image": _IMAGE,
        "args": [],
        "env": [{"name": "EMPTY", "value": ""}],
        "securityContext": {},
        "resources": {},
        "volumeMounts": [],
        "tty": False,
        "workingDir": "",
        "lifecycle": None,
    }
    empty: dict[str, Any] = {
        "nodeSelector": {},
        "affinity": {},
        "tolerations": [],
        "volumes": [],
        "hostNetwork": False,
        "priorityClassName": "",
        "securityContext": {"fsGroup": 0, "runAsUser": 0},
        "initContainers": None,
    }
    chat = a_small_deployment("chat").with_service("server", replicas=0, args=[], env=[])
    running.apply(chat.with_pod_spec("worker", containers=[main], **empty))
    await running.ready("chat")
    running.apply(chat.with_pod_spec("worker", containers=[{**main, "args": ["--x"]}], **empty))
    await eventually(
        lambda: container(running.get(DEPLOYMENT, "chat-worker")).get("args") == ["--x"]
    )
    await running.ready("chat")
    assert running.condition("chat", "Degraded")["status"] == "False"
    await running.looked_at_again("chat")

    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


def _values(stage: Stage, name: str) -> list[str]:
    env = container(stage.get(DEPLOYMENT, "chat-worker")).get("env", [])
    return [variable["value"] for variable in env if variable["name"] == name]
