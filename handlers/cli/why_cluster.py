"""The API server's half of `weir why`: the resource, its children and pods; only read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bridge.events import ObjectKey
from bridge.kube import Kube, connect_kube
from bridge.kube_errors import KubeError, NotFound, Refused
from bridge.settings import Settings, SettingsError
from crds.kubernetes import POD, Manifest
from handlers import plan
from handlers.children import decoded, with_existing
from handlers.cli.output import CommandError
from handlers.cli.why_findings import MISSING, Child, ClusterHalf, Pod, Refusal
from handlers.cli.why_objects import child, cluster_half, pod
from handlers.handler import AnyHandler, ChildName, Facts, Rendering, TerminalError
from handlers.kept import fitted
from handlers.lookout import newest_write
from handlers.plan import Standing
from handlers.reads import Reads
from handlers.reconcile import read_resource
from handlers.registry import BY_QUEUE_NAME

ANSWER_SECONDS = 10.0
"""A person waits, and a server that is well needs a fraction of it."""
NO_SUCH_PATH = "HTTP404"
"""Reason of a 404 that is no `Status` object: the server serves no such kind."""

Lives = dict[ChildName, Manifest | None]


async def read_cluster(settings: Settings, key: ObjectKey) -> ClusterHalf:
    """Return what the API server holds of a resource; raise CommandError where it says nothing."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), connect_kube(settings, "cli") as kube:
            return await _read(kube, settings, key)
    except SettingsError as exc:
        raise CommandError(str(exc)) from exc
    except TimeoutError as exc:
        raise CommandError(
            f"the API server did not answer within {ANSWER_SECONDS:g} s: is it up, and does "
            f"KUBECONFIG name the right one?"
        ) from exc
    except KubeError as exc:
        remedy = "is it up, and does KUBECONFIG name the right one?"
        if isinstance(exc, Refused):
            remedy = "check that KUBECONFIG names a user who may read it"
        raise CommandError(f"the API server does not give {key}: {exc}; {remedy}") from exc


async def _read(kube: Kube, settings: Settings, key: ObjectKey) -> ClusterHalf:
    handler = BY_QUEUE_NAME[key.kind]
    resource = await read_resource(handler, key, kube)
    if resource is None:
        return ClusterHalf(exists=False, is_kind_served=await _is_served(kube, handler, key))
    facts = Facts(nats_default=settings.nats_default, nats_engine_url=settings.nats_engine_url)
    typed: Any = None
    rendering, refusal = Rendering(children=()), None
    notes: list[str] = []
    try:
        typed = decoded(handler, resource)
        facts = await _with_existing(kube, handler, resource, (typed, facts), notes)
        rendering = handler.render(typed, facts)
    except TerminalError as exc:
        refusal = Refusal(reason=exc.reason, message=exc.message)
        if typed is None:
            return cluster_half(resource, refusal=refusal, others_write=newest_write([resource]))
    children, lives = await _children(kube, handler, resource, (typed, rendering), notes)
    pods = await _pods(kube, resource, handler.pod_selector(typed), lives, notes)
    return cluster_half(
        resource,
        refusal=refusal,
        notices=rendering.notices,
        children=children,
        pods=pods,
        others_write=newest_write([resource, *lives]),
        notes=tuple(notes),
    )


async def _with_existing(
    kube: Kube,
    handler: AnyHandler,
    resource: Manifest,
    wanted: tuple[Any, Facts],
    notes: list[str],
) -> Facts:
    """Return the facts with the children that the rendering depends on, as far as we may look."""
    typed, facts = wanted
    reads = Reads(kube, handler.contract, resource["metadata"]["namespace"])
    try:
        return await with_existing(handler, resource, typed, facts, reads)
    except Refused as exc:
        notes.append(f"taken to have no children yet, which decide what it asks for: {exc}")
        return facts


async def _is_served(kube: Kube, handler: AnyHandler, key: ObjectKey) -> bool:
    """Return whether what is not there could be: its kind is one that the server knows."""
    try:
        await kube.request("GET", handler.contract.kind.path(key.namespace, key.name))
    except NotFound as exc:
        return exc.reason != NO_SUCH_PATH
    return True


async def _children(
    kube: Kube,
    handler: AnyHandler,
    resource: Manifest,
    wanted: tuple[Any, Rendering],
    notes: list[str],
) -> tuple[tuple[Child, ...], list[Manifest]]:
    """Return the children that should be there or are, and those that are as they were read."""
    typed, rendering = wanted
    rendered = {plan.child_name(manifest): manifest for manifest in rendering.children}
    # Beyond the rendering only what is there is told: it names what was never made, too.
    others = [*handler.recorded(typed), *rendering.succeeds]
    names = [*dict.fromkeys((*rendered, *others))]
    kinds = {owned.kind.kind: owned.kind for owned in handler.contract.owns}

    async def read(name: ChildName) -> Manifest | None:
        try:
            data = await kube.get(kinds[name.kind], resource["metadata"]["namespace"], name.name)
        except Refused as exc:
            unread.add(name)
            if name in rendered:
                notes.append(f"{name.kind} {name.name} cannot be read: {exc}")
            return None
        return None if data is None else msgspec.json.decode(data)

    unread: set[ChildName] = set()
    lives = dict(zip(names, await asyncio.gather(*map(read, names)), strict=True))
    found = [
        child(
            name,
            live,
            _fitted(rendered.get(name), live, rendering.spared.get(name)),
            of=(resource, handler.contract),
            is_wanted=name in rendered or name in rendering.keep or not rendered,
        )
        for name, live in lives.items()
        if name not in unread
    ]
    told = [one for one in found if _is_told(one, ChildName(one.kind, one.name) in rendered)]
    return tuple(told), [live for live in lives.values() if live is not None]


def _fitted(manifest: Manifest | None, live: Manifest | None, asked: str | None) -> Manifest | None:
    """Return a rendering as the child is to hold it."""
    return manifest if manifest is None or live is None else fitted(manifest, live, asked)


def _is_told(one: Child, is_rendered: bool) -> bool:
    """Return whether a child is worth a word: what is not ours matters only in the way of ours."""
    if is_rendered:
        return True
    return one.standing not in (MISSING, Standing.FOREIGN.value)


async def _pods(
    kube: Kube, resource: Manifest, selector: str, lives: list[Manifest], notes: list[str]
) -> tuple[Pod, ...]:
    namespace = resource["metadata"]["namespace"]
    try:
        data = await kube.list_objects(POD, namespace, label_selector=selector)
    except Refused as exc:
        notes.append(f"its pods cannot be read: {exc}")
        return ()
    return tuple(pod(item, lives) for item in msgspec.json.decode(data).get("items") or ())
