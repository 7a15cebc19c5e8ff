"""
Did two reconciles of one resource ever overlap? Told from the audit log, or from the history.

A reconcile is a span of time at one resource. From the audit log it reaches from its first
mutating request to its last, which is the write of the resource's status where there is one;
from the history it reaches from `started` to `finished`. Spans of one resource must be disjoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from tests.witness.audit import AuditEvent

OWN_RESOURCES = frozenset({"inferadeployments"})
"""Plurals of our kinds: a request about one of them serves that very resource."""
_RECORDS = frozenset({"events"})
"""Resources that are no child: whoever writes them changes nothing that a reconcile reads."""
_AUDIT_SLACK_SECONDS = 0.05
"""The log stamps a request's end after a large reply is on its way; the next may begin."""


class Owner(NamedTuple):
    """The resource that a write serves."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Span(Struct, frozen=True, kw_only=True):
    """One reconcile: who was at which resource from when to when, and how we know."""

    owner: str
    writer: str
    start: datetime
    end: datetime
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        times = f"{self.start:%H:%M:%S.%f} .. {self.end:%H:%M:%S.%f}"
        return "\n    ".join((f"{self.writer} {times}", *self.evidence))


class Overlap(Struct, frozen=True, kw_only=True):
    """Two reconciles that were at one resource at once."""

    owner: str
    first: Span
    second: Span

    def __str__(self) -> str:
        return f"{self.owner} was reconciled twice at once:\n  {self.first}\n  {self.second}"


class Ownership:
    """Which resource a child serves: told by the test, or learnt from bodies that name it."""

    def __init__(self, told: Mapping[str, Owner] = {}) -> None:
        """Take `resource/namespace/name` of children to owners, where a test knows better."""
        self._owners = dict(told)

    def learn(self, events: Iterable[AuditEvent]) -> None:
        """Remember the controller that the bodies of creates and applies name."""
        for event in events:
            metadata = event.body.get("metadata") or {}
            for reference in metadata.get("ownerReferences") or ():
                if reference.get("controller"):
                    owner = Owner(event.object_ref.namespace, reference["name"])
                    self._owners[_child(event)] = owner

    def owner_of(self, event: AuditEvent) -> Owner | None:
        """Return the resource that a request serves, None when nobody has said so."""
        reference = event.object_ref
        if reference.resource in OWN_RESOURCES:
            return Owner(reference.namespace, reference.name)
        return self._owners.get(_child(event))


def spans_of_writes(
    events: Iterable[AuditEvent],
    ownership: Ownership,
    *,
    finished: Mapping[tuple[str, str], Iterable[datetime]] = {},
    killed: Mapping[str, Iterable[datetime]] = {},
) -> list[Span]:
    """
    Return the reconciles that requests of our handlers show.

    A writer's requests for one resource are one reconcile until the status write that landed;
    *finished*, by (owner, identity), adds the ends that the history knows; *killed*, by identity,
    those that a SIGKILL made, where the next process took the name over. A write of a child that
    no body ever named an owner of is an error of the test, and raises LookupError.
    """
    ordered = sorted(events, key=lambda event: event.request_received_timestamp)
    ownership.learn(ordered)
    by_writer: dict[tuple[str, str], list[AuditEvent]] = defaultdict(list)
    for event in ordered:
        if not event.is_mutating or event.writer is None or event.object_ref.resource in _RECORDS:
            continue
        if (owner := ownership.owner_of(event)) is None:
            raise LookupError(f"whose child is it? {event}")
        by_writer[str(owner), event.writer.identity].append(event)
    spans = []
    for (owner_name, writer), requests in by_writer.items():
        ends = [*finished.get((owner_name, writer), ()), *killed.get(writer, ())]
        spans += [_span(owner_name, writer, part) for part in _reconciles(requests, ends)]
    return spans


def overlaps(spans: Iterable[Span]) -> list[Overlap]:
    """Return every two spans of one resource that share a moment."""
    by_owner: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_owner[span.owner].append(span)
    found = []
    for owner, at_owner in by_owner.items():
        open_spans: list[Span] = []
        for span in sorted(at_owner, key=lambda span: (span.start, span.end)):
            open_spans = [earlier for earlier in open_spans if earlier.end > span.start]
            found += [Overlap(owner=owner, first=earlier, second=span) for earlier in open_spans]
            open_spans.append(span)
    return found


def _child(event: AuditEvent) -> str:
    reference = event.object_ref
    return f"{reference.resource}/{reference.namespace}/{reference.name}"


def _reconciles(requests: list[AuditEvent], ends: list[datetime]) -> list[list[AuditEvent]]:
    """Return one writer's requests for one resource, cut where a reconcile ended."""
    parts: list[list[AuditEvent]] = [[]]
    for request in requests:
        current = parts[-1]
        if current and (_ends(current[-1]) or _between(current[-1], request, ends)):
            parts.append([])
        parts[-1].append(request)
    return parts


def _ends(request: AuditEvent) -> bool:
    """Whether this is the last write of a reconcile: its resource's status, accepted."""
    reference = request.object_ref
    return (
        reference.resource in OWN_RESOURCES and reference.subresource == "status" and request.landed
    )


def _between(earlier: AuditEvent, later: AuditEvent, ends: list[datetime]) -> bool:
    start, end = earlier.request_received_timestamp, later.request_received_timestamp
    return any(start < moment <= end for moment in ends)


def _span(owner: str, writer: str, requests: list[AuditEvent]) -> Span:
    slack = timedelta(seconds=_AUDIT_SLACK_SECONDS)
    last_received = max(request.request_received_timestamp for request in requests)
    last_done = max(request.stage_timestamp for request in requests)
    return Span(
        owner=owner,
        writer=writer,
        start=requests[0].request_received_timestamp,
        end=max(last_received, last_done - slack),
        evidence=tuple(str(request) for request in requests),
    )
