"""
A minimal Kopf operator for InferaDeployments, to compare Weir with; no part of Weir.

It does the same job for the same resource: on creation the same six children by POST, after an
edit the children by server-side apply, then the same status. It does nothing else: no lease, no
pruning, no look at children that somebody else changed, no history. It is as quick as a Kopf
operator can be written: asynchronous, one connection pool, msgspec, no Events, Kopf's defaults.
Run by `kopf run`; `BENCH_KUBECONFIG` says where its own session finds the API server.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import msgspec

from crds import KINDS
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers.handler import ChildName, Facts, Observation
from handlers.inferadeployment import HANDLER
from handlers.plan import child_name
from tests.faults.kubeconfig import api_server

USER_AGENT = "kopf-operator"
WATCHED = (CONTRACT.kind.group, CONTRACT.kind.version, CONTRACT.kind.plural)

_KINDS = {child.kind.kind: child.kind for contract in KINDS for child in contract.owns}
_ALREADY_EXISTS = 409
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Kopf keeps its state in annotations (our status is typed), and posts no Events."""
    settings.posting.enabled = False
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
    server = api_server(Path(os.environ["BENCH_KUBECONFIG"]))
    memo.session = aiohttp.ClientSession(
        server.url,
        headers={"Authorization": f"Bearer {server.token}", "User-Agent": USER_AGENT},
        connector=aiohttp.TCPConnector(ssl=server.tls or True),
    )


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """No connection is left open."""
    await memo.session.close()


@kopf.on.create(*WATCHED)
async def created(body: kopf.Body, patch: kopf.Patch, memo: kopf.Memo, **_: Any) -> None:
    """The children exist, and the status says so."""
    await _serve(body, patch, memo.session, is_birth=True)


@kopf.on.update(*WATCHED, field="spec")
async def edited(body: kopf.Body, patch: kopf.Patch, memo: kopf.Memo, **_: Any) -> None:
    """The children are as the edited resource asks for."""
    await _serve(body, patch, memo.session, is_birth=False)


async def _serve(
    body: kopf.Body, patch: kopf.Patch, session: aiohttp.ClientSession, *, is_birth: bool
) -> None:
    raw = {key: json.loads(json.dumps(body[key], default=dict)) for key in body}
    resource = msgspec.convert(raw, CONTRACT.resource)
    children: dict[ChildName, Manifest | None] = {}
    for manifest in HANDLER.render(resource, Facts()).children:
        children[child_name(manifest)] = await _make(session, manifest, is_birth=is_birth)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch.status.update(HANDLER.status(resource, Observation(children=children, now=now)))


async def _make(session: aiohttp.ClientSession, manifest: Manifest, *, is_birth: bool) -> Manifest:
    kind, metadata = _KINDS[manifest["kind"]], manifest["metadata"]
    data = msgspec.json.encode(manifest)
    if is_birth:
        path = kind.path(metadata["namespace"])
        query = {"fieldManager": USER_AGENT}
        async with session.post(
            path, params=query, data=data, headers={"Content-Type": _JSON}
        ) as reply:
            if reply.status != _ALREADY_EXISTS:
                return await _answer(reply)
    path = kind.path(metadata["namespace"], metadata["name"])
    query = {"fieldManager": USER_AGENT, "force": "true"}
    async with session.patch(
        path, params=query, data=data, headers={"Content-Type": _APPLY}
    ) as reply:
        return await _answer(reply)


async def _answer(reply: aiohttp.ClientResponse) -> Manifest:
    text = await reply.read()
    if not reply.ok:
        raise kopf.TemporaryError(text.decode(errors="replace"), delay=1)
    manifest: Manifest = msgspec.json.decode(text)
    return manifest
