"""
Every mutating call of a reconcile, only tried: what would be written is remembered, nothing is.

The API server admits, defaults and validates each call (`dryRun=All`) and answers with the object
as it would be. Since nothing is stored, what builds on an earlier call of the same dry run is told
here: see `DryRun`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers import plan
from handlers.difference import FieldChange, field_changes, pods_that_restart, restarts
from handlers.handler import ChildName, Noted

if TYPE_CHECKING:
    from handlers.writes import Writer

OBJECTS_MAX = 100
FIELDS_MAX = 20
PATH_LENGTH_MAX = 200
"""So much of a dry run is kept in history: a record has to fit a message."""


class Foretold(Struct, frozen=True, kw_only=True):
    """What would become of one object."""

    name: ChildName
    verb: Literal["create", "apply", "replace", "delete"]
    before: Manifest | None
    after: Manifest | None
    """As the API server would hold it."""

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """In which fields an object that stays would differ."""
        if self.before is None or self.after is None:
            return ()
        return field_changes(self.before, self.after)

    @property
    def restarts(self) -> bool:
        """Whether the pods of a workload that stays would be replaced."""
        return restarts(self.before, self.after)

    @property
    def pods(self) -> int:
        """How many pods would be replaced, or end with their workload."""
        return pods_that_restart(self.before, self.after)


class DryRun:
    """
    The writes of one reconcile, foretold in order.

    An object that this dry run created is created again where it would be applied; one whose fields
    it took over is applied to as if they were ours; one that it deleted is not asked about again.
    """

    def __init__(self, writer: Writer) -> None:
        """Take a writer whose API server is asked to store nothing."""
        if not writer.is_dry:
            raise ValueError("a dry run needs a client that asks for dry runs")
        self._writer = writer
        self._found: dict[ChildName, Foretold] = {}
        self._taken: dict[tuple[ChildName, Any], list[dict[str, Any]]] = {}
        """By child and its state: whose its fields are to be."""
        self._status: list[str] = []

    @property
    def foretold(self) -> tuple[Foretold, ...]:
        """What would become of the children, in order."""
        return tuple(self._found.values())

    @property
    def written(self) -> list[str]:
        """`verb kind/name` of what would be written, in order."""
        children = [f"{one.verb} {one.name.kind}/{one.name.name}" for one in self._found.values()]
        return [*children, *self._status]

    @property
    def was_slow(self) -> bool:
        """Whether the server was too slow for a call, or asked for fewer."""
        return self._writer.was_slow

    @property
    def is_fencing(self) -> bool:
        """Never: there is no write that a late one could spoil."""
        return False

    @property
    def has_started(self) -> bool:
        """Whether something would be written, or was refused."""
        return self._writer.has_started or bool(self._found or self._status)

    async def create(self, kind: Kind, namespace: str, manifest: Manifest) -> Manifest:
        """Return an object as it would be created."""
        name = plan.child_name(manifest)
        before = self._found.get(name)
        is_replaced = before is not None and before.verb in ("delete", "replace")
        # It exists still, or refers to what does not yet exist: the server would refuse either.
        is_asked = not (is_replaced or self._refers_to_created(manifest))
        after = await self._writer.create(kind, namespace, manifest) if is_asked else manifest
        if before is not None and is_replaced:
            self._found[name] = Foretold(
                name=name, verb="replace", before=before.before, after=manifest
            )
        else:
            self._found[name] = Foretold(name=name, verb="create", before=None, after=after)
        return after

    async def apply(self, kind: Kind, live: Manifest, manifest: Manifest) -> Manifest:
        """Return that object as it would be after the rendering was applied to that state of it."""
        name = plan.child_name(live)
        before = self._found.get(name)
        if before is not None and not _version(live):
            return await self.create(kind, str(live["metadata"]["namespace"]), manifest)
        entries = self._taken.get((name, _version(live)))
        if entries is None:
            after = await self._writer.apply(kind, live, manifest)
        else:
            after = await self._writer.tried(kind, live, manifest, entries)
        is_same = before is not None and _version(before.before) == _version(live)
        base = before.before if before is not None and is_same else live
        self._found[name] = Foretold(name=name, verb="apply", before=base, after=after)
        return after

    async def take_fields(
        self, kind: Kind, live: Manifest, entries: list[dict[str, Any]], *, forgets: bool = False
    ) -> Manifest:
        """Return that object with its fields owned like that, as the next apply is to see it."""
        del kind, forgets
        self._taken[plan.child_name(live), _version(live)] = entries
        return {**live, "metadata": {**live["metadata"], "managedFields": entries}}

    async def tried(
        self, kind: Kind, live: Manifest, manifest: Manifest, entries: list[dict[str, Any]]
    ) -> Manifest:
        """Return what that object would be; it is not foretold."""
        return await self._writer.tried(kind, live, manifest, entries)

    async def fence(self, kind: Kind, live: Manifest) -> Manifest:
        """Return the object as it is."""
        del kind
        return live

    async def delete(self, kind: Kind, live: Manifest) -> None:
        """Note that the object would go."""
        await self._writer.delete(kind, live)
        name = plan.child_name(live)
        self._found[name] = Foretold(name=name, verb="delete", before=live, after=None)

    async def put_status(self, kind: Kind, resource: Manifest, status: Manifest) -> Manifest:
        """Return the resource with that status; nobody is asked."""
        self._status = [f"status {kind.kind}/{resource['metadata']['name']}"]
        return {**resource, "status": status}

    async def post_event(self, namespace: str, manifest: Manifest) -> None:
        """Post nothing."""

    def noted(self) -> tuple[Noted, ...]:
        """Return what history keeps."""
        return tuple(
            Noted(
                child=f"{one.name.kind}/{one.name.name}",
                verb=one.verb,
                fields=tuple(field.path[:PATH_LENGTH_MAX] for field in one.fields[:FIELDS_MAX]),
                restarts=one.restarts,
                pods=one.pods,
            )
            for one in self.foretold[:OBJECTS_MAX]
        )

    def _refers_to_created(self, manifest: Manifest) -> bool:
        """Return whether a binding's role would be created by this very dry run."""
        role = manifest.get("roleRef") or {}
        known = self._found.get(ChildName(str(role.get("kind")), str(role.get("name"))))
        return known is not None and known.verb == "create"


def _version(manifest: Manifest | None) -> Any:
    return ((manifest or {}).get("metadata") or {}).get("resourceVersion")
