"""
The story of the bridge: watch, owner, digest, event, publish; and the looks that heal the rest.

For every watched kind: what a watch yields is given to its owner, compared with what was known,
and published when it matters, one event per owner, `observed` where a glance may do. A change of a
referenced object concerns every resource that its contract says it touches. Besides, every resource
is looked at (`resync`) when a bridge starts, once per interval, and when the queue lost something.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Final

import msgspec

from bridge.digest import digest
from bridge.events import (
    ChildHint,
    EventType,
    ObjectKey,
    deleted_id,
    observed_id,
    resync_id,
    seen_id,
)
from bridge.health import Check
from bridge.index import Index, News, Record, Scope, version
from bridge.jetstream import Bus
from bridge.kube import Kube
from bridge.objects import Seen
from bridge.owners import Owners
from bridge.publish import RESYNC_RANK, Publisher
from bridge.queue_guard import QueueGuard
from bridge.resync import Pace, due_times
from bridge.settings import Settings
from bridge.telemetry import METRICS, logger
from bridge.watch import Absent, Applied, Deleted, ListBegins, ListEnds, Watch
from bridge.watched import watched
from crds.contract import Contract
from crds.kind import Kind
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION, ObjectMeta

HINT_BYTES_MAX: Final = 60_000
"""A hint larger than this is cut; a message of the queue holds 64 KiB."""
_AT_ONCE_MAX: Final = 200
"""More resources than this hear of one change in turn, so that other changes need not wait."""
_START_SECONDS: Final = 5.0
"""The first look waits so long for kinds that cannot be listed; the rest must not."""
_DRAIN_SECONDS: Final = 1.0

_log = logger("relay")


class Relay:
    """One bridge between one API server and one queue."""

    def __init__(
        self, kube: Kube, bus: Bus, settings: Settings, contracts: Iterable[Contract]
    ) -> None:
        self._settings = settings
        self._contracts = tuple(contracts)
        self._own_kinds = {contract.kind for contract in self._contracts}
        self._workloads = {c.kind.queue_name: c.workloads for c in self._contracts}
        self._owners = Owners(self._contracts)
        self._index = Index()
        self._publisher = Publisher(bus, self._hint, pending_max=settings.pending_max)
        self._guard = QueueGuard(bus, settings, self._publisher, self._contracts)
        self._pace = Pace(settings.resync_rate_per_second)
        self._watches = {
            Scope(one.kind, namespace): Watch(kube, settings, one, namespace)
            for one in watched(self._contracts)
            for namespace in (settings.namespaces if one.kind.namespaced else ()) or ("",)
        }
        self._unknown = set(self._watches)
        """Scopes of which it is not known yet what they hold."""
        self._fresh = set(self._watches)
        """Scopes whose next list is their first one, or the first since the kind was absent."""
        self._absent: set[Scope] = set()
        """Scopes of kinds that the server does not serve."""
        self._started = asyncio.Event()
        """Set when the first look no longer waits for any scope."""
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Relay for ever."""
        METRICS.set_watch_age_callback(
            lambda: [
                (scope.kind.kind, scope.namespace, watch.age_seconds())
                for scope, watch in self._watches.items()
            ]
        )
        async with asyncio.TaskGroup() as publishing:
            publishing.create_task(self._publisher.run())
            try:
                await self._relay()
            finally:
                # What was seen is published, if that takes no time; else the next bridge sees it.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_DRAIN_SECONDS):
                        await self._publisher.drain()

    async def _relay(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._resync_after_losses())
            for scope, watch in self._watches.items():
                self._tasks.create_task(self._follow(scope, watch))
            await self._resync_at_start()
            await self._resync_periodically()

    def checks(self) -> Mapping[str, Check]:
        """Return what must hold for this bridge to be ready."""
        return {"watches": self._check_watches, "queue": self._guard.check}

    def _check_watches(self) -> str | None:
        silent_seconds = 2 * self._settings.watch_idle_seconds
        wrong = [
            f"{scope.kind.kind} {watch.trouble or 'not listed yet'}"
            if scope in self._unknown
            else f"{scope.kind.kind} silent for {watch.age_seconds():.0f} s {watch.trouble}".strip()
            for scope, watch in self._watches.items()
            if scope in self._unknown or watch.age_seconds() > silent_seconds
        ]
        return "; ".join(wrong) or None

    # From a watch to events

    async def _follow(self, scope: Scope, watch: Watch) -> None:
        """Whatever happens to the objects of one scope reaches the publisher."""
        async with aclosing(watch.events()) as seeings:
            async for seeing in seeings:
                match seeing:
                    case Applied(seen):
                        self._apply(scope, watch, seen)
                    case Deleted(seen):
                        self._delete(scope, seen.meta)
                    case ListBegins():
                        self._index.begin_list(scope)
                    case ListEnds(listed):
                        self._end_list(scope, listed)
                    case Absent():
                        self._vanish(scope)

    def _apply(self, scope: Scope, watch: Watch, seen: Seen) -> None:
        meta = seen.meta
        is_crd = scope.kind == CUSTOM_RESOURCE_DEFINITION
        if is_crd:
            self._wake(meta.name)
        # A CRD says in its status that it is served, of which the watch gets nothing.
        matters = digest(seen, any_change=is_crd)
        owner = self._owners.owner(scope.kind, meta)
        change = self._index.apply(scope, meta, owner, matters, keep=watch.watched.keep_meta)
        if change is None or scope in self._fresh:
            # What the first list of a scope names is looked at when it is complete.
            return
        # A birth makes a row of events of its own children, and so does a roll-out.
        hold = 0.0 if scope.kind in self._own_kinds else self._settings.child_hold_seconds
        for key in change.keys:
            is_observed = self._is_observed(key, scope.kind, change.news)
            type_ = EventType.OBSERVED if is_observed else EventType.CHANGED
            make_id = observed_id if is_observed else seen_id
            identity = make_id(key, meta.uid, meta.resource_version)
            self._publisher.offer(key, type_, identity, version(meta), hold_seconds=hold)
        self._refer(scope.kind, meta)

    def _is_observed(self, key: ObjectKey, kind: Kind, news: News) -> bool:
        """
        Return whether a glance finds all that the change can bring.

        A glance reads the workloads, whole. Of the other children it need not read one that
        appeared: who made it in the place of another deleted that one, which is told, and what the
        resource does not ask for is seen by its name.
        """
        if news is News.APPEARED:
            return kind not in self._own_kinds
        return news is News.ALTERED and kind in self._workloads.get(key.kind, ())

    def _delete(self, scope: Scope, meta: ObjectMeta) -> None:
        record = self._index.delete(scope, meta.uid)
        owners = {self._owners.owner(scope.kind, meta), record.owner if record else None}
        self._tell_deletion(scope, owners, meta)

    def _end_list(self, scope: Scope, listed: str) -> None:
        gone = self._index.end_list(scope)
        if scope in self._fresh:
            self._end_first_list(scope, listed)
        for record in gone:
            self._tell_synthetic_deletion(scope, record, listed)

    def _vanish(self, scope: Scope) -> None:
        """The server no longer serves the kind, or does not yet."""
        for record in self._index.forget(scope):
            self._tell_synthetic_deletion(scope, record, str(record.version))
        self._fresh.add(scope)
        self._absent.add(scope)
        self._know(scope)

    def _tell_synthetic_deletion(self, scope: Scope, record: Record, gone_at: str) -> None:
        """Nobody saw it go: `gone_at` is a version at which it did not exist any more."""
        meta = record.meta or ObjectMeta(name=record.name, uid=record.uid)
        meta = msgspec.structs.replace(meta, resource_version=gone_at)
        self._tell_deletion(scope, {record.owner}, meta)

    def _tell_deletion(
        self, scope: Scope, owners: Iterable[ObjectKey | None], meta: ObjectMeta
    ) -> None:
        rank = version(meta)
        for key in owners:
            if key is not None:
                identity = deleted_id(key, meta.uid, meta.resource_version)
                self._publisher.offer(key, EventType.DELETED, identity, rank)
        self._refer(scope.kind, meta, deleted=True)

    def _refer(self, kind: Kind, changed: ObjectMeta, *, deleted: bool = False) -> None:
        """Every resource that refers to the changed object hears of it."""
        touched = [
            key
            for contract in self._contracts
            for reference in contract.refers
            if reference.kind == kind
            for key, resource in self._index.kept(contract.kind)
            if key is not None and reference.touches(changed, resource)
        ]
        make_id = deleted_id if deleted else seen_id
        events = ((key, make_id(key, changed.uid, changed.resource_version)) for key in touched)
        if len(touched) > _AT_ONCE_MAX:
            self._tasks.create_task(self._tell_in_turn(events, version(changed)))
            return
        for key, identity in events:
            self._publisher.offer(key, EventType.REFERRED, identity, version(changed))

    async def _tell_in_turn(self, events: Iterable[tuple[ObjectKey, str]], rank: int) -> None:
        for key, identity in events:
            await self._pace.next()
            await self._publisher.room()
            self._publisher.offer(key, EventType.REFERRED, identity, rank)

    def _wake(self, crd_name: str) -> None:
        """The kind of this CRD may be served now."""
        for scope, watch in self._watches.items():
            if watch.absent and scope.kind.crd_name == crd_name:
                watch.appears()

    def _hint(self, key: ObjectKey) -> tuple[ChildHint, ...]:
        hint: list[ChildHint] = []
        size = 0
        for child in self._index.children(key):
            size += len(child.kind) + len(child.name) + len(child.uid) + len('["","",""],')
            if size > HINT_BYTES_MAX:
                break
            hint.append(child)
        return tuple(hint)

    # Looking at everything

    def _end_first_list(self, scope: Scope, listed: str) -> None:
        self._fresh.discard(scope)
        if scope in self._absent:
            # The change of its CRD may have been told before the server served the kind.
            self._absent.discard(scope)
            name = scope.kind.crd_name
            served = ObjectMeta(name=name, uid=name, resource_version=listed)
            self._refer(CUSTOM_RESOURCE_DEFINITION, served)
        if self._started.is_set():
            # Too late for the look at start: a kind that appeared, or could not be listed.
            keys = self._index.owners_in(scope)
            self._tasks.create_task(self._look(keys, f"listed-{uuid.uuid4().hex}"))
        self._know(scope)

    def _know(self, scope: Scope) -> None:
        self._unknown.discard(scope)
        if not self._unknown:
            self._started.set()

    async def _resync_at_start(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._started.wait()
        except TimeoutError:
            self._started.set()
            _log.warning("starting without every kind", missing=self._check_watches())
        keys = self._index.owners()
        _log.info("everything is listed", action="resync", objects=len(self._index), keys=len(keys))
        self._tasks.create_task(self._look(keys, f"start-{uuid.uuid4().hex}"))

    async def _resync_periodically(self) -> None:
        interval = self._settings.resync_seconds
        begun = time.time()
        first = int(begun // interval)
        looked = -1
        while True:
            epoch = int(time.time() // interval)
            if epoch == looked:
                # The sleep ended a little early, or the clock was set back.
                await asyncio.sleep(interval / 100)
                continue
            looked = epoch
            for due, key in due_times(self._index.owners(), epoch, interval):
                # The look at start covers what was due before it; by the clock of that epoch only,
                # for the clock may be set back.
                if epoch != first or due >= begun:
                    if not await _reached(due, interval):
                        break
                    await self._look([key], str(epoch))
            await _reached((epoch + 1) * interval, interval)

    async def _resync_after_losses(self) -> None:
        async for epoch in self._guard.losses():
            keys = self._index.owners()
            _log.warning(
                "the queue lost events; looking at everything", action="resync", keys=len(keys)
            )
            self._tasks.create_task(self._look(keys, epoch))

    async def _look(self, keys: Iterable[ObjectKey], epoch: str) -> None:
        """Every key that is still known is published once per epoch, not all at once."""
        for key in keys:
            await self._pace.next()
            # A look that overflows would order the next one, for ever.
            await self._publisher.room()
            if self._index.knows(key):
                identity = resync_id(key, epoch)
                self._publisher.offer(key, EventType.RESYNC, identity, RESYNC_RANK)


async def _reached(moment: float, within_seconds: float) -> bool:
    """Return True at a Unix time, False as soon as the clock was set back to long before it."""
    while (left := moment - time.time()) > 0:
        if left > within_seconds:
            return False
        await asyncio.sleep(min(left, within_seconds / 10))
    return True
