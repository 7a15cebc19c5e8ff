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

from crds.kind import Kind
from crds.kubernetes import LEADER_WORKER_SET, POD, SERVICE, Manifest
from handlers.cli.devstack.cluster import Cluster
from tests.faults.stand_ins.client import CONFLICT, ApiError, Client, Controller, Copy, Key
from tests.faults.stand_ins.groups import (
    SET_NAME,
    Group,
    controller_uid,
    groups_of,
    headless_service,
    leader_uid,
    own_pods,
    plan,
    status_of,
)

MANAGER = "lws"
"""What the real controller calls itself in managedFields."""


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
        self._services = Copy(SERVICE, SET_NAME)
        watched = [self._sets, self._pods, self._services]
        self._controller = Controller(self._client, watched, self._reconcile)
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
        for key in {*by_set, *self._sets.objects, *self._services.objects}:
            pods = by_set[key]
            workers = self._sets.objects.get(key)
            service = self._services.objects.get(key)
            try:
                if workers is None:
                    # The garbage collector's work; of a kind that is new it learns after 30 s.
                    await self._delete(POD, pods)
                    await self._delete(SERVICE, [service] if service else [])
                elif "deletionTimestamp" not in workers["metadata"]:
                    await self._serve(workers, pods, service)
            except ApiError:
                refused = True
        return refused

    async def _serve(
        self, workers: Manifest, pods: list[Manifest], service: Manifest | None
    ) -> None:
        own, left = own_pods(workers, pods)
        groups = groups_of(workers, own)
        todo = plan(workers, groups, {group.index for group in groups if self._lost_one(group)})
        await self._write_status(workers, groups)
        await self._delete(POD, [*left, *todo.delete])
        if service is None:
            await self._create(SERVICE, headless_service(workers))
        elif controller_uid(service) != workers["metadata"]["uid"]:
            await self._delete(SERVICE, [service])
        for pod in todo.create:
            await self._create(POD, pod)

    def _lost_one(self, group: Group) -> bool:
        if group.leader is None:
            return False
        present = {pod["metadata"]["name"] for pod in group.pods.values()}
        return not self._born[leader_uid(group.leader)] <= present

    async def _create(self, kind: Kind, manifest: Manifest) -> None:
        """Create an object, unless one of that name is there: its end is an event that we see."""
        try:
            await self._client.post(kind.path(manifest["metadata"]["namespace"]), manifest)
        except ApiError as exc:
            if exc.status != CONFLICT:
                raise

    async def _delete(self, kind: Kind, items: list[Manifest]) -> None:
        for item in items:
            metadata = item["metadata"]
            if "deletionTimestamp" not in metadata:
                path = kind.path(metadata["namespace"], metadata["name"])
                await self._client.delete(path, metadata["uid"])

    async def _write_status(self, workers: Manifest, groups: list[Group]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = status_of(workers, groups, now)
        if not self._says_generation:
            del status["observedGeneration"]
        if status == workers.get("status"):
            return
        kind, metadata = LEADER_WORKER_SET, workers["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"], "status")
        body = {**workers, "apiVersion": kind.api_version, "kind": kind.kind, "status": status}
        await self._client.put(path, body)
