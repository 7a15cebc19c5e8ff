"""Delete the children that the rendering no longer holds, each verified and fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from bridge.kube_errors import Conflict, KubeError, NotFound, Refused, Unavailable
from bridge.telemetry import logger
from crds.contract import Child as OwnedKind
from handlers import plan
from handlers.apply import (
    CONFLICT_RETRIES,
    severity,
    yield_to_others,
)
from handlers.errors import is_of_one_object
from handlers.handler import ChildName, Problem
from handlers.reads import IN_PARALLEL

if TYPE_CHECKING:
    from crds.kubernetes import Manifest
    from handlers.apply import Making

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

log = logger(__name__)


async def stale_candidates(
    making: Making, wanted: Iterable[ChildName], candidates: Iterable[ChildName]
) -> tuple[ChildName, ...]:
    """
    Return the candidates that exist and are not wanted, before anything is written.

    Raises OtherOperator where another operator still writes one of them, GiveBack where a newer
    renderer wants one and a handler of its version lives.
    """
    names = plan.stale(wanted, making.reads.possible(candidates))
    try:
        lives = await making.read_all(names)
    except (Refused, Unavailable) as exc:
        if isinstance(exc, Unavailable) and not is_of_one_object(exc):
            raise
        return names  # prune meets the one that cannot be read, when its siblings had their turn
    await yield_to_others(making, lives.values())
    return tuple(name for name, live in lives.items() if live is not None)


async def prune(
    making: Making, wanted: Iterable[ChildName], candidates: Iterable[ChildName]
) -> list[Problem]:
    """
    Delete every candidate that is ours and not wanted; return what could not be deleted.

    A candidate that is gone, foreign, or being deleted already costs one read and no write.
    """
    limit = asyncio.Semaphore(IN_PARALLEL)

    async def one(name: ChildName) -> Problem | None:
        async with limit:
            return await _prune_one(making, name)

    names = plan.stale(wanted, making.reads.possible(candidates))
    found = await asyncio.gather(*map(one, names), return_exceptions=True)
    failures = [result for result in found if isinstance(result, BaseException)]
    if failures:
        raise min(failures, key=severity)
    return [problem for problem in found if isinstance(problem, Problem)]


async def listed(making: Making, label_selector: str) -> tuple[ChildName, ...]:
    """Return every child that carries the resource's identity labels, by a LIST per kind."""

    async def of_kind(child: OwnedKind) -> list[ChildName]:
        try:
            data = await making.kube.list_objects(
                child.kind, making.namespace, label_selector=label_selector, accept=METADATA_LIST
            )
        except (NotFound, Refused):
            if not child.optional:
                raise
            return []  # not served here, or not ours to see: then we made none
        return [
            ChildName(child.kind.kind, item["metadata"]["name"])
            for item in msgspec.json.decode(data).get("items") or ()
        ]

    found = await asyncio.gather(*map(of_kind, making.contract.owns))
    return tuple(name for names in found for name in names)


async def _prune_one(making: Making, name: ChildName) -> Problem | None:
    if name in making.held:
        return making.held[name] if await making.reads.take(name) is not None else None
    for _ in range(CONFLICT_RETRIES):
        live = await making.reads.take(name)
        await yield_to_others(making, [live])
        if live is None or not _is_ours_to_delete(making, name, live):
            return None
        try:
            await making.writer.delete(making.kind(name.kind), live)
        except NotFound:
            return None
        except Conflict:
            continue
        except (Refused, Unavailable) as exc:
            if isinstance(exc, Unavailable) and not is_of_one_object(exc):
                raise
            return _kept(name, exc)
        else:
            return None
    return None  # it keeps changing, so an event of its next state brings us back


def _is_ours_to_delete(making: Making, name: ChildName, live: Manifest) -> bool:
    return plan.child_name(live) == name and plan.is_ours(live, making.owner, making.contract)


def _kept(name: ChildName, exc: KubeError) -> Problem:
    text = f"is no longer wanted and cannot be deleted: {exc.message}"
    return Problem(child=name, reason="Refused", message=text)
