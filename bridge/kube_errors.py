"""
What the API server says instead of what was asked, as errors.

    KubeError                 any answer that is not the one asked for
    +-- Gone                  410: the resourceVersion or continue token is too old
    +-- Conflict              409: a precondition (uid, resourceVersion) does not hold
    +-- AlreadyExists         409: a create met an object of that name
    +-- NotFound              404
    |   +-- NotServed         404 that names no object: the kind itself is not there
    +-- Refused               other 4xx: this request will not be served as it stands
    +-- Throttled             429: come back after retry_after_seconds
    +-- Unavailable           5xx, connection loss, time-out: the server itself is in trouble
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

ERROR_TEXT_MAX = 500
"""Characters of a server's message that reach logs and conditions."""
SERVER_ERROR = 500
RETRY_AFTER_SECONDS_MAX = 30.0
"""A server, or what stands in front of it, may not park an object for a day."""
DIGITS_MAX = 9
"""Of a Retry-After that is read: more would still be more than the maximum."""


class KubeError(Exception):
    """An answer that is not the one asked for."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after_seconds: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        """Take what the server's `Status` object says; status 0 is no answer at all."""
        super().__init__(f"{status} {reason}: {message}" if status else f"{reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.causes = causes
        """Reasons of `details.causes`, such as NamespaceTerminating."""


class Gone(KubeError):
    """The resourceVersion or the continue token is too old."""


class Conflict(KubeError):
    """A precondition does not hold: the object changed, or is another one of that name."""


class AlreadyExists(KubeError):
    """A create met an object of that name."""


class NotFound(KubeError):
    """There is no such object, no such namespace, or no such kind."""


class NotServed(NotFound):
    """There is no such kind, or none of that version."""


class Refused(KubeError):
    """The server will not serve this request as it stands."""


class Throttled(KubeError):
    """The server asks for patience."""


class Unavailable(KubeError):
    """The server is in trouble or out of reach."""


class _Cause(Struct):
    reason: str = ""


class _Details(Struct):
    name: str = ""
    causes: list[_Cause] | None = None


class _Status(Struct):
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(_Status)


def error_of(status: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """Return the error of an HTTP answer or of an ERROR line in a watch."""
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        said = _Status(message=body[:ERROR_TEXT_MAX].decode("utf-8", "replace"))
    message = said.message[:ERROR_TEXT_MAX].strip()
    seconds = None
    if retry_after and retry_after.isdecimal():
        seconds = min(float(retry_after[:DIGITS_MAX]), RETRY_AFTER_SECONDS_MAX)
    kind: type[KubeError]
    match status, said.reason:
        case 410, _:
            kind = Gone
        case 409, "AlreadyExists":
            kind = AlreadyExists
        case 409, _:
            kind = Conflict
        case 404, _ if said.details is None or not said.details.name:
            kind = NotServed
        case 404, _:
            kind = NotFound
        case 429, _:
            kind = Throttled
        case _ if status >= SERVER_ERROR:
            kind = Unavailable
        case _:
            kind = Refused
    causes = tuple(cause.reason for cause in (said.details and said.details.causes) or ())
    return kind(status, said.reason or f"HTTP{status}", message, seconds, causes)
