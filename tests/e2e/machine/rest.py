"""
Everything comes to rest: it is as it should be, it was come by rightly, and it stays so.

What there is follows from what was asked for last (`model.py`). Since the last time nothing was
deleted that was wanted throughout, no child was changed that nobody asked to be another, and none
was written whose resource is paused, or that is foreign. One more look at everything asks for no
change at all. And no resource was given up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from crds.inferadeployment import KIND
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.plan import rendering_hash
from handlers.reconcile import TAKEN_OVER
from tests.e2e.machine.eyes import KINDS, Eyes, is_about, is_of_handlers
from tests.e2e.machine.model import Model, Ref, Resource, Snapshot
from tests.e2e.population import is_ready
from tests.stack.eventually import eventually
from tests.witness.audit import AuditEvent
from tests.witness.quiet import calm


class Rest:
    """Knows what was true when everything was last at rest, and brings about the next time."""

    def __init__(
        self, cluster: ControlPlane, eyes: Eyes, model: Model, within_seconds: float
    ) -> None:
        """Take what is looked at, and within how long it is at rest."""
        self._cluster = cluster
        self._eyes = eyes
        self._model = model
        self._within_seconds = within_seconds
        self._offset = eyes.audit.offset()
        self.touched: set[Ref] = set()
        """Children that others changed since."""
        self._asked: dict[str, list[dict[Ref, str]]] = {}
        """What each resource asked for since, by the hashes of its renderings."""
        self._frozen: set[str] = set()
        """The resources that were frozen then and are since."""
        self._right: dict[Ref, str] = {}
        """The hash of each child that was then as rendered."""
        self._squatted: set[Ref] = set()

    def asks(self, name: str, resource: Resource) -> None:
        """A resource asks for other children than before."""
        asked = {ref: rendering_hash(child) for ref, child in resource.wanted().items()}
        staying = dict.fromkeys(self._model.staying(resource, self._model.settled), "")
        self._asked.setdefault(name, []).append({**asked, **staying})

    def asked(self, name: str) -> set[Ref]:
        """Return the children that a resource has asked for since, at any time."""
        return {ref for one in self._asked.get(name, ()) for ref in one}

    def unfreeze(self, name: str) -> None:
        """Children of a resource may be written again, or are another one's."""
        self._frozen.discard(name)

    async def come(self) -> None:
        """Everything is at rest, and rightly so."""
        await eventually(self._is_as_asked, self._within_seconds, 0.2)
        if self._model.has_pods:
            await calm(self._cluster, self._eyes.crowd.namespace)
        # What the last changes woke comes first, and the words of a take-over go.
        await self._eyes.look_at(self._model.resources)
        await eventually(self._is_at_rest, self._within_seconds, 0.2)
        quiet = self._eyes.audit.offset()
        await self._eyes.look_at(self._model.resources)
        now = await self._eyes.snapshot()
        found = [
            *self._writes_at_rest(quiet, now),
            *self._wrong_writes(),
            *self._changed_for_nothing(now),
        ]
        assert not found, "\n".join(found)
        assert await self._eyes.dead_letters() == 0, "a resource was given up"
        self._settle(now)

    async def _is_as_asked(self) -> bool:
        await self._eyes.collect_garbage(await self._eyes.snapshot())
        now = await self._eyes.snapshot()
        for resource in self._model.resources.values():
            await self._eyes.learn(self._model.wanted(resource).values())
        found = [*self._model.complaints(now), *self._unready(now)]
        assert not found, "\n".join(found)
        await self._eyes.queue_is_idle()
        return True

    async def _is_at_rest(self) -> bool:
        await self._is_as_asked()
        now = await self._eyes.snapshot()
        assert TAKEN_OVER not in json.dumps([*now.resources.values()]), "was just taken over"
        return True

    def _unready(self, now: Snapshot) -> Iterator[str]:
        if not self._model.has_pods:
            return
        for name, resource in self._model.resources.items():
            lacks = self._model.lacking(resource, now)
            if not resource.is_frozen and not lacks and not is_ready(now.resources[name]):
                yield f"{name} is not Ready: {now.resources[name].get('status')}"

    def _writes_at_rest(self, offset: int, now: Snapshot) -> Iterator[str]:
        """Yield what a look at what is as it should be asked for; refusals come again."""
        refused = {
            ref
            for one in self._model.resources.values()
            if not one.is_frozen
            for ref in self._model.held(one, now)
        }
        for event in self._writes(offset):
            is_refused = any(_is(event, ref) for ref in refused) and not event.landed
            if not is_refused:
                yield f"at rest: {event}"

    def _wrong_writes(self) -> Iterator[str]:
        for event in self._writes(self._offset):
            for name, asked in self._asked.items():
                wanted = set.intersection(*map(set, asked))
                if event.verb == "delete" and event.landed and _any(event, wanted):
                    yield f"{name} wanted it all the time: {event}"
            for name in self._frozen:
                is_child = event.object_ref.name.startswith(f"{name}-")
                if is_child and event.object_ref.resource not in (KIND.plural, "events"):
                    yield f"{name} is not to be touched: {event}"
            if event.verb != "create" and _any(event, self._squatted):
                yield f"somebody else's: {event}"

    def _changed_for_nothing(self, now: Snapshot) -> Iterator[str]:
        """Yield the children that are others than before although nobody asked for that."""
        for name, asked in self._asked.items():
            resource = self._model.resources.get(name)
            before = {} if resource is None else self._model.settled.owned_by(resource.uid)
            for ref, child in before.items():
                is_asked = ref in self._right and {one.get(ref) for one in asked} == {
                    self._right[ref]
                }
                if not is_asked or ref in self.touched:
                    continue
                was, is_now = child["metadata"], now.objects[ref]["metadata"]
                for field in ("uid", "generation"):
                    if was.get(field) != is_now.get(field):
                        yield f"{ref} was asked for all the time, and has another {field}"

    def _writes(self, offset: int) -> list[AuditEvent]:
        namespace = self._eyes.crowd.namespace
        events = self._eyes.audit.mutating(from_offset=offset, namespace=namespace)
        return [event for event in events if is_of_handlers(event, namespace)]

    def _settle(self, now: Snapshot) -> None:
        model = self._model
        model.settle(now)
        self._offset = self._eyes.audit.offset()
        self.touched.clear()
        self._asked.clear()
        for name, resource in model.resources.items():
            self.asks(name, resource)
        self._frozen = {name for name, one in model.resources.items() if one.is_frozen}
        self._right = {
            ref: rendering_hash(child)
            for one in model.resources.values()
            if not one.is_frozen
            for ref, child in model.wanted(one).items()
            if ref not in model.squats and ref not in model.held(one, now)
        }
        self._squatted = set(model.squats)


def _is(event: AuditEvent, ref: Ref) -> bool:
    kind, _, name = ref.partition("/")
    return kind in KINDS and is_about(event, KINDS[kind], name)


def _any(event: AuditEvent, refs: set[Ref]) -> bool:
    return any(_is(event, ref) for ref in refs)
