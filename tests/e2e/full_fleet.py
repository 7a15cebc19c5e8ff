"""A fleet that the workers of one deployment fill, and which of their two workloads serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crds.kind import Kind
from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, Manifest
from handlers.cli.devstack.fleet import Fleet, node_name
from tests.builders import InferaDeploymentBuilder, an_infera_deployment
from tests.e2e.stage import Stage, condition_of
from tests.faults.stand_ins.groups import GROUP_INDEX, is_ready
from tests.stack.eventually import eventually
from tests.witness.pods import Moment

GPUS = 8
"""Of a node, and of every pod of a worker: one pod fills a node."""
NODES = 4
SPARE = [node_name(number) for number in range(NODES + 1, 2 * NODES + 1)]
"""As many nodes, which take no pods until there is to be room."""
WORKER = "chat-worker"
FLEET = Fleet(nodes=NODES + len(SPARE), gpus_per_node=GPUS)


def chat(nodes: int = 1) -> InferaDeploymentBuilder:
    """Return a deployment whose workers fill the fleet, in pods or in groups of so many."""
    return an_infera_deployment("chat").with_worker(gpus=GPUS, nodes=nodes, replicas=NODES // nodes)


@contextmanager
def room(stage: Stage) -> Iterator[None]:
    """Have room for as much again as what runs."""
    stage.cluster.kubectl("uncordon", *SPARE)
    try:
        yield
    finally:
        stage.cluster.kubectl("cordon", *SPARE)


async def serves_alone(stage: Stage, kind: Kind) -> None:
    """Return once the resource is Ready, by pods of this workload, with no other left."""
    await stage.ready("chat")

    def is_alone() -> bool:
        assert stage.find(other(kind), WORKER) is None
        pods = stage.pods()
        assert {_kind_of(pod) for pod in pods.values()} == {kind}, told(pods)
        return len(pods) == NODES and all(map(is_ready, pods.values()))

    await eventually(is_alone, 30)
    resource = await stage.ready("chat")
    assert resource["status"]["services"]["worker"]["kind"] == kind.kind


async def is_gone(stage: Stage) -> None:
    """Return once the resource and its pods are gone: the next test needs the nodes."""
    stage.kubectl("delete", "idep/chat")
    await eventually(lambda: not stage.pods(), 30)


def _kind_of(pod: Manifest) -> Kind:
    return LEADER_WORKER_SET if GROUP_INDEX in pod["metadata"]["labels"] else DEPLOYMENT


def of(pods: Moment, kind: Kind) -> list[Manifest]:
    """Return the pods of the workload of a kind."""
    return [pod for pod in pods.values() if _kind_of(pod) == kind]


def other(kind: Kind) -> Kind:
    """Return the kind that a workload of this kind replaces."""
    (other,) = {DEPLOYMENT, LEADER_WORKER_SET} - {kind}
    return other


def serves(pods: Moment, kind: Kind) -> bool:
    """Whether a workload has all its pods ready, and so all its groups are whole."""
    return sum(map(is_ready, of(pods, kind))) == NODES


def finds_no_node(pod: Manifest) -> bool:
    """Whether the scheduler says so."""
    return condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"


def told(pods: Moment) -> dict[str, str]:
    """Return whose each pod is, and how it is, for people."""
    return {
        name: f"{_kind_of(pod).kind} {'ready' if is_ready(pod) else pod['status'].get('phase')}"
        for name, pod in sorted(pods.items())
    }
