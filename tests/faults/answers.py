"""
What a real API server, or something in front of it, answers when it refuses: as values.

Source of the shapes: Kubernetes API conventions, "Response Status Kind", and answers seen on a
real API server 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """A reply that the API server never gave."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


def refusal(
    code: int, reason: str, message: str, *, retry_after_seconds: int | None = None
) -> Answer:
    """Return a Kubernetes `Status` of failure."""
    headers = {"Content-Type": "application/json"}
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(retry_after_seconds)
    return Answer(status=code, body=_status(code, reason, message), headers=headers)


def throttled(retry_after_seconds: int = 1) -> Answer:
    """429 as Priority and Fairness gives it."""
    return refusal(
        429,
        "TooManyRequests",
        "too many requests, please try again later",
        retry_after_seconds=retry_after_seconds,
    )


def internal_error() -> Answer:
    """500 as a failing admission webhook or etcd gives it."""
    return refusal(500, "InternalError", "Internal error occurred: etcdserver: request timed out")


def unavailable_html() -> Answer:
    """503 of a load balancer in front of the API server: no Status, not even JSON."""
    return Answer(
        status=503,
        body=b"<html><body><h1>503 Service Unavailable</h1></body></html>\n",
        headers={"Content-Type": "text/html"},
    )


def conflict(name: str) -> Answer:
    """409 as a stale resourceVersion gives it."""
    return refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on "{name}": the object has been modified; please apply '
        "your changes to the latest version and try again",
    )


def gone() -> Answer:
    """410 as a list or watch from a version that was compacted gives it."""
    return refusal(410, "Expired", "The provided resource version is too old")


def gone_in_stream() -> Answer:
    """The same inside a watch that has been answered 200 already, which then ends."""
    event = b'{"type":"ERROR","object":%b}\n' % _status(410, "Expired", "too old resource version")
    return Answer(status=200, body=event, headers={"Content-Type": "application/json"})


def quota_exceeded(name: str) -> Answer:
    """403 as the ResourceQuota admission gives it."""
    return refusal(
        403,
        "Forbidden",
        f'"{name}" is forbidden: exceeded quota: quota, requested: count=1, used: 0, limited: 0',
    )


def _status(code: int, reason: str, message: str) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
    ).encode()
