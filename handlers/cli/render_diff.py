"""
`weir render --diff`: what handlers of this version would change in a cluster.

The children are gone through as a reconcile goes through them (handlers/children.py); only its
writes are another's (handlers/dry_run.py).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

import crds
from bridge.events import ChangeEvent, EventType, ObjectKey
from bridge.kube import Kube, connect_kube
from bridge.kube_errors import Gone, KubeError, NotFound, Refused, Unavailable
from bridge.settings import Settings
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers import plan
from handlers.budget import unlimited
from handlers.children import World, match_children, wanted_in_cluster
from handlers.cli import output, render
from handlers.cli.diff_text import (
    Compared,
    ObjectDifference,
    as_plain,
    as_text,
    objects_of,
    summary,
)
from handlers.cli.output import Mistake
from handlers.cli.target import Scope, scope_of
from handlers.dry_run import DryRun
from handlers.errors import GiveBack
from handlers.handler import AnyHandler, Facts, TerminalError
from handlers.lookout import Lookout
from handlers.prune import METADATA_LIST
from handlers.reads import Reads
from handlers.reconcile import read_resource
from handlers.registry import BY_QUEUE_NAME
from handlers.renderers import ANY
from handlers.state import EMPTY
from handlers.writes import Writer

AT_ONCE: Final = 8
"""Resources that are looked at at once; each reads its children in parallel."""
PAGE_SIZE: Final = 500
SERVERS_METADATA: Final = ("uid", "resourceVersion", "managedFields")
"""What a resource that was read from a cluster may not be created with."""
_NO_RIGHT: Final = 403


class _NoEnd:
    """A hold for who writes nothing: there is nothing to lose."""

    seconds_left = math.inf
    predecessor_died = False


class _Name(Struct):
    name: str
    namespace: str = ""


class _Item(Struct):
    metadata: _Name


class _ListMeta(Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(Struct):
    metadata: _ListMeta
    items: list[_Item]


Comparison = Callable[[], Awaitable[Compared]]


def run(arguments: argparse.Namespace, settings: Settings, facts: Facts) -> int:
    """Print what differs; return 0 where nothing does, 1 where something does, 2 in trouble."""
    if arguments.output == "name":
        raise Mistake("--diff is printed as text, or with -o json or -o yaml")
    files: list[render.Rendered] = []
    scope = Scope()
    if arguments.filename:
        if arguments.kind or arguments.all_namespaces:
            raise Mistake("-f names the resources: leave out KIND and -A")
        try:
            files = render.read(arguments, facts)
        except render.Refused as exc:
            for fault in exc.faults:
                output.say(f"weir: {fault}")
            return Mistake.exit_code
        except output.CommandError as exc:
            raise Mistake(str(exc)) from exc
    else:
        scope = scope_of(arguments)
        if arguments.all_namespaces and (scope.namespace or scope.name):
            raise Mistake("-A is everything: leave out the namespace and the name")
        if not (arguments.all_namespaces or scope.namespace):
            raise Mistake("say which resources: -f FILE, KIND NAMESPACE/NAME, -n NAMESPACE, or -A")
    # What is logged of a refused child is for a process that lives on; here the answer holds it.
    logging.getLogger().addHandler(logging.NullHandler())
    dry = msgspec.structs.replace(settings, dry_run=True)
    try:
        return asyncio.run(_diff(dry, facts, files, scope, arguments.output))
    except KubeError as exc:
        raise Mistake(
            f"cannot ask the API server: {exc}; check KUBECONFIG, and that it runs"
        ) from exc


async def _diff(
    settings: Settings,
    facts: Facts,
    files: list[render.Rendered],
    scope: Scope,
    form: output.Format | None,
) -> int:
    found: list[Compared] = []
    async with connect_kube(settings, "cli") as kube:
        world = World(
            kube=kube,
            settings=settings,
            facts=facts,
            identity=settings.identity,
            newest_renderer=_any_may_live,
            may_roll_out=unlimited,
        )
        batch: list[Comparison] = []
        async for comparison in _comparisons(world, files, scope):
            batch.append(comparison)
            if len(batch) == AT_ONCE:
                found += await _told(batch, form)
                batch = []
        found += await _told(batch, form)
    if form in ("json", "yaml"):
        sys.stdout.write(output.machine(as_plain(found), form))
    elif any(one.is_worth_telling for one in found):
        print(summary(found))
    elif not any(one.error for one in found):
        output.say(f"Nothing differs: {output.plural(len(found), 'resource')} compared.")
    if any(one.error for one in found):
        return 2
    return int(any(one.differs for one in found))


async def _told(batch: list[Comparison], form: output.Format | None) -> list[Compared]:
    """Return the comparisons of a batch; text is printed as it comes."""
    found = await asyncio.gather(*(comparison() for comparison in batch))
    for one in found:
        if one.error:
            output.say(f"weir: {one.title}: {one.error}")
        if form is None and one.is_worth_telling:
            print(as_text(one))
    return list(found)


async def _any_may_live(kind: str) -> int:
    """Return a version above all: what a newer one wrote is left alone while it may live."""
    del kind
    return ANY


async def _comparisons(
    world: World, files: list[render.Rendered], scope: Scope
) -> AsyncIterator[Comparison]:
    for file in files:
        yield partial(_of_file, world, file)
    if files:
        return
    for contract in crds.KINDS:
        kind = contract.kind
        if scope.kind not in ("", kind.queue_name):
            continue
        handler = BY_QUEUE_NAME[kind.queue_name]
        one = scope.key
        keys = _keys(world.kube, kind, scope.namespace) if one is None else _one(one)
        async for key in keys:
            yield partial(_of_key, world, handler, key, is_named=one is not None)


async def _one(key: ObjectKey) -> AsyncIterator[ObjectKey]:
    yield key


async def _keys(kube: Kube, kind: Kind, namespace: str) -> AsyncIterator[ObjectKey]:
    """Yield every resource of a kind, page by page."""
    query = {"limit": str(PAGE_SIZE)}
    while True:
        try:
            data = await kube.request(
                "GET", kind.path(namespace or None), query=query, accept=METADATA_LIST
            )
        except NotFound as exc:
            raise Mistake(f"the cluster has no kind {kind.kind}: apply its CRD first") from exc
        except Gone as exc:
            raise Mistake("the list grew too old while it was read: try again") from exc
        page = msgspec.json.decode(data, type=_Page)
        for item in page.items:
            yield ObjectKey(kind.queue_name, item.metadata.namespace, item.metadata.name)
        if not page.metadata.continue_:
            return
        query["continue"] = page.metadata.continue_


async def _of_key(world: World, handler: AnyHandler, key: ObjectKey, *, is_named: bool) -> Compared:
    """Return how a resource of the cluster compares; without differences where it went."""
    try:
        resource = await read_resource(handler, key, world.kube)
    except KubeError as exc:
        return _failed(handler, key, exc)
    if resource is None:
        error = "does not exist; -f FILE compares what is not applied yet" if is_named else ""
        return Compared(kind=handler.contract.kind.kind, key=key, error=error)
    return await _compared(world, handler, key, resource)


async def _of_file(world: World, one: render.Rendered) -> Compared:
    """Return how a resource of a file compares, as the cluster would have it after an apply."""
    kind = one.contract.kind
    handler = BY_QUEUE_NAME[kind.queue_name]
    metadata = one.resource["metadata"]
    key = ObjectKey(kind.queue_name, metadata.get("namespace", ""), metadata["name"])
    try:
        live = await read_resource(handler, key, world.kube)
        resource = await _applied(world, kind, live, one.resource)
    except KubeError as exc:
        return _failed(handler, key, exc)
    return await _compared(world, handler, key, resource, is_new=live is None)


async def _applied(world: World, kind: Kind, live: Manifest | None, resource: Manifest) -> Manifest:
    """Return a resource as the API server would keep it; unchecked where we may not ask it."""
    metadata = resource["metadata"]
    namespace, seconds = metadata.get("namespace"), world.settings.write_timeout_seconds
    try:
        if live is None:
            fresh = {
                key: item for key, item in metadata.items() if key not in ("uid", "resourceVersion")
            }
            data = await world.kube.create(
                kind, namespace, {**resource, "metadata": fresh}, timeout_seconds=seconds
            )
        else:
            operations = [{"op": "add", "path": "/spec", "value": resource["spec"]}]
            data = await world.kube.patch_json(
                kind, namespace, metadata["name"], operations, timeout_seconds=seconds
            )
    except Refused as exc:
        if exc.status != _NO_RIGHT:
            raise
        output.warn(f"{kind.kind} {namespace}/{metadata['name']} is not checked: {exc.message}")
        return {**(live or resource), "spec": resource["spec"]}
    found: Manifest = msgspec.json.decode(data)
    return found


async def _compared(
    world: World, handler: AnyHandler, key: ObjectKey, resource: Manifest, *, is_new: bool = False
) -> Compared:
    """Return what a resync of the resource would do to its children."""
    kind = handler.contract.kind.kind
    note, objects, is_refused = "", tuple[ObjectDifference, ...](), False
    dry_run = DryRun(
        Writer(world.kube, _NoEnd(), world.settings, on_first=_unsaid, is_cut=lambda: False)
    )
    event = ChangeEvent(key=key, type=EventType.RESYNC, id="")
    # What another operator still writes is compared all the same: that is how a take-over begins.
    lookout = Lookout(world.settings, datetime.now(UTC))
    try:
        if plan.is_being_deleted(resource):
            note = "is being deleted: nothing is made for it any more"
        else:
            lookout.require_silence(resource)
            async with Reads(world.kube, handler.contract, key.namespace) as reads:
                wanted = await wanted_in_cluster(event, handler, resource, world.facts, reads)
                matched = await match_children(
                    event, handler, resource, wanted, EMPTY, dry_run, world, lookout, reads
                )
            objects = objects_of(matched, dry_run.foretold)
    except TerminalError as exc:
        note, is_refused = f"left as it is: {exc.reason}: {exc.message}", True
    except GiveBack as exc:
        if exc.grows:
            return Compared(kind=kind, key=key, error=f"{exc}: try again", waits=lookout.why)
        note = f"left to the newer Weir that wrote it, while that lives: {exc}"
    except KubeError as exc:
        return _failed(handler, key, exc)
    return Compared(
        kind=kind,
        key=key,
        note=note,
        waits=lookout.why,
        objects=objects,
        is_new=is_new,
        is_refused=is_refused,
    )


def _failed(handler: AnyHandler, key: ObjectKey, exc: KubeError) -> Compared:
    """Return what kept a resource from being compared; raise where it would keep all."""
    if isinstance(exc, Unavailable) and exc.status == 0:
        raise exc
    return Compared(kind=handler.contract.kind.kind, key=key, error=f"cannot be compared: {exc}")


async def _unsaid() -> None:
    """Tell nobody that a dry run begins."""
