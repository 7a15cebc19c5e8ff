"""
The least that anybody needs: the writes that Weir makes, byte by byte, prepared in advance.

It watches nothing, decides nothing and remembers nothing, so no operator can be faster by more
than what it saves in writes. It has the rights of Weir's handlers, and is audited like them.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

import msgspec
from msgspec import Struct

from bridge.kube import APPLY, MERGE_PATCH
from crds import KINDS
from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from crds.kubernetes import DEPLOYMENT, Manifest
from handlers import plan
from handlers.handler import Facts, Observation
from handlers.inferadeployment import HANDLER
from tests.bench.client import Client, each
from tests.bench.user import NAMESPACE, SUFFIX, edit

USER_AGENT = "bare-client"

_UID = "00000000-0000-0000-0000-000000000000"
_VERSION = "resource-version-of-the-answer"
"""Both stand in what is prepared until the API server has given the real ones."""
_NOW = "2026-01-01T00:00:00Z"
_WRITER = "fieldManager=weir&timeout=5s"
_KINDS = {child.kind.kind: child.kind for contract in KINDS for child in contract.owns}


class Request(Struct, frozen=True, kw_only=True):
    """A request, but for what the answer to an earlier one says."""

    method: str
    path: str
    body: bytes
    content_type: str = "application/json"

    def of(self, owner: Manifest) -> bytes:
        """Return the body for a resource as the API server holds it."""
        metadata = owner["metadata"]
        return self.body.replace(_UID.encode(), metadata["uid"].encode()).replace(
            _VERSION.encode(), metadata["resourceVersion"].encode()
        )


class Job(Struct, frozen=True, kw_only=True):
    """What one resource takes: a user's request first, then its operator's, one by one."""

    user: Request
    operator: tuple[Request, ...]


def birth(manifest: Manifest) -> Job:
    """Return the creation of a resource, of its children as rendered, and its status."""
    children, status = _rendered(manifest)
    creations = [
        Request(
            method="POST",
            path=f"{_kind(child).path(NAMESPACE)}?{_WRITER}",
            body=msgspec.json.encode(plan.marked(child, HANDLER.renderer)),
        )
        for child in children
    ]
    user = Request(
        method="POST", path=CONTRACT.kind.path(NAMESPACE), body=msgspec.json.encode(manifest)
    )
    return Job(user=user, operator=(*creations, status))


def edition(live: Manifest, number: int) -> Job:
    """Return an edit of a resource that exists, the apply of the child that differs, a status."""
    edited = deepcopy(live)
    change = edit(number)
    for service, fields in change["spec"]["services"].items():
        edited["spec"]["services"][service] |= fields
    name = live["metadata"]["name"]
    children, status = _rendered(edited)
    child = next(c for c in children if c["metadata"]["name"] == name + SUFFIX and _is_workload(c))
    applied = Request(
        method="PATCH",
        path=f"{DEPLOYMENT.path(NAMESPACE, name + SUFFIX)}?{_WRITER}&force=true",
        body=msgspec.json.encode(plan.marked(child, HANDLER.renderer)),
        content_type=APPLY,
    )
    user = Request(
        method="PATCH",
        path=CONTRACT.kind.path(NAMESPACE, name),
        body=msgspec.json.encode(change),
        content_type=MERGE_PATCH,
    )
    return Job(user=user, operator=(applied, status))


def looks(live: Manifest) -> list[str]:
    """Return what is read to look at a resource: itself and its children."""
    children, _ = _rendered(live)
    own = CONTRACT.kind.path(NAMESPACE, live["metadata"]["name"])
    return [own, *(_kind(c).path(NAMESPACE, c["metadata"]["name"]) for c in children)]


async def work(user: Client, operator: Client, jobs: Iterable[Job]) -> None:
    """Everything is written, 16 requests at once."""

    async def one(job: Job) -> None:
        await serve(operator, job, await ask(user, job))

    await each(jobs, one)


async def rehearse(user: Client, operator: Client, manifests: Iterable[Manifest]) -> None:
    """The API server has gone through births, and nothing is stored."""

    async def one(job: Job) -> None:
        # No status, and no binding: they need an object that is stored.
        creations = [r for r in job.operator if r.method == "POST" and "rolebindings" not in r.path]
        for client, request in ((user, job.user), *((operator, r) for r in creations)):
            path = f"{request.path}{'&' if '?' in request.path else '?'}dryRun=All"
            await client.send(request.method, path, request.body, request.content_type)

    await each(map(birth, manifests), one)


async def ask(user: Client, job: Job) -> Manifest:
    """Return the resource as the API server holds it after the user's request."""
    asked = job.user
    answer = await user.send(asked.method, asked.path, asked.body, asked.content_type)
    resource: Manifest = msgspec.json.decode(answer)
    return resource


async def serve(operator: Client, job: Job, resource: Manifest) -> None:
    """The operator's requests have been made."""
    for request in job.operator:
        await operator.send(
            request.method, request.path, request.of(resource), request.content_type
        )


def _rendered(manifest: Manifest) -> tuple[tuple[Manifest, ...], Request]:
    """Return the children that Weir would make, and the write of the status it would give."""
    metadata = manifest["metadata"]
    known = {**metadata, "uid": metadata.get("uid", _UID), "generation": 1}
    resource = msgspec.convert({**manifest, "metadata": known}, CONTRACT.resource)
    children = HANDLER.render(resource, Facts()).children
    observation = Observation(children={plan.child_name(c): c for c in children}, now=_NOW)
    kind = CONTRACT.kind
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": NAMESPACE,
            "uid": known["uid"],
            "resourceVersion": _VERSION,
        },
        "status": HANDLER.status(resource, observation),
    }
    status = Request(
        method="PUT",
        path=f"{kind.path(NAMESPACE, metadata['name'], 'status')}?{_WRITER}",
        body=msgspec.json.encode(body),
    )
    return children, status


def _kind(child: Manifest) -> Kind:
    return _KINDS[child["kind"]]


def _is_workload(child: Manifest) -> bool:
    return bool(child["kind"] == DEPLOYMENT.kind)
