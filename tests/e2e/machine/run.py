"""
Carries a sequence out, and sees to it that everything comes to rest where the sequence says so.

An action that is not possible (the resource is not there, the child has gone) is passed over: so
every part of a sequence is a sequence, too. Where what is to come depends on how far handlers had
got with what came before, everything comes to rest first: what is then held stays as it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bridge.kube import JSON_PATCH, MERGE_PATCH
from crds.inferadeployment import KIND
from crds.kubernetes import Manifest
from handlers import plan
from handlers.pause import ANNOTATION
from tests.e2e.machine import actions as do
from tests.e2e.machine.actions import Action, How
from tests.e2e.machine.eyes import KINDS, OPTIONAL, Eyes, is_of_handlers
from tests.e2e.machine.model import Model, Ref, Resource, Snapshot, kind_of
from tests.e2e.machine.rest import Rest
from tests.e2e.machine.scene import Scene
from tests.e2e.machine.squats import squat_of
from tests.e2e.machine.touches import (
    GONE,
    NOT_WHILE_HELD,
    OWNER,
    TOUCHES,
    UNDONE_AT_ONCE,
    Change,
)
from tests.e2e.stage import controller_of
from tests.stack.eventually import eventually

_REFUSED = (400, 422)
_IN_THE_WAY = (404, 409, 422)
_AUTOSCALER = "horizontal-pod-autoscaler"


class Run:
    """One sequence in one namespace."""

    def __init__(self, scene: Scene, eyes: Eyes, *, within_seconds: float) -> None:
        self.model = Model(eyes.served, scene.kinds.absent, has_pods=scene.has_pods)
        self.eyes = eyes
        self._scene = scene
        self._rest = Rest(scene.cluster, eyes, self.model, within_seconds)
        self._crowd = eyes.crowd
        self._is_dirty = False
        """Whether something happened since everything was last at rest."""
        self._begins_at: int | None = None
        """Where in the audit log handlers begin to write what was applied last, if they will."""

    async def do(self, action: Action) -> None:
        """It has happened; with a calm, everything is at rest."""
        if isinstance(action, do.Calm):
            await self.rest()
            return
        if isinstance(action, do.Begun):
            await self._begin()
            return
        self._begins_at = None
        if not await self._is_done_by_users(action) and not await self._is_done_by_others(action):
            await self._break(action)
        self._is_dirty = True

    async def _begin(self) -> None:
        if (offset := self._begins_at) is None:
            return

        def have_written() -> bool:
            namespace = self._crowd.namespace
            written = self.eyes.audit.mutating(from_offset=offset, namespace=namespace)
            return any(is_of_handlers(event, namespace) for event in written)

        await eventually(have_written, within_seconds=60, every_seconds=0.005)

    async def rest(self) -> None:
        """Everything is at rest, and as it should be."""
        self._scene.end_cuts()
        self._scene.go_on(lasting=False)
        await self._rest.come()
        for process in self._scene.processes.values():
            assert process.is_running, f"{process.name} ended by itself"
        self._is_dirty = False

    async def tidy(self) -> None:
        """Nothing is paused, stopped, or in the way any more; and everything is at rest."""
        await self.do(do.Continue())
        for child in tuple(self.model.squats):
            await self._unsquat(child)
        for name, resource in self.model.resources.items():
            if resource.is_paused:
                await self._resume(name)
        await self.rest()

    async def _rest_if_dirty(self) -> None:
        if self._is_dirty:
            await self.rest()

    # Users

    async def _is_done_by_users(self, action: Action) -> bool:
        match action:
            case do.Apply(name, spec):
                await self._apply(name, spec)
            case do.Wrong(name, spec):
                await self._wrong(name, spec)
            case do.Delete(name, how):
                await self._delete(name, how)
            case do.Pause(name):
                await self._pause(name)
            case do.Resume(name):
                await self._resume(name)
            case _:
                return False
        return True

    async def _apply(self, name: str, spec: Manifest) -> None:
        known = self.model.resources.get(name)
        stored = await self._write(name, spec, is_dry=True)
        trial = Resource(asked={}, stored=stored) if known is None else known.copy()
        trial.take(spec, stored)
        await self.eyes.learn(self.model.wanted(trial).values())
        now = await self.eyes.snapshot()
        holds = trial.is_frozen or bool(self.model.held(trial, now))
        holds = holds or (known is not None and self._may_hand_over(name, trial, now))
        if holds and not (known is not None and known.is_frozen):
            await self._rest_if_dirty()
        was_at_rest, offset = not self._is_dirty, self.eyes.audit.offset()
        stored = await self._write(name, spec)
        is_new = known is None or known.generation != stored["metadata"]["generation"]
        if known is None:
            known = self.model.resources[name] = Resource(asked=spec, stored=stored)
            self._rest.unfreeze(name)
        known.take(spec, stored)
        await self.eyes.learn(self.model.wanted(known).values())
        self._rest.asks(name, known)
        if not known.is_frozen:
            self._rest.unfreeze(name)
        if not known.is_frozen and self._has_scaled_anew(known, now):
            self._is_dirty = True
            await self.rest()
        elif was_at_rest and is_new:
            self._begins_at = offset

    async def _write(self, name: str, spec: Manifest, *, is_dry: bool = False) -> Manifest:
        """Return the resource as the API server takes it; a former one of its name goes first."""
        query = "?dryRun=All" if is_dry else ""
        if name in self.model.resources:
            path = KIND.path(self._crowd.namespace, name) + query
            edited: Manifest = await self._request("PATCH", path, _spec_patch(spec), JSON_PATCH)
            return edited
        path = KIND.path(self._crowd.namespace) + query
        found: Manifest = {}

        async def is_made() -> bool:
            found.clear()
            found.update(await self._crowd.request("POST", path, _new(name, spec), accept=(409,)))
            assert found["kind"] == KIND.kind, found
            return True

        await eventually(is_made, within_seconds=60)
        return found

    def _may_hand_over(self, name: str, trial: Resource, now: Snapshot) -> bool:
        """Whether something is there, or may be, that stays for what is asked for instead."""
        return bool(trial.may_stay() & {*now.objects, *self._rest.asked(name)})

    def _has_scaled_anew(self, resource: Resource, now: Snapshot) -> bool:
        """Whether a workload that an autoscaler has is to have another number of replicas."""
        return any(
            uid in self.model.theirs.replicas
            and child["spec"]["replicas"] != self.model.theirs.replicas[uid][1]
            for ref, child in self.model.wanted(resource).items()
            if (uid := now.objects.get(ref, {}).get("metadata", {}).get("uid"))
        )

    async def _wrong(self, name: str, spec: Manifest) -> None:
        if name in self.model.resources:
            path, body = KIND.path(self._crowd.namespace, name), _spec_patch(spec)
            answer = await self._request("PATCH", path, body, JSON_PATCH, accept=_REFUSED)
        else:
            path = KIND.path(self._crowd.namespace)
            answer = await self._request("POST", path, _new(name, spec), accept=_REFUSED)
        assert answer.get("code") in _REFUSED, f"was not refused: {answer}"

    async def _delete(self, name: str, how: How) -> None:
        if name not in self.model.resources:
            return
        if how == "orphan":
            await self._rest_if_dirty()
        resource = self.model.resources.pop(name)
        self._rest.unfreeze(name)
        if how == "orphan":
            owned = self.model.settled.owned_by(resource.uid)
            await self.eyes.are_collected(OPTIONAL & {kind_of(ref) for ref in owned})
            self.model.orphans |= {child["metadata"]["uid"] for child in owned.values()}
        path = KIND.path(self._crowd.namespace, name)
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        await self._request("DELETE", path, {**options, "propagationPolicy": how.capitalize()})

    async def _pause(self, name: str) -> None:
        resource = self.model.resources.get(name)
        if resource is None or resource.is_paused:
            return
        if not resource.is_frozen:
            await self._rest_if_dirty()
        await self._annotate(name, "true")
        resource.is_paused = True

    async def _resume(self, name: str) -> None:
        resource = self.model.resources.get(name)
        if resource is None or not resource.is_paused:
            return
        self._rest.unfreeze(name)
        await self._annotate(name, None)
        resource.is_paused = False
        self._is_dirty = True
        if resource.is_frozen:
            await self.rest()

    async def _annotate(self, name: str, value: str | None) -> None:
        path = KIND.path(self._crowd.namespace, name)
        await self._request("PATCH", path, {"metadata": {"annotations": {ANNOTATION: value}}})

    # Others

    async def _is_done_by_others(self, action: Action) -> bool:
        match action:
            case do.Touch(child, what, by):
                await self._touch(child, what, by)
            case do.Scale(child, replicas):
                await self._scale(child, replicas)
            case do.Squat(child):
                await self._squat(child)
            case do.Unsquat(child):
                await self._unsquat(child)
            case do.Install(kind):
                await self._install(kind)
            case do.Remove(kind):
                await self._remove(kind)
            case _:
                return False
        return True

    async def _touch(self, ref: Ref, what: str, by: str) -> None:
        if (found := await self._child_of_ours(ref)) is None:
            return
        resource, live = found
        held = resource.is_frozen or ref in self.model.held(resource, await self.eyes.snapshot())
        if held and what in NOT_WHILE_HELD:
            return
        if ref in self._rest.touched:
            await self.rest()
        change = TOUCHES[what].change(live)
        kind, _, name = ref.partition("/")
        path = KINDS[kind].path(self._crowd.namespace, name)
        if change is None:
            return
        uid = live["metadata"]["uid"]
        if what == GONE:
            await self._request("DELETE", path, accept=_IN_THE_WAY)
        else:
            path = f"{path}?fieldManager={by}"
            answer = await self._request(
                "PATCH", path, change.body, change.media_type, accept=_IN_THE_WAY
            )
            if "code" in answer:
                return
            uid = answer["metadata"]["uid"]
        self._rest.touched.add(ref)
        if held:
            resource.meddled.add(ref)
        self._remember(uid, what, change)
        if what in UNDONE_AT_ONCE:
            await self.rest()

    def _remember(self, uid: str, what: str, change: Change) -> None:
        theirs = self.model.theirs
        if what == OWNER:
            self.model.orphans.add(uid)
        elif what == "replicas":
            theirs.replicas.pop(uid, None)
        elif what.endswith(" of theirs"):
            metadata: Any = change.body
            for field, values in metadata["metadata"].items():
                theirs.give(uid, field, values)

    async def _scale(self, ref: Ref, replicas: int) -> None:
        found = await self._child_of_ours(ref)
        if found is None or kind_of(ref) not in ("Deployment", "LeaderWorkerSet"):
            return
        await self._rest_if_dirty()
        found = await self._child_of_ours(ref)
        assert found is not None
        resource, live = found
        held = resource.is_frozen or ref in self.model.held(resource, self.model.settled)
        if held or live["spec"]["replicas"] == replicas:
            return
        kind, _, name = ref.partition("/")
        path = KINDS[kind].path(self._crowd.namespace, name, "scale")
        body = {"spec": {"replicas": replicas}}
        await self._request("PATCH", f"{path}?fieldManager={_AUTOSCALER}", body)
        self._rest.touched.add(ref)
        seed = int(plan.annotation(live, plan.REPLICAS_SEED))
        self.model.theirs.replicas[live["metadata"]["uid"]] = (replicas, seed)

    async def _child_of_ours(self, ref: Ref) -> tuple[Resource, Manifest] | None:
        live = (await self.eyes.snapshot()).objects.get(ref)
        owner = controller_of(live) if live is not None else {}
        resource = self.model.resources.get(owner.get("name", ""))
        if live is None or resource is None or resource.uid != owner["uid"]:
            return None
        return resource, live

    async def _squat(self, ref: Ref) -> None:
        if kind_of(ref) in self._scene.kinds.absent:
            return
        kind = KINDS[kind_of(ref)]
        body = squat_of(ref, kind.api_version)
        path = kind.path(self._crowd.namespace)
        answer = await self._request("POST", path, body, accept=(409,))
        if "code" not in answer:
            self.model.squats[ref] = answer

    async def _unsquat(self, ref: Ref) -> None:
        if ref not in self.model.squats:
            return
        del self.model.squats[ref]
        kind, _, name = ref.partition("/")
        await self._request("DELETE", KINDS[kind].path(self._crowd.namespace, name))
        self._asks_anew()

    async def _install(self, kind: str) -> None:
        if self._scene.has_pods:
            await self._rest_if_dirty()  # what stays, and what has gone, depends on who served
        await asyncio.to_thread(self._scene.kinds.install, kind)
        for resource in self.model.resources.values():
            await self.eyes.learn(self.model.wanted(resource).values())
        self._asks_anew()

    async def _remove(self, kind: str) -> None:
        """Its objects go with it, whoever's they are, and whoever may not write."""
        if self._scene.has_pods:
            await self._rest_if_dirty()
        await asyncio.to_thread(self._scene.kinds.remove, kind)
        self._rest.touched |= self.model.lose(kind)
        self._asks_anew()

    def _asks_anew(self) -> None:
        """What stays for a successor is to be told anew: it may be possible now."""
        for name, resource in self.model.resources.items():
            self._rest.asks(name, resource)

    # Faults

    async def _break(self, action: Action) -> None:
        scene = self._scene
        match action:
            case do.Kill(what):
                await asyncio.to_thread(scene.kill, what)
            case do.Stop(what, lasting):
                scene.stop(what, lasting=lasting)
            case do.Continue():
                scene.go_on(lasting=True)
            case do.Cut(what, lasting):
                scene.cut(what, lasting=lasting)
            case do.Wipe():
                await scene.wipe()
            case do.Lose(stream):
                await scene.lose(stream)

    async def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        patch_type: str = MERGE_PATCH,
        accept: tuple[int, ...] = (),
    ) -> Any:
        return await self._crowd.request(method, path, body, accept, patch_type)


def _new(name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _spec_patch(spec: Manifest) -> list[Manifest]:
    return [{"op": "replace", "path": "/spec", "value": spec}]
