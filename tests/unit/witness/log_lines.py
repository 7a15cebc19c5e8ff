"""Hand-made lines of an audit log."""

from __future__ import annotations

import json
from typing import Any

from tests.witness.audit import AuditEvent, parse


def line(
    second: float,
    verb: str,
    resource: str,
    name: str,
    *,
    by: str = "weir-handlers/0.1.0 (h1)",
    subresource: str = "",
    code: int = 200,
    lasting: float = 0.0,
    body: dict[str, Any] | None = None,
    query: str = "",
    stage: str = "ResponseComplete",
) -> bytes:
    """Return a request of namespace `ns`, received so many seconds after 2026 began."""
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "stage": stage,
        "requestURI": f"/apis/x/v1/namespaces/ns/{resource}/{name}?{query}",
        "verb": verb,
        "userAgent": by,
        "objectRef": {"resource": resource, "namespace": "ns", "name": name},
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:09.6f}Z",
        "stageTimestamp": f"2026-01-01T00:00:{second + lasting:09.6f}Z",
    }
    if subresource:
        event["objectRef"]["subresource"] = subresource
    if body is not None:
        event["requestObject"] = body
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def child_write(
    second: float, handler: str, owner: str, child: str, *, lasting: float = 0.0
) -> AuditEvent:
    """Return the apply of a Service *child* that serves *owner*."""
    body = {"metadata": {"ownerReferences": [{"controller": True, "name": owner}]}}
    by = f"weir-handlers/0.1.0 ({handler})"
    return parse([line(second, "patch", "services", child, by=by, body=body, lasting=lasting)])[0]


def status_write(second: float, handler: str, owner: str, *, code: int = 200) -> AuditEvent:
    """Return the write of *owner*'s status, with which a reconcile ends."""
    by = f"weir-handlers/0.1.0 ({handler})"
    written = line(
        second, "update", "inferadeployments", owner, by=by, subresource="status", code=code
    )
    return parse([written])[0]
