"""
What `weir why` finds out of a resource: plain values, to reason about and to print.

Pure. Each half (the API server's, NATS's) is None where it cannot be asked, with the reason beside
it; times are RFC 3339 texts, as their sources wrote them.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bridge.events import ObjectKey
from crds.contract import Contract
from crds.kubernetes import Condition
from handlers.cli.history import Attempt
from handlers.cli.queue import Group
from handlers.dead import DeadLetter
from handlers.handler import Notice
from handlers.lookout import OthersWrite
from handlers.plan import Standing
from handlers.state import FailState

MISSING = "missing"
"""Whose a child is that does not exist; else the value of a `Standing`."""


class Child(Struct, frozen=True, kw_only=True, rename="camel"):
    """A child as it should be or is."""

    kind: str
    name: str
    standing: str
    owner: str = ""
    """Its controller as `Kind/name`; empty where it has none."""
    is_wanted: bool = True
    """False for what is ours and no longer asked for."""
    is_as_rendered: bool | None = None
    """None for what is not rendered, or does not exist."""
    is_being_deleted: bool = False
    created: str = ""
    replicas: int | None = None
    """Pods that it should have; None for what has no pods."""
    ready_replicas: int | None = None
    is_rolling_out: bool = False
    """It still has pods of a former version."""
    trouble: str = ""
    """What its own controller says keeps it from its pods."""
    trouble_since: str = ""

    @property
    def title(self) -> str:
        """How it is called in a sentence."""
        return f"{self.kind} {self.name}"

    @property
    def lacks_pods(self) -> bool:
        """Whether not all of its pods serve in their present version."""
        lacking = (self.ready_replicas or 0) < (self.replicas or 0)
        return self.replicas is not None and (lacking or self.is_rolling_out)


class Pod(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod of a resource."""

    name: str
    workload: str = ""
    """The child whose pod it is, as a sentence has it; empty where none selects it."""
    phase: str = ""
    node: str = ""
    is_ready: bool = False
    is_scheduled: bool | None = None
    """None while the scheduler has said nothing."""
    created: str = ""
    reason: str = ""
    """A reason of a condition of ours; empty where nothing keeps it from running."""
    message: str = ""
    since: str = ""


class Refusal(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a resource cannot be served until it is edited."""

    reason: str
    message: str


class ClusterHalf(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the API server holds."""

    exists: bool = True
    is_kind_served: bool = True
    """False where the CRD is not installed."""
    uid: str = ""
    generation: int = 0
    observed_generation: int | None = None
    created: str = ""
    edited: str = ""
    """When its spec was last written, as far as its managers tell."""
    deleting_since: str = ""
    finalizers: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    refusal: Refusal | None = None
    notices: tuple[Notice, ...] = ()
    """What of the spec is left out, or served otherwise."""
    children: tuple[Child, ...] = ()
    pods: tuple[Pod, ...] = ()
    others_write: OthersWrite | None = None
    """The last write of another operator to it or to one of its children."""
    notes: tuple[str, ...] = ()
    """What could not be read."""

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, None where the status has none."""
        return next((found for found in self.conditions if found.type == type_), None)

    @property
    def is_observed(self) -> bool:
        """Whether the status speaks of the present spec."""
        return self.observed_generation == self.generation


class Slot(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of the queue that is about the resource."""

    slot: str
    """`0` or `1`; `t` for a timer that fired."""
    sequence: int
    published: str
    cause: str = ""
    """Its type, such as `changed`."""
    is_taken: bool = False
    """A handler took it, and has not settled it yet."""
    before: int = 0
    """Messages that handlers take before it."""


class Lease(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who holds the resource."""

    holder: str
    renewed: str
    since: str = ""
    """When its attempt began; empty while that has changed nothing, which leaves no record."""


class QueueHalf(Struct, frozen=True, kw_only=True, rename="camel"):
    """What NATS holds."""

    group: Group
    """The consumer that serves the kind."""
    missing: tuple[str, ...] = ()
    """Streams and consumers that should be there."""
    has_live_handlers: bool | None = None
    """Whether a handler of the kind lived in the last minute; None where nobody can know."""
    slots: tuple[Slot, ...] = ()
    timer_due: str = ""
    """When it is looked at by itself; empty where no timer is armed."""
    lease: Lease | None = None
    state: FailState | None = None
    """Failures that are remembered."""
    letter: DeadLetter | None = None
    others_since: str = ""
    """Since when handlers have seen another operator write; empty where they lately have not."""
    attempts: tuple[Attempt, ...] = ()
    """The newest of them, the oldest first."""

    @property
    def waiting(self) -> tuple[Slot, ...]:
        """What no handler has taken yet."""
        return tuple(slot for slot in self.slots if not slot.is_taken)


class Findings(Struct, frozen=True, kw_only=True):
    """All that is known of one resource at one moment."""

    key: ObjectKey
    contract: Contract
    now: datetime
    cluster: ClusterHalf | None = None
    cluster_error: str = ""
    """Why the API server's half is not known."""
    queue: QueueHalf | None = None
    queue_error: str = ""
    other_operator_seconds: float = 0.0
    """Handlers write nothing while another operator's last write is younger than this."""

    @property
    def place(self) -> str:
        """Where the resource is, as commands take it."""
        return f"{self.key.namespace}/{self.key.name}" if self.key.namespace else self.key.name

    @property
    def target(self) -> str:
        """The resource as commands of Weir take it."""
        return f"{self.key.kind} {self.place}"

    @property
    def present_state(self) -> FailState | None:
        """The failures that are remembered of the present spec."""
        state = self.queue.state if self.queue else None
        if state is None or not self.is_present(state.uid, state.generation):
            return None
        return state

    @property
    def is_owed(self) -> bool:
        """Whether Weir has yet to carry out the present spec, as far as the cluster tells."""
        cluster = self.cluster
        if cluster is None or not cluster.exists or cluster.refusal is not None:
            return False
        return bool(self.missing) or not cluster.is_observed

    @property
    def missing(self) -> tuple[Child, ...]:
        """The children that do not exist, but for those that the API server refused."""
        state = self.present_state
        refused = {tuple(problem.child) for problem in state.refused} if state else set()
        return tuple(
            child
            for child in (self.cluster.children if self.cluster else ())
            if child.standing == MISSING
            and child.is_wanted
            and (child.kind, child.name) not in refused
        )

    def is_present(self, uid: str, generation: int) -> bool:
        """Return whether that is the present state of the spec, as far as anybody knows."""
        cluster = self.cluster
        return cluster is None or (cluster.uid, cluster.generation) == (uid, generation)


class Cause(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that a resource waits for."""

    reason: str
    """One CamelCase word for machines."""
    waits_for: str
    """Goes on where `chat is waiting for: ` ends."""
    since: str = ""
    steps: tuple[str, ...] = ()
    """What to do about it: one line each, a command where there is one."""


def is_idle(group: Group) -> bool:
    """Return whether no handler asks for messages of these kinds, and none works on one."""
    return not group.pulls and not group.leases


def is_behind(child: Child) -> bool:
    """Return whether a child of ours is not as it should be."""
    return child.standing in (Standing.OURS.value, Standing.ORPHAN.value) and (
        child.is_as_rendered is False
    )


def kubectl(found: Findings, verb: str, what: str = "") -> str:
    """Return the command that does this to the resource, or to another object beside it."""
    kind = found.contract.kind
    word = kind.short_names[0] if kind.short_names else kind.queue_name
    words = ("kubectl", verb, what or f"{word} {found.key.name}")
    return " ".join((*words, f"-n {found.key.namespace}") if found.key.namespace else words)
