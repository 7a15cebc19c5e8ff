"""
Every mutating call of a reconcile, behind its lease.

A call starts only with more lease left than it may take, and asks the server to bound it too;
updates and deletes carry the uid and resourceVersion that were read. So a handler that was paused
beyond its lease changes nothing when it wakes.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from bridge.kube import Kube
from bridge.kube_errors import Refused, Throttled, Unavailable
from bridge.telemetry import span
from crds.kind import Kind
from crds.kubernetes import EVENT, Manifest
from handlers.errors import GiveBack, LeaseLost, is_slow
from handlers.foretell import after_apply, as_patch, overlaid
from handlers.plan import APPLIED, annotation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bridge.settings import Settings

T = TypeVar("T")
FENCE = "weir.dev/fence"
"""
Label: changed where the last holder of the resource died, and for nothing else.

Not an annotation: one raises the generation of a Deployment (source: apps/v1 strategy), and Ready
would wait for its controller.
"""
THROTTLED_RETRIES = 3
THROTTLED_WAIT_SECONDS_MAX = 2.0
"""A longer Retry-After gives the message back instead of holding its slot."""


class Hold(Protocol):
    """What a reconcile has its object by: a lease."""

    @property
    def seconds_left(self) -> float:
        """How long it still lasts."""

    @property
    def predecessor_died(self) -> bool:
        """Whether the last holder never let go."""


class Writes(Protocol):
    """What a reconcile may ask for: carried out (Writer), or only tried (handlers/dry_run.py)."""

    @property
    def written(self) -> list[str]:
        """`verb kind/name` of what was done, in order."""

    @property
    def was_slow(self) -> bool:
        """Whether the server was too slow for a call, or asked for fewer."""

    @property
    def is_fencing(self) -> bool:
        """Whether a write of the last holder may still be on its way: it never let go."""

    @property
    def has_started(self) -> bool:
        """Whether a mutating call was about to be made."""

    async def create(self, kind: Kind, namespace: str, manifest: Manifest) -> Manifest:
        """Create an object and return it as the server holds it."""

    async def apply(self, kind: Kind, live: Manifest, manifest: Manifest) -> Manifest:
        """Apply a rendering to that state of that object, and to no other."""

    async def take_fields(
        self, kind: Kind, live: Manifest, entries: list[dict[str, Any]], *, forgets: bool = False
    ) -> Manifest:
        """
        Replace `managedFields` of that state of an object; nothing else changes.

        Where it `forgets`, the object no longer says what was applied to it last.
        """

    async def tried(
        self, kind: Kind, live: Manifest, manifest: Manifest, entries: list[dict[str, Any]]
    ) -> Manifest:
        """Return what that object would be, owned like that and the rendering applied."""

    async def fence(self, kind: Kind, live: Manifest) -> Manifest:
        """Give an object that needs no change another resourceVersion."""

    async def delete(self, kind: Kind, live: Manifest) -> None:
        """Delete that state of that object."""

    async def put_status(self, kind: Kind, resource: Manifest, status: Manifest) -> Manifest:
        """Replace the status of that state of a resource of ours."""

    async def post_event(self, namespace: str, manifest: Manifest) -> None:
        """Create a Kubernetes Event."""


class Writer:
    """The writes of one reconcile, recorded in order."""

    def __init__(
        self,
        kube: Kube,
        lease: Hold,
        settings: Settings,
        *,
        on_first: Callable[[], Awaitable[None]],
        is_cut: Callable[[], bool],
    ) -> None:
        """Take the lease that fences them; `on_first` runs before the first call."""
        self._kube = kube
        self._lease = lease
        self._seconds = settings.write_timeout_seconds
        self._on_first = on_first
        self._is_cut = is_cut
        self._has_started = False
        self._token = uuid.uuid4().hex[:16]
        self.written: list[str] = []
        self.was_slow = False
        """Whether the server was too slow for a call, or asked for fewer."""

    async def create(self, kind: Kind, namespace: str, manifest: Manifest) -> Manifest:
        """Create an object and return it as the server holds it."""
        name = manifest["metadata"]["name"]

        async def call() -> bytes:
            return await self._kube.create(kind, namespace, manifest, timeout_seconds=self._seconds)

        return _decoded(await self._do(f"create {kind.kind}/{name}", call))

    async def apply(self, kind: Kind, live: Manifest, manifest: Manifest) -> Manifest:
        """Apply a rendering to that state of that object, and to no other."""
        return await self._do(
            f"apply {kind.kind}/{live['metadata']['name']}",
            lambda: self._applied(kind, live, manifest),
        )

    async def take_fields(
        self, kind: Kind, live: Manifest, entries: list[dict[str, Any]], *, forgets: bool = False
    ) -> Manifest:
        """
        Replace `managedFields` of that state of an object; nothing else changes.

        Where it `forgets`, the object no longer says what was applied to it last.
        """
        operations: list[dict[str, Any]] = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries}
        ]
        if forgets and annotation(live, APPLIED):
            path = "/metadata/annotations/" + APPLIED.replace("/", "~1")
            operations.append({"op": "remove", "path": path})
        return await self.patch("own", kind, live, operations)

    async def tried(
        self, kind: Kind, live: Manifest, manifest: Manifest, entries: list[dict[str, Any]]
    ) -> Manifest:
        """
        Return what that object would be, owned like that and the rendering applied.

        Nothing is written. The server defaults and admits it; what an apply would then drop of what
        was another's is told by us, since nobody can be asked about a second step.
        """
        try:
            applied = await self._applied(kind, live, manifest, is_dry=True)
        except Refused as exc:
            if exc.reason != "Invalid":
                raise
            # What excludes our rendering may be what goes with the fields that were taken.
            wanted = overlaid(live, manifest, entries)
            return await self._patched(kind, live, as_patch(live, wanted, entries), is_dry=True)
        wanted = after_apply(applied, manifest, entries)
        after = await self._patched(kind, live, as_patch(live, wanted, entries), is_dry=True)
        # A patch owns nothing of what the server leaves out as empty; an apply does.
        owned = applied["metadata"]["managedFields"]
        return {**after, "metadata": {**after["metadata"], "managedFields": owned}}

    async def fence(self, kind: Kind, live: Manifest) -> Manifest:
        """
        Give an object that needs no change another resourceVersion.

        A write of the last holder that is still on its way names the one before, and fails.
        """
        path = "/metadata/labels/" + FENCE.replace("/", "~1")
        operations = [{"op": "add", "path": path, "value": self._token}]
        return await self.patch("fence", kind, live, operations)

    async def delete(self, kind: Kind, live: Manifest) -> None:
        """Delete that state of that object."""
        read = live["metadata"]

        async def call() -> bytes:
            await self._kube.delete(
                kind,
                read.get("namespace"),
                read["name"],
                uid=read["uid"],
                resource_version=read["resourceVersion"],
                timeout_seconds=self._seconds,
            )
            return b"{}"

        await self._do(f"delete {kind.kind}/{read['name']}", call)

    async def put_status(self, kind: Kind, resource: Manifest, status: Manifest) -> Manifest:
        """Replace the status of that state of a resource of ours."""
        read = resource["metadata"]
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": read["name"],
                "namespace": read.get("namespace"),
                "uid": read["uid"],
                "resourceVersion": read["resourceVersion"],
            },
            "status": status,
        }

        async def call() -> bytes:
            return await self._kube.put_status(
                kind, read.get("namespace"), read["name"], body, timeout_seconds=self._seconds
            )

        return _decoded(await self._do(f"status {kind.kind}/{read['name']}", call))

    async def post_event(self, namespace: str, manifest: Manifest) -> None:
        """Create a Kubernetes Event."""

        async def call() -> bytes:
            return await self._kube.create(
                EVENT, namespace, manifest, timeout_seconds=self._seconds
            )

        await self._do(f"event {manifest['reason']}", call)

    async def patch(
        self, verb: str, kind: Kind, live: Manifest, operations: list[dict[str, Any]]
    ) -> Manifest:
        """Patch that state of that object, and no other."""
        return await self._do(
            f"{verb} {kind.kind}/{live['metadata']['name']}",
            lambda: self._patched(kind, live, operations),
        )

    async def _applied(
        self, kind: Kind, live: Manifest, manifest: Manifest, *, is_dry: bool = False
    ) -> Manifest:
        read = live["metadata"]
        fenced = {
            **manifest,
            "metadata": {
                **manifest["metadata"],
                "uid": read["uid"],
                "resourceVersion": read["resourceVersion"],
            },
        }
        return _decoded(
            await self._kube.apply(
                kind,
                read.get("namespace"),
                read["name"],
                fenced,
                timeout_seconds=self._seconds,
                is_dry=is_dry,
            )
        )

    async def _patched(
        self,
        kind: Kind,
        live: Manifest,
        operations: list[dict[str, Any]],
        *,
        is_dry: bool = False,
    ) -> Manifest:
        read = live["metadata"]
        # Written, not tested: a version that moved on, or is another object's, is a 409 then, like
        # everywhere else; a test that fails is a 422.
        version = {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": read["resourceVersion"],
        }
        return _decoded(
            await self._kube.patch_json(
                kind,
                read.get("namespace"),
                read["name"],
                [*operations, version],
                timeout_seconds=self._seconds,
                is_dry=is_dry,
            )
        )

    async def _do(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Carry out one call in a span of its own, and record it."""
        with span(what.partition("/")[0], target=what):
            try:
                answer = await self._patiently(call)
            except (Throttled, Unavailable) as exc:
                self.was_slow = self.was_slow or is_slow(exc)
                raise
        self.written.append(what)
        return answer

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Wait out a short Retry-After, as the API conventions ask."""
        for _ in range(THROTTLED_RETRIES):
            await self._gate()
            try:
                return await call()
            except Throttled as exc:
                wait = exc.retry_after_seconds or 1.0
                if wait > THROTTLED_WAIT_SECONDS_MAX:
                    raise
                await asyncio.sleep(wait)
        await self._gate()
        return await call()

    async def _gate(self) -> None:
        if self._is_cut():
            raise GiveBack("the handler stops", 0.0)
        if self._lease.seconds_left <= self._seconds:
            raise LeaseLost(f"{self._lease.seconds_left:.1f} s of lease left")
        if not self._has_started:
            self._has_started = True
            await self._on_first()

    @property
    def is_dry(self) -> bool:
        """Whether the API server is asked to store nothing."""
        return self._kube.is_dry

    @property
    def is_fencing(self) -> bool:
        """Whether a write of the last holder may still be on its way: it never let go."""
        return self._lease.predecessor_died

    @property
    def has_started(self) -> bool:
        """Whether a mutating call was about to be made."""
        return self._has_started


def _decoded(data: bytes) -> Manifest:
    manifest: Manifest = msgspec.json.decode(data)
    return manifest
