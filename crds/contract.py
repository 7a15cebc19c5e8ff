"""What a kind's contract file tells the bridge and the handlers, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from crds.kind import Kind
from crds.kubernetes import ObjectMeta

Labels = Mapping[str, str]


class Child(Struct, frozen=True, kw_only=True):
    """A kind of object that a resource owns."""

    kind: Kind
    status_fields: tuple[str, ...] = ()
    """Fields directly under `status` whose change is worth a reconcile: it is a workload then."""
    optional: bool = False
    """True where the API server need not serve the kind (a CRD of somebody else)."""


class Reference(Struct, frozen=True, kw_only=True):
    """An object that resources depend on without owning it."""

    kind: Kind
    touches: Callable[[ObjectMeta, ObjectMeta], bool]
    """`touches(changed, resource)`: does a change of the first concern the second? Pure."""


class Contract(Struct, frozen=True, kw_only=True):
    """One kind of ours: its type, what it owns, what it refers to, which consumer serves it."""

    kind: Kind
    resource: type[Any]
    """The msgspec type of the whole resource: `metadata`, `spec`, `status`."""
    owns: tuple[Child, ...]
    identity: tuple[str, str]
    """A label and its value that every child carries: what the bridge selects children by."""
    owner_name: Callable[[Labels], str | None]
    """The owner's name that a child's identity labels give, None when they give none. Pure."""
    refers: tuple[Reference, ...] = ()
    consumer: str = "kubernetes"
    """Group of kinds that share a queue consumer: those that need the same backends."""

    @property
    def workloads(self) -> frozenset[Kind]:
        """The kinds of children that a resource's status is made of; others need only be there."""
        return frozenset(child.kind for child in self.owns if child.status_fields)
