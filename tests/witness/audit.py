"""
The API server's audit log as a witness: who asked for which change, when, with what answer.

Source of the shape: Kubernetes `audit.k8s.io/v1` Event, one JSON object per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
from msgspec import Raw, Struct

_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_QUESTIONS = frozenset(
    {
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
)
"""Resources whose creation is a question: nothing is stored."""
_WRITER = re.compile(r"^weir-(?P<component>[a-z]+)/(?P<version>\S+) \((?P<identity>[^)]+)\)")


class Writer(NamedTuple):
    """The process of ours that a User-Agent names: `weir-<component>/<version> (<identity>)`."""

    component: str
    version: str
    identity: str


class ObjectRef(Struct, frozen=True, rename="camel", kw_only=True):
    """The object that a request is about."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        parts = (self.resource, self.namespace, self.name, self.subresource)
        return "/".join(filter(None, parts))


class ResponseStatus(Struct, frozen=True, kw_only=True):
    """How a request ended."""

    code: int = 0
    message: str = ""


class AuditEvent(Struct, frozen=True, rename="camel", kw_only=True):
    """One line of the log."""

    stage: str
    verb: str
    request_uri: str = msgspec.field(name="requestURI", default="")
    user_agent: str = ""
    object_ref: ObjectRef = ObjectRef()
    response_status: ResponseStatus = ResponseStatus()
    request_object: Raw = Raw()
    """The body, where the audit policy's level is Request or above."""
    request_received_timestamp: datetime
    stage_timestamp: datetime

    @property
    def is_mutating(self) -> bool:
        """Whether the request asked for a stored change: no question, no dry run."""
        return (
            self.verb in _MUTATING
            and self.object_ref.resource not in _QUESTIONS
            and "dryRun" not in parse_qs(self.request_uri.partition("?")[2])
        )

    @property
    def landed(self) -> bool:
        """Whether the API server accepted it."""
        return 200 <= self.response_status.code < 300

    @property
    def writer(self) -> Writer | None:
        """The process of ours that asked, None for anybody else."""
        match = _WRITER.match(self.user_agent)
        return Writer(**match.groupdict()) if match else None

    @property
    def body(self) -> dict[str, Any]:
        """The request's body; empty where the log holds none."""
        found = msgspec.json.decode(self.request_object) if bytes(self.request_object) else None
        return found if isinstance(found, dict) else {}

    def __str__(self) -> str:
        return (
            f"{self.request_received_timestamp:%H:%M:%S.%f} {self.verb} {self.object_ref} "
            f"-> {self.response_status.code} by {self.user_agent}"
        )


_decoder = msgspec.json.Decoder(AuditEvent)
_BEGIN = b'{"kind":"Event","apiVersion":"audit.k8s.io/'


def parse(lines: Iterable[bytes]) -> list[AuditEvent]:
    """
    Return the events of *lines*, oldest received first; a torn last line is left out.

    So is what a server that was killed had written of one: the next server's first stands behind
    it in the same line.
    """
    events = [_event(line) for line in lines if line.endswith(b"\n") and line.strip()]
    return sorted(events, key=lambda event: event.request_received_timestamp)


def _event(line: bytes) -> AuditEvent:
    begun = line.rfind(_BEGIN)
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        if begun <= 0:
            raise
    return _decoder.decode(line[begun:])


class AuditLog:
    """The log of one API server, also across the files that it is rotated into."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def offset(self) -> int:
        """Return where the log ends now: what is written later lies behind it."""
        return sum(file.stat().st_size for file in self._files())

    def events(self, *, from_offset: int = 0, stage: str = "ResponseComplete") -> list[AuditEvent]:
        """
        Return the finished requests that were logged behind *from_offset*.

        A watch that goes on is at the stage `ResponseStarted`.
        """
        lines: list[bytes] = []
        passed = 0
        for file in self._files():
            with file.open("rb") as opened:
                opened.seek(max(0, from_offset - passed))
                lines += opened.readlines()
            passed += file.stat().st_size
        return [event for event in parse(lines) if event.stage == stage]

    def mutating(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user_agent_prefix: str = "weir",
        namespace: str | None = None,
        from_offset: int = 0,
    ) -> list[AuditEvent]:
        """Return the requests for changes received in [since, until], refused ones included."""
        return [
            event
            for event in self.events(from_offset=from_offset)
            if event.is_mutating
            and event.user_agent.startswith(user_agent_prefix)
            and (since is None or event.request_received_timestamp >= since)
            and (until is None or event.request_received_timestamp <= until)
            and (namespace is None or event.object_ref.namespace == namespace)
        ]

    def _files(self) -> list[Path]:
        """Return the rotated files, whose names carry the time, and the present one last."""
        rotated = self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}")
        return [*sorted(rotated), self._path]
