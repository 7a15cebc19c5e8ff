"""
What the audit log of the API server says of a run: one clock for us and for whom we compare with.

A tally sees every finished request, in the order of the log, and knows when it has seen enough.
Pure but for `Tail`, which reads a growing file, and `watch`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Raw

from crds.inferadeployment import CONTRACT
from crds.kubernetes import DEPLOYMENT
from handlers.cli.devstack.progress import heartbeat
from tests.witness.audit import AuditEvent, parse

POLL_SECONDS = 0.1
RESOURCES = CONTRACT.kind.plural
CHILDREN = frozenset(child.kind.plural for child in CONTRACT.owns)
FINISHED = "ResponseComplete"
_APPLY = "force=true"
"""Part of a server-side apply's query, and of nothing else."""


class TooSlow(Exception):
    """What was waited for did not come in time; the text says how far it got."""


class Tally(Protocol):
    """Something that is counted in the log."""

    def see(self, event: AuditEvent) -> None:
        """Take note of a finished request."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is waited for."""

    @property
    def so_far(self) -> str:
        """How far it got."""


class Births:
    """From the first resource's creation to the last of all children and first statuses."""

    def __init__(self, writer: str, resources: int, children: int) -> None:
        """Take how the writer's User-Agent begins, and how many must come."""
        self._writer = writer
        self._wanted = (resources, children, resources)
        self._created: set[str] = set()
        self._children: set[str] = set()
        self._statuses: set[str] = set()
        self._begun: datetime | None = None
        self._ended: datetime | None = None
        self.writes = 0
        """Requests of the writer that asked for a change, refused ones included."""

    def see(self, event: AuditEvent) -> None:
        """Take note of a finished request."""
        target = event.object_ref
        is_theirs = event.user_agent.startswith(self._writer)
        if not event.is_mutating:
            return
        self.writes += is_theirs
        if not event.landed:
            return
        if event.verb == "create" and target.resource == RESOURCES:
            self._created.add(target.name)
            self._begun = min(self._begun or _received(event), _received(event))
        elif is_theirs and event.verb == "create" and target.resource in CHILDREN:
            self._end_with(event, self._children, str(target))
        elif is_theirs and target.subresource == "status" and target.resource == RESOURCES:
            self._end_with(event, self._statuses, target.name)

    def _end_with(self, event: AuditEvent, seen: set[str], name: str) -> None:
        if name not in seen:
            seen.add(name)
            self._ended = max(self._ended or event.stage_timestamp, event.stage_timestamp)

    @property
    def is_done(self) -> bool:
        """Whether every resource, child and status has been written."""
        return self._counts == self._wanted

    @property
    def so_far(self) -> str:
        """How far it got."""
        pairs = zip(("resources", "children", "statuses"), self._counts, self._wanted, strict=True)
        return ", ".join(f"{have} of {wanted} {what}" for what, have, wanted in pairs)

    def seconds(self, since: datetime | None = None) -> float:
        """Return what it took from the first creation on, or from another moment."""
        begun = since or self._begun
        return _seconds(begun, self._ended)

    @property
    def _counts(self) -> tuple[int, int, int]:
        return len(self._created), len(self._children), len(self._statuses)


class Edits:
    """From the moment that an edit reaches the API server to the answer to its child's patch."""

    def __init__(self, writer: str, count: int, suffix: str) -> None:
        """Take the writer's User-Agent, how many edits come, and what a child's name adds."""
        self._writer = writer
        self._count = count
        self._suffix = suffix
        self._edited: dict[str, datetime] = {}
        self._patched: dict[str, datetime] = {}

    def see(self, event: AuditEvent) -> None:
        """Take note of a finished request."""
        target = event.object_ref
        if not event.landed or event.verb != "patch" or target.subresource:
            return
        if event.user_agent.startswith(self._writer) and target.resource == DEPLOYMENT.plural:
            # Not what merges an object's field owners before its first apply.
            if target.name.endswith(self._suffix) and _APPLY in event.request_uri:
                owner = target.name.removesuffix(self._suffix)
                self._patched.setdefault(owner, event.stage_timestamp)
        elif target.resource == RESOURCES and not event.user_agent.startswith(self._writer):
            self._edited[target.name] = _received(event)

    @property
    def is_done(self) -> bool:
        """Whether so many edits have reached their child."""
        return len(self._answered) >= self._count

    @property
    def so_far(self) -> str:
        """How far it got."""
        return f"{len(self._answered)} of {self._count} children patched"

    def latencies_ms(self) -> list[float]:
        """Return, per edit, how long it took to reach the child."""
        waited = (self._patched[name] - self._edited[name] for name in self._answered)
        return [each.total_seconds() * 1000 for each in waited]

    def seconds(self) -> float:
        """Return the time from the first edit to the last child."""
        last = max(self._patched[name] for name in self._answered)
        return (last - min(self._edited.values())).total_seconds()

    @property
    def _answered(self) -> set[str]:
        return self._edited.keys() & self._patched.keys()


class Looks:
    """How often handlers read each resource, and what they asked to change meanwhile."""

    def __init__(self, writer: str, resources: int, times: int) -> None:
        """Take the reader's User-Agent, how many resources there are, and how many looks end it."""
        self._writer = writer
        self._resources = resources
        self._times = times
        self._looks: Counter[str] = Counter()
        self._ended: datetime | None = None
        self.writes: list[AuditEvent] = []
        self.reads = 0

    def see(self, event: AuditEvent) -> None:
        """Take note of a finished request."""
        if not event.user_agent.startswith(self._writer):
            return
        if event.is_mutating:
            self.writes.append(event)
        elif event.verb in {"get", "list"}:
            self.reads += 1
        if event.verb == "get" and event.object_ref.resource == RESOURCES:
            self._looks[event.object_ref.name] += 1
            if self._looks[event.object_ref.name] <= self._times:
                self._ended = max(self._ended or event.stage_timestamp, event.stage_timestamp)

    @property
    def looks(self) -> int:
        """How many looks there were, those included that nobody waited for."""
        return self._looks.total()

    def seconds(self, since: datetime) -> float:
        """Return the time from a moment to the answer to the last look that was waited for."""
        return _seconds(since, self._ended)

    @property
    def is_done(self) -> bool:
        """Whether each was looked at so often."""
        return self._enough >= self._resources

    @property
    def so_far(self) -> str:
        """How far it got."""
        return f"{self._enough} of {self._resources} looked at {self._times} times"

    @property
    def _enough(self) -> int:
        return sum(times >= self._times for times in self._looks.values())


class FirstWrite:
    """The first change by a writer that the API server accepted."""

    def __init__(self, writer: str) -> None:
        """Take how the writer's User-Agent begins."""
        self._writer = writer
        self._at: datetime | None = None

    def see(self, event: AuditEvent) -> None:
        """Take note of a finished request."""
        if event.user_agent.startswith(self._writer) and event.is_mutating and event.landed:
            self._at = min(self._at or event.stage_timestamp, event.stage_timestamp)

    @property
    def is_done(self) -> bool:
        """Whether there was one."""
        return self._at is not None

    @property
    def so_far(self) -> str:
        """How far it got."""
        return f"first write at {self._at}"

    def seconds(self, since: datetime) -> float:
        """Return the time from a moment to it."""
        return _seconds(since, self._at)


class Silence:
    """How long nobody has changed anything of a namespace."""

    def __init__(self, namespace: str, seconds: float) -> None:
        """Take how long it must have been silent."""
        self._namespace = namespace
        self._seconds = seconds
        self._last = _now()

    def see(self, event: AuditEvent) -> None:
        """Take note of a finished request."""
        if event.is_mutating and event.object_ref.namespace == self._namespace:
            self._last = _now()

    @property
    def is_done(self) -> bool:
        """Whether it has been silent for so long."""
        return _now() - self._last >= self._seconds

    @property
    def so_far(self) -> str:
        """How far it got."""
        return f"silent for {_now() - self._last:.1f} s"


class Tail:
    """The finished requests that were logged since the last look, in order of their arrival."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._torn = b""

    def read(self) -> list[AuditEvent]:
        """Return what is new; bodies are dropped, for there are many of them."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            data = log.read()
        self._offset += len(data)
        lines = (self._torn + data).splitlines(keepends=True)
        self._torn = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        return [
            msgspec.structs.replace(event, request_object=Raw())
            for event in parse(lines)
            if event.stage == FINISHED
        ]


async def watch(tail: Tail, *tallies: Tally, what: str, within_seconds: float) -> None:
    """Return when every tally is done; raise TooSlow after so long."""
    with heartbeat(what):
        try:
            async with asyncio.timeout(within_seconds):
                while True:
                    for event in tail.read():
                        for tally in tallies:
                            tally.see(event)
                    if all(tally.is_done for tally in tallies):
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as exc:
            seen = "; ".join(tally.so_far for tally in tallies)
            raise TooSlow(f"{what}: after {within_seconds:.0f} s: {seen}") from exc


def _seconds(begun: datetime | None, ended: datetime | None) -> float:
    """Return the time between the moments of a tally that is done."""
    if begun is None or ended is None:
        raise ValueError("what was not seen has no duration")
    return (ended - begun).total_seconds()


def _received(event: AuditEvent) -> datetime:
    return event.request_received_timestamp


def _now() -> float:
    return asyncio.get_running_loop().time()
