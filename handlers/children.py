"""
The children of one resource: what it asks for, and making that true.

The part of a reconcile before its status. A dry run (`WEIR_DRY_RUN`, `weir render --diff`) goes the
same way with other writes, so what it foretells is what would be done.
"""

from __future__ import annotations

import time
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from bridge.events import ChangeEvent, EventType, epoch_of
from bridge.kube import Kube
from bridge.settings import Settings
from crds.kubernetes import Manifest
from handlers import plan
from handlers.apply import Child, Making, make_all
from handlers.glance import glance
from handlers.handler import (
    AnyHandler,
    ChildName,
    Facts,
    Problem,
    Rendering,
    TerminalError,
)
from handlers.handover import Patience, open_handovers
from handlers.lookout import Lookout
from handlers.plan import Standing
from handlers.prune import listed, prune, stale_candidates
from handlers.reads import Reads
from handlers.settle import held_children
from handlers.stays import Stay
from handlers.underlying import still_needed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from handlers.state import FailState
    from handlers.writes import Writes


class World(Struct, frozen=True, kw_only=True):
    """What every reconcile of a process works with."""

    kube: Kube
    settings: Settings
    facts: Facts
    identity: str
    newest_renderer: Callable[[str], Awaitable[int]]
    """The highest version that a live handler renders a kind (lower case) with."""
    may_roll_out: Callable[[], Awaitable[bool]]
    """Whether a workload that nobody edited may get new pods now."""
    paused: Callable[[], str] = str
    """Why nothing is to be written at all; empty while nobody paused everything."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What a resource asks for."""

    typed: Any
    """The resource, as its contract's type."""
    rendering: Rendering


class Matched(Struct, frozen=True, kw_only=True):
    """How the children stand once all are made and the stale are gone."""

    children: list[Child]
    problems: list[Problem]
    """What is not as it should be."""
    stays: tuple[Stay, ...] = ()
    """What is stale and stays for now."""


def wanted_of(handler: AnyHandler, resource: Manifest, facts: Facts) -> Wanted:
    """Return what a resource asks for; raise TerminalError where only an edit of it helps."""
    return _wanted(handler, decoded(handler, resource), facts)


async def wanted_in_cluster(
    event: ChangeEvent, handler: AnyHandler, resource: Manifest, facts: Facts, reads: Reads
) -> Wanted:
    """
    Return what a resource asks for beside the children that it has.

    Raises TerminalError where only an edit of it helps.
    """
    typed = decoded(handler, resource)
    facts = msgspec.structs.replace(facts, is_birth=is_birth(event, resource))
    return _wanted(handler, typed, await with_existing(handler, resource, typed, facts, reads))


async def with_existing(
    handler: AnyHandler, resource: Manifest, typed: Any, facts: Facts, reads: Reads
) -> Facts:
    """
    Return the facts, with those of the children that the rendering depends on which are there.

    One of somebody else, or of a former resource of this name, is not there: it is not ours to
    keep. One that is being deleted is there until it is gone.
    """
    names = [*reads.possible(handler.depends_on(typed, facts))]
    if not names:
        return facts
    reads.begin(names)
    lives = {name: await reads.see(name) for name in names}
    ours = (Standing.OURS, Standing.ORPHAN)
    existing = {
        name: live
        for name, live in lives.items()
        if live is not None and plan.standing(live, resource, handler.contract) in ours
    }
    return msgspec.structs.replace(facts, existing=existing)


def _wanted(handler: AnyHandler, typed: Any, facts: Facts) -> Wanted:
    try:
        rendering = handler.render(typed, facts)
    except RecursionError as exc:
        raise TerminalError(
            "InvalidSpec", "the spec is nested too deeply to be rendered; make it flatter"
        ) from exc
    return Wanted(typed=typed, rendering=rendering)


async def match_children(
    event: ChangeEvent,
    handler: AnyHandler,
    resource: Manifest,
    wanted: Wanted,
    state: FailState,
    writer: Writes,
    world: World,
    lookout: Lookout,
    reads: Reads,
) -> Matched:
    """
    Return every child as it stands once all are made and the stale are gone, and what is not.

    Raises OtherOperator, before anything is written, where one of them was written by another
    operator a moment ago. At a birth nothing is read in advance, so there it is seen as far as the
    other was first: by the status that it wrote (then it is no birth), or by a child that exists
    when we would create it; what else the first wave created then is what both want, and no pods
    come before the second. Where we were first, the other's write brings the event that shows it.
    """
    metadata = resource["metadata"]
    making = Making(
        kube=world.kube,
        writer=writer,
        owner=resource,
        contract=handler.contract,
        renderer=handler.renderer,
        newest_renderer=partial(world.newest_renderer, handler.contract.kind.queue_name),
        yield_seconds=world.settings.other_renderer_seconds,
        held=held_children(state, metadata["uid"], metadata.get("generation", 0), time.time()),
        may_roll_out=world.may_roll_out,
        lookout=lookout,
        reads=reads,
        spared=wanted.rendering.spared,
        added=wanted.rendering.added,
        is_birth=is_birth(event, resource),
    )
    rendering = wanted.rendering
    glanced = await glance(event, rendering, state, making)
    if glanced is not None:
        return Matched(children=glanced, problems=[])
    names = (*map(plan.child_name, rendering.children), *rendering.keep)
    recorded = (
        handler.recorded(wanted.typed) if plan.was_edited(resource) and not making.is_birth else ()
    )
    candidates = (*_candidates(event, state), *(() if event.children else recorded))
    stale = await stale_candidates(making, names, candidates)
    children = await make_all(making, rendering.children)
    problems = [child.problem for child in children if child.problem is not None]
    if state.owes_look or lists(event, world.settings.resyncs_per_list):
        stale += await listed(making, handler.pod_selector(wanted.typed))
    stale += tuple(recorded)
    handovers = await open_handovers(
        making,
        handler,
        wanted.typed,
        rendering,
        children,
        stale,
        Patience(seconds=world.settings.successor_pods_seconds, short=state.short, now=time.time()),
    )
    needed = await still_needed(making, handler, wanted.typed, rendering, children, stale)
    stays = (*handovers, *needed)
    # A dry run tells of what goes, even where that is later; not of what would stay for good.
    kept = [one.child for one in stays if one.is_blocked or not world.settings.dry_run]
    problems += await prune(making, (*names, *kept), stale)
    return Matched(children=children, problems=problems, stays=stays)


def is_birth(event: ChangeEvent, resource: Manifest) -> bool:
    """Return whether a resource was never reconciled, as far as the event and its status tell."""
    # A timer brings no hint, and was armed by somebody who looked.
    is_first = event.type is not EventType.TIMER and not event.children
    return is_first and not (resource.get("status") or {})


def lists(event: ChangeEvent, resyncs_per_list: int) -> bool:
    """
    Return whether a look also asks the API server for every child that there is.

    The bridge knows them all from such lists of its own, so that is a check of the bridge: each
    costs the server a walk through the namespace's objects of that kind, for which periodic looks
    at every resource are too many. One that a person asks for has no epoch and is always thorough.
    """
    if event.type is not EventType.RESYNC:
        return False
    epoch = epoch_of(event)
    if not epoch.isdecimal():
        return not epoch
    return (int(epoch) + zlib.crc32(event.key.token.encode())) % resyncs_per_list == 0


def decoded(handler: AnyHandler, resource: Manifest) -> Any:
    """Return the resource as its kind's type; raise TerminalError where it is none."""
    if "spec" not in resource:
        raise TerminalError(
            "InvalidSpec", "the resource has no spec that can be decoded; is it nested too deeply?"
        )
    try:
        return msgspec.convert(resource, handler.contract.resource, strict=True)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise TerminalError(
            "InvalidSpec", f"the resource cannot be understood: {exc}; correct that field"
        ) from exc


def _candidates(event: ChangeEvent, state: FailState) -> set[ChildName]:
    """
    Return where stale children may be: the hint, and what could not go the last time.

    After an edit what the last status names is looked for besides: once the edit is carried out,
    but where no hint came (from a timer) before it. Now and then a LIST says more, whatever bridge
    and status have missed.
    """
    hinted = {ChildName(hint.kind, hint.name) for hint in event.children}
    return hinted | {problem.child for problem in state.refused} | {*state.handing_over}
