"""What the reconciler must know of a kind: its contract and a few pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from crds.contract import Contract
from crds.kubernetes import Manifest

R = TypeVar("R")


class ChildName(NamedTuple):
    """A child among its resource's children: kind as in manifests, and name."""

    kind: str
    name: str


class TerminalError(Exception):
    """Nothing but an edit of the resource can help."""

    def __init__(self, reason: str, message: str) -> None:
        """Take a CamelCase reason, and what is wrong, where, and the remedy."""
        super().__init__(message)
        self.reason = reason
        self.message = message


class Facts(Struct, frozen=True, kw_only=True):
    """What a rendering depends on besides the resource."""

    nats_default: str = "managed"
    nats_engine_url: str = ""
    is_birth: bool = False
    """The resource was never reconciled, and no workload of it is known."""
    existing: Mapping[ChildName, Manifest] = {}
    """Of the children that the rendering depends on, those that the resource has, as they are."""


class Notice(Struct, frozen=True, kw_only=True):
    """Something that the status must say although the resource is served."""

    reason: str
    message: str
    degraded: bool = True
    """False for what is worth knowing but takes nothing from the user."""


class Rendering(Struct, frozen=True, kw_only=True):
    """The children that a resource asks for, in the order of their creation."""

    children: tuple[Manifest, ...]
    notices: tuple[Notice, ...] = ()
    keep: tuple[ChildName, ...] = ()
    """Children that are not rendered and yet not stale: prune leaves them as they are."""
    spared: Mapping[ChildName, str] = {}
    """
    Workloads whose pods do not restart over our taking over what another operator made.

    With the image that the resource itself names for them, empty where it names none: the template
    that was found stays until that is an image which it does not run.
    """
    added: Mapping[ChildName, tuple[str, ...]] = {}
    """
    What nobody asked for of the pods of which workloads: the kind adds it by itself.

    Dotted paths in the pod template. Another version of an operator may add other things, so what
    differs in nothing else is no edit that was not carried out yet.
    """
    succeeds: Mapping[ChildName, ChildName] = {}
    """
    Workloads of another kind that rendered ones replace: the former one to its successor.

    Prune lets the former one go once the successor serves, or cannot for want of its place.
    """
    underlying: tuple[ChildName, ...] = ()
    """
    Children that pods of the workloads run on, rendered or not: a broker, what pods may do.

    One that is not rendered stays until the workloads serve as asked, and the pods of before ended.
    """


class Problem(Struct, frozen=True, kw_only=True):
    """What keeps one child from being as rendered."""

    child: ChildName
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.child.kind} {self.child.name}: {self.message}"


class Short(Struct, frozen=True, kw_only=True):
    """A workload whose successor has fewer pods than it should, and for how long."""

    workload: ChildName
    since: float
    """Unix time of the first of the looks in a row that found that."""


class Noted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What history keeps of it: which fields, and not what is in them.

    A value (of `env`, of `args`) may be a secret; `weir render --diff` shows it to who may read it.
    """

    child: str
    verb: str
    fields: tuple[str, ...] = ()
    restarts: bool = False
    pods: int = 0


class Observation(Struct, frozen=True, kw_only=True):
    """What is true of the children after they were applied."""

    children: Mapping[ChildName, Manifest | None]
    """Every rendered child as the API server holds it; None where it does not exist."""
    notices: tuple[Notice, ...] = ()
    problems: tuple[Problem, ...] = ()
    pods: tuple[Manifest, ...] | None = None
    """The resource's pods, where they were read (only while it is not ready)."""
    now: str
    """RFC 3339, to the second."""


def on_nothing(resource: object, facts: Facts) -> tuple[ChildName, ...]:
    """Return no children: a rendering depends on the resource alone."""
    del resource, facts
    return ()


class Handler(Struct, Generic[R], frozen=True, kw_only=True):
    """The behaviour of one kind. All functions are pure."""

    contract: Contract
    renderer: int
    """Version of the rendering; a bump may restart pods and stands in the changelog."""
    render: Callable[[R, Facts], Rendering]
    """`render(resource, facts)`; raises TerminalError where only an edit helps."""
    depends_on: Callable[[R, Facts], tuple[ChildName, ...]] = on_nothing
    """Children that the rendering depends on (`facts.existing`); mostly none."""
    status: Callable[[R, Observation], Manifest]
    """The whole `status` that the resource should have now; conditions included."""
    refused: Callable[[Manifest, TerminalError, str], Manifest]
    """`refused(raw resource, error, now)`: the whole `status` of what cannot be served."""
    recorded: Callable[[R], tuple[ChildName, ...]]
    """Children that the last status and the fixed names give: where prune looks besides hints."""
    pod_selector: Callable[[R], str]
    """Label selector of the resource's pods."""
    serves: Callable[[R, ChildName, Manifest], bool]
    """`serves(resource, child, live)`: does that workload do what is asked of it, as it is now?"""
    pods_of: Callable[[R, ChildName], str]
    """Label selector of the pods of one workload, and of no other kind's workload of its name."""
    workload_of: Callable[[R, Manifest], ChildName | None]
    """`workload_of(resource, pod)`: the workload that a pod is of, by its labels; or None."""
    pods_due: Callable[[Manifest], int]
    """`pods_due(live)`: the pods that a workload's controller, having seen it, makes at once."""


AnyHandler = Handler[Any]
