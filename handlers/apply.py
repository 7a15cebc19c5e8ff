"""
Make one child as it is rendered: create it, or apply to the state that was read, or leave it.

What concerns one child only (a refusal, a foreign object in its place) comes back as a Problem, and
its siblings go on; what concerns the backend is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from bridge.kube import Kube
from bridge.kube_errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    Refused,
    Unavailable,
)
from bridge.telemetry import logger
from crds.contract import Contract
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers import kept, plan, silent
from handlers.errors import (
    CONFLICT_RETRY_SECONDS,
    DependencyDown,
    GiveBack,
    OtherOperator,
    is_of_one_object,
    settled_as,
)
from handlers.fields import (
    Dropped,
    dotted,
    merged,
    missing,
    not_declared,
    taken_back,
    without,
)
from handlers.handler import ChildName, Problem
from handlers.lookout import Lookout, other_operators, was_served_by_another
from handlers.plan import Standing
from handlers.reads import IN_PARALLEL, Reads
from handlers.take_over import UNKNOWN_FIELDS_MAX, Asks, taken_over, with_fields_taken

if TYPE_CHECKING:
    from handlers.writes import Writes

CONFLICT_RETRIES = 4
IMMUTABLE = ("field is immutable", "updates to statefulset spec for fields other than")
"""Words of the API server's validation for what only a new object can hold."""
NAMESPACE_GONE = "namespaces "
"""How the API server begins to say that a namespace does not exist."""
log = logger(__name__)


class Child(Struct, frozen=True, kw_only=True):
    """How one child stands after it was looked after."""

    name: ChildName
    live: Manifest | None
    """As it was read or written; as it is rendered where a glance did not read it."""
    problem: Problem | None = None
    ignored: tuple[str, ...] = ()
    """Paths that the API server does not know and dropped."""
    unchangeable: tuple[str, ...] = ()
    """Fields of its spec that stay as they are: only a new object could hold what is rendered."""
    waits: bool = False
    """Its pods are to be replaced, and others' are this minute."""


class Making(Struct, frozen=True, kw_only=True):
    """What the children of one reconcile are made with."""

    kube: Kube
    writer: Writes
    owner: Manifest
    contract: Contract
    renderer: int
    newest_renderer: Callable[[], Awaitable[int]]
    """The highest version that a live handler renders the kind with, read now."""
    yield_seconds: float
    held: Mapping[ChildName, Problem]
    """Children that were refused a moment ago: not tried again in this reconcile."""
    may_roll_out: Callable[[], Awaitable[bool]]
    """Whether pods may be replaced now that nobody asked to be; each True uses up a part."""
    lookout: Lookout
    """Sees every object that is read before it is written."""
    reads: Reads
    """Of the children, some of them under way since before the resource was read."""
    spared: Mapping[ChildName, str]
    """Children whose pods do not restart over a take-over (Rendering.spared)."""
    added: Mapping[ChildName, tuple[str, ...]] = {}
    """What nobody asked for of which pods (Rendering.added)."""
    is_birth: bool
    """The resource was never reconciled: create first, look only when something is there."""

    @property
    def namespace(self) -> str:
        """Where the children live."""
        return str(self.owner["metadata"]["namespace"])

    def kind(self, name: str) -> Kind:
        """Return a child's kind by its name in manifests."""
        return next(child.kind for child in self.contract.owns if child.kind.kind == name)

    def fitted(self, manifest: Manifest, live: Manifest) -> Manifest:
        """Return a rendering as that child is to hold it: with what it keeps in place of ours."""
        return kept.fitted(manifest, live, self.spared.get(plan.child_name(manifest)))

    async def read_all(self, names: Sequence[ChildName]) -> dict[ChildName, Manifest | None]:
        """Return children as the quorum held them since this look began, None where none is."""
        self.reads.begin(names)
        done = await asyncio.gather(*map(self.reads.take, names), return_exceptions=True)
        failures = [result for result in done if isinstance(result, BaseException)]
        if failures:
            raise min(failures, key=severity)
        lives = (result for result in done if not isinstance(result, BaseException))
        return dict(zip(names, lives, strict=True))


async def make_all(making: Making, manifests: tuple[Manifest, ...]) -> list[Child]:
    """
    Return every child as it stands now, those that others refer to before those that refer.

    A backend's failure is raised after all siblings had their turn.
    """
    children: list[Child] = []
    failures: list[BaseException] = []
    limit = asyncio.Semaphore(IN_PARALLEL)

    async def one(manifest: Manifest) -> Child:
        async with limit:
            # A sibling may have met another operator's work by now.
            making.lookout.require_silence()
            return await make(making, manifest, lives.get(plan.child_name(manifest)))

    lives: dict[ChildName, Manifest | None] = {}
    if not making.is_birth:
        # All are read before one is written: a newer renderer's work is left alone as a whole, and
        # so is what another operator still writes.
        lives = await making.read_all([plan.child_name(manifest) for manifest in manifests])
        await yield_to_others(making, lives.values())
    for wave in (False, True):
        chosen = [manifest for manifest in manifests if _refers(manifest) is wave]
        for result in await asyncio.gather(*map(one, chosen), return_exceptions=True):
            if isinstance(result, BaseException):
                failures.append(result)
            else:
                children.append(result)
    if failures:
        raise min(failures, key=severity)
    return children


async def make(making: Making, manifest: Manifest, live: Manifest | None) -> Child:
    """Return the child, made as rendered unless a Problem keeps it from that."""
    name = plan.child_name(manifest)
    if _is_held(making, name, manifest, live):
        return Child(name=name, live=live, problem=making.held[name])
    for _ in range(CONFLICT_RETRIES):
        try:
            if live is None:
                return await _create(making, name, manifest)
            return await _update(making, name, manifest, live)
        except (AlreadyExists, Conflict, NotFound) as exc:
            if isinstance(exc, NotFound) and live is None:
                return _nowhere(making, name, exc)
            live = await making.reads.take(name)
            await yield_to_others(making, [live])
        except Refused as exc:
            return _refused(name, live, exc)
        except Unavailable as exc:
            if not is_of_one_object(exc):
                raise
            return _refused(name, live, exc)
    raise GiveBack(f"{name.kind}/{name.name} keeps changing", CONFLICT_RETRY_SECONDS, grows=True)


async def yield_to_others(making: Making, lives: Collection[Manifest | None]) -> None:
    """
    Raise OtherOperator where another operator still writes one of these.

    Raise GiveBack where a newer renderer wrote them and a handler of its version lives. Without
    that, two operators during a take-over, or two versions during a rolling upgrade, would write
    over each other.
    """
    making.lookout.require_silence(*lives, owner=making.owner)
    wrote = max((plan.renderer_of(live) for live in lives if live is not None), default=0)
    if wrote > making.renderer and await making.newest_renderer() > making.renderer:
        why = f"renderer {wrote} wrote the children, this handler has {making.renderer}"
        raise GiveBack(why, making.yield_seconds)


def _is_held(making: Making, name: ChildName, manifest: Manifest, live: Manifest | None) -> bool:
    """Return whether a child was refused and nothing has changed that could help."""
    if name not in making.held:
        return False
    if live is None:
        return making.held[name].reason != "ImmutableField"
    return not plan.matches(making.fitted(manifest, live), live)


async def _create(making: Making, name: ChildName, manifest: Manifest) -> Child:
    if not making.reads.is_served(name.kind):
        # To ask all the same would be a write at rest, for as long as the CRD is not installed.
        return _not_installed(making, name)
    kind = making.kind(name.kind)
    sent = plan.marked(manifest, making.renderer)
    live = await making.writer.create(kind, making.namespace, sent)
    dropped = missing(manifest, live)
    if not dropped:
        return Child(name=name, live=live)
    # The server took the object and dropped what it does not know, or leaves out what is empty.
    # The child has to remember that, or the next look would find those paths not covered, and
    # apply for ever. Its fields need no merging: what is applied drops none of them.
    return await _apply(making, name, manifest, live, dropped)


async def _update(making: Making, name: ChildName, manifest: Manifest, live: Manifest) -> Child:
    if plan.is_being_deleted(live):
        return _problem(name, None, "WaitingForDeletion", "the old object is still being deleted")
    match plan.standing(live, making.owner, making.contract):
        case Standing.FOREIGN:
            return _problem(
                name,
                None,
                "ForeignObject",
                "an object of this name exists and is not ours; delete or rename it",
            )
        case Standing.PREDECESSOR:
            return _problem(
                name,
                None,
                "WaitingForDeletion",
                "the object of the deleted resource of this name is still there",
            )
        case Standing.OURS if plan.matches(making.fitted(manifest, live), live):
            if making.writer.is_fencing and live["metadata"].get("labels"):
                live = await making.writer.fence(making.kind(name.kind), live)
            return Child(
                name=name,
                live=live,
                ignored=plan.ignored_fields(live),
                unchangeable=kept.unchangeable(manifest, live),
            )
        case Standing.OURS | Standing.ORPHAN:
            return await _bring_in_line(making, name, manifest, live)


async def _bring_in_line(
    making: Making, name: ChildName, manifest: Manifest, live: Manifest
) -> Child:
    """Make an object that is ours as it is rendered, whoever wrote what of it."""
    asked = making.spared.get(name)
    is_anothers = kept.is_anothers(
        live,
        other_operators(live, making.owner),
        is_spared=asked is not None,
        was_served=was_served_by_another(making.owner),
    )
    unchangeable = kept.unchangeable(manifest, live)
    if is_anothers:
        asks = Asks(image=asked, added=making.added.get(name, ()))
        manifest = await taken_over(
            making.writer, making.kind(name.kind), (manifest, live), making.owner, asks
        )
    else:
        manifest = making.fitted(manifest, live)
        is_unasked = plan.is_rollout_of_ours(manifest, live, making.owner, making.renderer)
        if is_unasked and not await making.may_roll_out():
            return Child(name=name, live=live, waits=True)
    if plan.must_recreate(manifest, live):
        await making.writer.delete(making.kind(name.kind), live)
        return await _create(making, name, manifest)
    live = await with_fields_taken(
        making.writer, making.kind(name.kind), (manifest, live), making.owner, forgets=is_anothers
    )
    child = await _apply_over_edits(making, name, manifest, live)
    return msgspec.structs.replace(child, unchangeable=unchangeable)


async def _apply_over_edits(
    making: Making, name: ChildName, manifest: Manifest, live: Manifest
) -> Child:
    """Apply; what people added that excludes our rendering goes."""
    remembered = set(plan.empty_fields(live))
    still = [lost for lost in missing(manifest, live) if dotted(lost.path) in remembered]
    empty = [lost for lost in still if lost.is_empty]
    try:
        return await _apply(making, name, manifest, live, empty)
    except Refused as exc:
        # A person's edit and our rendering exclude each other, so the edit goes as a whole; or what
        # the server made of our first one does, so that it goes.
        entries = taken_back(live) or merged(live, ()) if exc.reason == "Invalid" else None
        if entries is None:
            raise
        entries = kept.apart(manifest, live, entries)
        live = await making.writer.take_fields(making.kind(name.kind), live, entries)
        return await _apply(making, name, manifest, live, empty)


async def _apply(
    making: Making, name: ChildName, manifest: Manifest, live: Manifest, dropped: list[Dropped]
) -> Child:
    """Apply, leaving out what the server says it does not know; the child remembers what."""
    kind = making.kind(name.kind)
    left_out = list(dropped)
    for _ in range(UNKNOWN_FIELDS_MAX):
        sent = plan.marked(manifest, making.renderer, left_out, silent.remembered(live))
        for lost in left_out:
            sent = without(sent, lost.path)
        try:
            applied = plan.with_account_copy(plan.with_foreign_replicas(sent, live))
            live = await making.writer.apply(kind, live, applied)
            found = missing(manifest, live)
        except (Refused, Unavailable) as exc:
            found = not_declared(exc.message)
            if all(lost in left_out for lost in found):
                raise
        else:
            if all(lost in left_out for lost in found):
                return Child(name=name, live=live, ignored=plan.ignored_fields(live))
        left_out += [lost for lost in found if lost not in left_out]
    return _problem(name, live, "FieldNotKnown", f"more than {UNKNOWN_FIELDS_MAX} unknown fields")


def _nowhere(making: Making, name: ChildName, exc: NotFound) -> Child:
    """Return a child for which there is no place: its kind is not served, or its namespace gone."""
    if exc.message.startswith(NAMESPACE_GONE):
        return _problem(name, None, "Refused", f"the API server says: {exc.message}")
    return _not_installed(making, name)


def _not_installed(making: Making, name: ChildName) -> Child:
    kind = making.kind(name.kind)
    text = (
        f"the API server serves no {kind.kind} ({kind.api_version}): install its CRD, "
        f"{kind.crd_name}, and its controller; nothing of Weir needs a restart"
    )
    return _problem(name, None, "KindNotInstalled", text)


def _refused(name: ChildName, live: Manifest | None, exc: KubeError) -> Child:
    if "NamespaceTerminating" in exc.causes:
        return Child(name=name, live=None)
    log.warning(
        "child refused",
        action="apply",
        child=f"{name.kind}/{name.name}",
        code=exc.status,
        reason=exc.reason,
        error=exc.message,
    )
    is_immutable = exc.reason == "Invalid" and any(word in exc.message for word in IMMUTABLE)
    reason = "ImmutableField" if is_immutable else "Refused"
    remedy = "; undo the edit, or delete the object so that it is made anew" if is_immutable else ""
    return _problem(name, live, reason, f"the API server says: {exc.message}{remedy}")


def _problem(name: ChildName, live: Manifest | None, reason: str, message: str) -> Child:
    problem = Problem(child=name, reason=reason, message=message)
    return Child(name=name, live=live, problem=problem)


def _refers(manifest: Manifest) -> bool:
    """
    Return whether a child needs others to exist: pods their accounts, a binding its role.

    The API server refuses a binding to a role that is not there (RBAC, escalation check).
    """
    spec: Any = manifest.get("spec") or {}
    return "roleRef" in manifest or "template" in spec or "leaderWorkerTemplate" in spec


def severity(exc: BaseException) -> int:
    """Order failures so that the one which decides about the message comes first."""
    known = settled_as(exc)
    if isinstance(known, asyncio.CancelledError):
        return 0
    if isinstance(known, DependencyDown):
        return 3
    if isinstance(known, GiveBack | OtherOperator):
        return 2
    return 1
