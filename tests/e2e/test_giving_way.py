"""What is no longer asked for stays while something still needs it, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import Setting
from tests.builders import InferaDeploymentBuilder, an_infera_deployment
from tests.e2e.stage import Stage, uid
from tests.faults import policies
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.installing import LEADER_WORKER_SETS, installed
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.stack.eventually import eventually
from tests.witness.quiet import quiet

UNDERLYING = (
    "StatefulSet/chat-nats",
    "Service/chat-nats",
    "ServiceAccount/chat-disc",
    "Role/chat-disc",
    "RoleBinding/chat-disc",
)
"""What pods run on."""
CHAT = an_infera_deployment("chat").with_managed_nats().with_server().with_worker(replicas=2)


@pytest.fixture(scope="module")
def company_settings() -> Mapping[str, Setting]:
    """What waits is looked at soon."""
    return {"not_ready_seconds": 1, "successor_pods_seconds": 3}


@pytest.fixture(scope="module", autouse=True)
def groups(control_plane: ControlPlane) -> Iterator[None]:
    """LeaderWorkerSets are installed, and their controller does not run."""
    with installed(control_plane, LEADER_WORKER_SETS):
        yield


def moved(chat: InferaDeploymentBuilder) -> InferaDeploymentBuilder:
    """Return it on a NATS and with a discovery of somebody else."""
    return chat.with_spec(
        nats={"url": "nats://elsewhere:4222"},
        discoveryBackend="etcd",
        etcdEndpoint="http://elsewhere:2379",
    )


async def test_a_rollout_that_cannot_end_keeps_what_pods_of_before_run_on(running: Stage) -> None:
    """It is said, costs no write, outlives the handlers, and ends with the rollout."""
    running.apply(CHAT)
    await running.ready("chat")
    before = {name: uid(running.children()[name]) for name in UNDERLYING}

    running.apply(moved(CHAT).with_worker(replicas=2, gpus=1000))
    await running.says(
        *("chat", "Warning", "True", "EtcdDiscovery"),
        *UNDERLYING[0].split("/"),
        "kept for pods of before until these are ready as asked",
        "Deployment chat-worker",
    )
    await running.says("chat", "Ready", "False", "Unschedulable", "service worker")
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")
    running.handlers.kill()
    running.handlers.start()
    running.handlers.wait_ready()
    await running.looked_at_again("chat")
    assert {name: uid(running.children()[name]) for name in UNDERLYING} == before

    running.apply(moved(CHAT).with_worker(replicas=2, gpus=0))
    await running.ready("chat")
    await running.vanish(*UNDERLYING)
    await running.says("chat", "Warning", "True", "EtcdDiscovery")
    await eventually(lambda: "kept" not in running.condition("chat", "Warning")["message"])
    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again("chat")


async def test_so_does_a_hand_over_until_it_has_ended(running: Stage) -> None:
    running.apply(CHAT)
    await running.ready("chat")

    running.apply(moved(CHAT).with_worker(replicas=1, nodes=2))
    await eventually(lambda: running.find(LEADER_WORKER_SET, "chat-worker"))
    await running.says("chat", "Ready", "False", "WaitingForPods", "service worker")
    await running.looked_at_again("chat")
    children = running.children()
    assert {"Deployment/chat-worker", *UNDERLYING} <= children.keys()
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        await running.ready("chat")
        await running.vanish("Deployment/chat-worker", *UNDERLYING)
        running.kubectl("delete", "idep/chat")
        await running.vanish("InferaDeployment/chat", "Deployment/chat-server")


async def test_a_deletion_of_the_whole_waits_for_nobody(running: Stage) -> None:
    running.apply(CHAT)
    await running.ready("chat")
    running.apply(moved(CHAT).with_worker(replicas=2, gpus=1000))
    await running.says("chat", "Warning", "True", "EtcdDiscovery", "kept for pods of before")
    running.kubectl("delete", "idep/chat")
    await running.vanish("InferaDeployment/chat", *UNDERLYING, "Deployment/chat-worker")


async def test_a_successor_that_crashes_takes_nothing_away_and_is_told_once(
    running: Stage,
) -> None:
    """Its group is made anew again and again; who undoes the edit has lost no pod."""
    chat = an_infera_deployment("chat").with_worker(replicas=1)
    running.apply(chat)
    await running.ready("chat")
    pods = {uid(pod) for pod in running.pods().values()}
    with in_thread(StandInLeaderWorkerSets(running.cluster)):
        running.apply(chat.with_worker(replicas=1, nodes=2, image="registry.example/a:crashes"))
        await running.says("chat", "Ready", "False", "Crashing", "service worker")
        offset = running.audit.offset()
        for _ in range(12):  # looks, a second apart and more: far beyond the patience
            await running.read_since(running.audit.offset(), "chat")
        assert running.find(DEPLOYMENT, "chat-worker") is not None
        written = running.audit.mutating(
            user_agent_prefix="weir-handlers", namespace=running.namespace, from_offset=offset
        )
        assert [event for event in written if event.object_ref.resource == "events"] == []
        assert pods <= {uid(pod) for pod in running.pods().values()}

        running.apply(chat)
        await running.ready("chat")
        await running.vanish("LeaderWorkerSet/chat-worker")
    await eventually(lambda: {uid(pod) for pod in running.pods().values()} == pods)


@pytest.mark.parametrize("says_generation", [True, False])
async def test_a_quota_that_keeps_a_successor_from_its_pods_does_not_keep_both_for_ever(
    running: Stage, *, says_generation: bool
) -> None:
    """Nothing of a LeaderWorkerSet says so: its pods are missing, and that is all."""
    chat = an_infera_deployment("chat").with_worker(replicas=2)
    running.apply(chat)
    await running.ready("chat")
    running.kubectl("create", "-f-", document=policies.quota(running.namespace, pods=2))
    offset = running.audit.offset()
    with in_thread(StandInLeaderWorkerSets(running.cluster, says_generation=says_generation)):
        running.apply(chat.with_worker(replicas=1, nodes=2))
        await running.ready("chat")
    assert running.find(DEPLOYMENT, "chat-worker") is None
    told = [
        str(event.body["status"]["conditions"])
        for event in running.audit.mutating(
            user_agent_prefix="weir-handlers", namespace=running.namespace, from_offset=offset
        )
        if event.object_ref.subresource == "status"
    ]
    assert any("pods of the successor are lacking or gated" in said for said in told)


async def test_no_pods_wanted_none_wait_for_a_successor_that_cannot_be_made(running: Stage) -> None:
    chat = an_infera_deployment("chat").with_server().with_worker(replicas=2)
    running.apply(chat)
    await running.ready("chat")
    refused = policies.refusing(
        running.namespace,
        LEADER_WORKER_SET.plural,
        "chat-worker",
        group=LEADER_WORKER_SET.group,
    )
    running.cluster.kubectl("create", "-f-", document=refused)
    assert running.find(STATEFUL_SET, "chat-nats") is None
    running.apply(chat.with_worker(replicas=0, nodes=2))
    await running.vanish("Deployment/chat-worker")
    assert running.find(DEPLOYMENT, "chat-server") is not None
    running.cluster.kubectl("delete", "-f-", document=refused)


async def test_groups_of_a_silent_controller_are_not_ready_before_it_has_met_an_edit(
    running: Stage,
) -> None:
    """Its old releases report no generation; while it is down their last word is of before."""
    chat = an_infera_deployment("chat").with_worker(replicas=1, nodes=2)
    with in_thread(StandInLeaderWorkerSets(running.cluster, says_generation=False)):
        running.apply(chat)
        await running.ready("chat")
    for edited in (chat.with_image("registry.example/infera:2"), chat.with_env("LEVEL", "high")):
        running.apply(edited)
        await running.says("chat", "Ready", "False", "RollingOut", "has not met the present one")
        await running.looked_at_again("chat")
        await running.says("chat", "Ready", "False", "RollingOut", "has not met the present one")
    running.apply(chat)
    await running.ready("chat")
    with in_thread(StandInLeaderWorkerSets(running.cluster, says_generation=False)):
        running.apply(chat.with_image("registry.example/infera:2"))
        await running.ready("chat")
        assert running.get(LEADER_WORKER_SET, "chat-worker")["status"]["updatedReplicas"] == 1
        running.kubectl("delete", "idep/chat")
        await running.vanish("InferaDeployment/chat")
