"""
A stand-in for the controller of sigs.k8s.io/lws.

It makes the pods of every LeaderWorkerSet and writes its status; the real scheduler and KWOK do
the rest, so a full fleet keeps pods Pending. What it leaves out: the StatefulSets between a
LeaderWorkerSet and its pods (here leaders belong to the LeaderWorkerSet, workers to their leader),
ControllerRevisions (a group that dies during a rollout comes back with the new template), surge,
subgroups, exclusive placement, annotations on pods, and its webhook: the defaults are those of the
CRD beside this file, so nothing has to fill them in.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

from crds.kubernetes import LEADER_WORKER_SET, POD, SERVICE, Manifest
from handlers.cli.devstack.cluster import Cluster
from tests.faults.stand_ins.client import ApiError, Client, Controller, Copy, Key
from tests.faults.stand_ins.groups import (
    SET_NAME,
    Group,
    groups_of,
    headless_service,
    leader_uid,
    own_pods,
    plan,
    status_of,
)

MANAGER = "lws"
"""What the real controller calls itself in managedFields."""
CONFLICT = 409


class StandInLeaderWorkerSets:
    """
    Serves the LeaderWorkerSets of all namespaces while it is started, the CRD there or not.

    Older releases of the real one never write `status.observedGeneration`: `says_generation=False`
    is such a one.
    """

    def __init__(self, cluster: Cluster, *, says_generation: bool = True) -> None:
        """Take the API server; an administrator's kubeconfig is used."""
        self._client = Client(cluster.kubeconfig(), MANAGER)
        self._says_generation = says_generation
        self._sets = Copy(LEADER_WORKER_SET, "")
        self._pods = Copy(POD, SET_NAME)
        self._controller = Controller(self._client, [self._sets, self._pods], self._reconcile)
        self._born: defaultdict[str, set[str]] = defaultdict(set)
        """By a leader's uid, the pods that its group ever had."""

    async def start(self) -> None:
        """Serve from now on."""
        await self._controller.start()

    async def stop(self) -> None:
        """Write nothing any more; the pods stay."""
        await self._controller.stop()

    async def _reconcile(self) -> bool:
        """Look at everything; return whether something was refused."""
        by_set: defaultdict[Key, list[Manifest]] = defaultdict(list)
        for pod in self._pods.objects.values():
            metadata = pod["metadata"]
            by_set[metadata["namespace"], metadata["labels"][SET_NAME]].append(pod)
            self._born[leader_uid(pod)].add(metadata["name"])
        refused = False
        for key in {*by_set, *self._sets.objects}:
            pods = by_set[key]
            workers = self._sets.objects.get(key)
            try:
                if workers is None:
                    # The garbage collector's work; of a kind that is new it learns after 30 s.
                    await self._delete(pods)
                elif "deletionTimestamp" not in workers["metadata"]:
                    await self._serve(workers, pods)
            except ApiError:
                refused = True
        return refused

    async def _serve(self, workers: Manifest, pods: list[Manifest]) -> None:
        own, left = own_pods(workers, pods)
        groups = groups_of(workers, own)
        todo = plan(workers, groups, {group.index for group in groups if self._lost_one(group)})
        await self._write_status(workers, groups)
        await self._delete([*left, *todo.delete])
        if todo.create:
            await self._create(headless_service(workers), SERVICE.path(_namespace(workers)))
        for pod in todo.create:
            await self._create(pod, POD.path(_namespace(workers)))

    def _lost_one(self, group: Group) -> bool:
        if group.leader is None:
            return False
        present = {pod["metadata"]["name"] for pod in group.pods.values()}
        return not self._born[leader_uid(group.leader)] <= present

    async def _create(self, manifest: Manifest, path: str) -> None:
        """Create an object, unless one of that name is there: its end is an event that we see."""
        try:
            await self._client.post(path, manifest)
        except ApiError as exc:
            if exc.status != CONFLICT:
                raise

    async def _delete(self, pods: list[Manifest]) -> None:
        for pod in pods:
            metadata = pod["metadata"]
            if "deletionTimestamp" not in metadata:
                path = POD.path(metadata["namespace"], metadata["name"])
                await self._client.delete(path, metadata["uid"])

    async def _write_status(self, workers: Manifest, groups: list[Group]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = status_of(workers, groups, now)
        if not self._says_generation:
            del status["observedGeneration"]
        if status == workers.get("status"):
            return
        kind = LEADER_WORKER_SET
        path = kind.path(_namespace(workers), workers["metadata"]["name"], "status")
        body = {**workers, "apiVersion": kind.api_version, "kind": kind.kind, "status": status}
        await self._client.put(path, body)


def _namespace(workers: Manifest) -> str:
    return str(workers["metadata"]["namespace"])
