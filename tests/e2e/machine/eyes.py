"""What a sequence's namespace holds, what waits in the queue, and what was asked of whom."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import nats
import nats.errors
from nats.js.errors import NotFoundError

from bridge import streams
from bridge.events import ChangeEvent, EventType, ObjectKey, resync_id
from bridge.nats_connection import connect_nats
from bridge.publish import put
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT, KIND
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers.plan import rendering_hash
from tests.e2e.crowd import Crowd
from tests.e2e.machine.model import Snapshot
from tests.e2e.machine.squats import squat_of
from tests.e2e.population import queue_depth
from tests.e2e.stage import controller_of
from tests.stack.eventually import eventually
from tests.witness.audit import AuditEvent, AuditLog

KINDS: dict[str, Kind] = {child.kind.kind: child.kind for child in CONTRACT.owns}
OPTIONAL: frozenset[str] = frozenset(c.kind.kind for c in CONTRACT.owns if c.optional)
_REFUSALS = (400, 403, 422)


class Eyes:
    """Sees one namespace, as an administrator."""

    def __init__(
        self,
        crowd: Crowd,
        mirror: str,
        nats_url: str,
        audit: AuditLog,
        absent: AbstractSet[str],
    ) -> None:
        """
        Take an empty namespace, too, in which creations may be tried.

        And the kinds that are not served, whenever somebody looks.
        """
        self.crowd = crowd
        self.audit = audit
        self._mirror = mirror
        self._nats_url = nats_url
        self._absent = absent
        self._served: dict[str, Manifest | None] = {}

    async def snapshot(self) -> Snapshot:
        """Return all that is there."""
        kinds = [kind for name, kind in KINDS.items() if name not in self._absent]
        resources, *found = await asyncio.gather(*map(self.crowd.items, (KIND, *kinds)))
        objects = {
            f"{kind.kind}/{name}": {**item, "kind": kind.kind}
            for kind, items in zip(kinds, found, strict=True)
            for name, item in items.items()
        }
        return Snapshot(resources=resources, objects=objects)

    async def collect_garbage(self, now: Snapshot) -> None:
        """
        Objects of optional kinds go whose resource is gone.

        The garbage collector deletes them, too; but of a kind that is new it learns after 30 s.
        """
        living = {resource["metadata"]["uid"] for resource in now.resources.values()}
        for ref, found in now.objects.items():
            owner = controller_of(found)
            is_ours = owner.get("kind") == KIND.kind and ref.partition("/")[0] in OPTIONAL
            if is_ours and owner["uid"] not in living:
                kind, _, name = ref.partition("/")
                uid = {"preconditions": {"uid": found["metadata"]["uid"]}}
                path = KINDS[kind].path(self.crowd.namespace, name)
                await self.crowd.request("DELETE", path, uid, accept=(404, 409))

    async def are_collected(self, kinds: Iterable[str]) -> None:
        """Return once the garbage collector knows these kinds: what is owned by nobody goes."""
        await asyncio.gather(*map(self._is_collected, kinds))

    async def _is_collected(self, kind: str) -> None:
        name = f"stray-{uuid.uuid4().hex[:8]}"
        stray = squat_of(f"{kind}/{name}", KINDS[kind].api_version)
        nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}
        stray["metadata"]["ownerReferences"] = [{**nobody, "uid": str(uuid.uuid4())}]
        await self.crowd.request("POST", KINDS[kind].path(self._mirror), stray)

        async def is_gone() -> bool:
            path = KINDS[kind].path(self._mirror, name)
            found = await self.crowd.request("GET", path, accept=(404,))
            return bool(found["kind"] == "Status")

        await eventually(is_gone, within_seconds=90, every_seconds=0.5)

    async def learn(self, renderings: Iterable[Manifest]) -> None:
        """It is known what the API server makes of these children."""
        new = {rendering_hash(child): child for child in renderings}
        await asyncio.gather(
            *(self._try(key, child) for key, child in new.items() if key not in self._served)
        )

    def served(self, rendering: Manifest) -> Manifest | None:
        """Return what the API server makes of a child; None where it refuses to create it."""
        return self._served[rendering_hash(rendering)]

    async def _try(self, key: str, child: Manifest) -> None:
        body = {**child, "metadata": {**child["metadata"], "namespace": self._mirror}}
        path = f"{KINDS[child['kind']].path(self._mirror)}?dryRun=All"
        answer = await self.crowd.request("POST", path, body, accept=_REFUSALS)
        self._served[key] = None if answer["kind"] == "Status" else answer

    async def queue_is_idle(self) -> None:
        """Fail while something waits or is in hand, or a stream is not there."""
        try:
            depth = await queue_depth(self._nats_url)
            async with await nats.connect(self._nats_url) as client:
                there = {info.config.name for info in await client.jetstream().streams_info()}
        except (NotFoundError, nats.errors.Error) as exc:
            raise AssertionError(f"there is no queue: {exc!r}") from exc
        assert (depth.pending, depth.in_flight) == (0, 0), depth
        needed = {streams.QUEUE, streams.LOCK, streams.STATE, streams.DEAD, streams.HISTORY}
        assert there >= needed, f"not made again: {needed - there}"

    async def dead_letters(self) -> int:
        """Return how many resources were given up."""
        async with await nats.connect(self._nats_url) as client:
            return (await client.jetstream().stream_info(streams.DEAD)).state.messages

    async def look_at(self, names: Iterable[str]) -> None:
        """Have handlers look at resources; return when they have, and have nothing in hand."""
        offset = self.audit.offset()
        epoch = f"look-{uuid.uuid4().hex}"
        keys = [ObjectKey(KIND.queue_name, self.crowd.namespace, name) for name in names]
        async with connect_nats(Settings(nats_url=self._nats_url), "cli") as bus:
            for key in keys:
                event = ChangeEvent(key=key, type=EventType.RESYNC, id=resync_id(key, epoch))
                await put(bus, event)
        wanted = {key.name for key in keys}

        async def were_looked_at() -> bool:
            read = {
                event.object_ref.name
                for event in self.audit.events(from_offset=offset)
                if event.verb == "get"
                and is_of_handlers(event, self.crowd.namespace)
                and event.object_ref.resource == KIND.plural
            }
            assert read >= wanted, f"not looked at: {wanted - read}"
            await self.queue_is_idle()
            return True

        await eventually(were_looked_at, within_seconds=60)


def is_of_handlers(event: AuditEvent, namespace: str) -> bool:
    """Whether handlers asked for something of a namespace."""
    is_ours = event.user_agent.startswith("weir-handlers")
    return is_ours and event.object_ref.namespace == namespace


def is_about(event: AuditEvent, kind: Kind, name: str) -> bool:
    """Whether a request is about that object."""
    return (event.object_ref.resource, event.object_ref.name) == (kind.plural, name)
