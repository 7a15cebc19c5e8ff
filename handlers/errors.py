"""
Why a reconcile did not end well, as far as anybody acts on it.

    TerminalError        (handler.py) only an edit of the resource can help
    ReconcileError
    +-- LeaseLost        the object is no longer ours: not one more write
    +-- GiveBack         another handler, or a later moment, is better suited; not counted
    +-- OtherOperator    another operator writes to the object: not one write until it stops
    +-- DependencyDown   a backend is in trouble; not counted, tried again when it returns

Anything else is a failure of our own: counted, retried with back-off, quarantined in the end.
"""

from __future__ import annotations

from bridge.jetstream import BusError
from bridge.kube_errors import SERVER_ERROR, Conflict, KubeError, Throttled, Unavailable

GATEWAY_TIMEOUT = 504
KUBERNETES = "kubernetes"
NATS = "nats"


class ReconcileError(Exception):
    """A reconcile that stopped for a reason of the surroundings."""


class LeaseLost(ReconcileError):
    """The lease is too short for another write, or gone."""


class GiveBack(ReconcileError):
    """The message goes back to the queue, uncounted."""

    def __init__(self, why: str, after_seconds: float, *, grows: bool = False) -> None:
        """Take a reason for the log, and when to try again: later each time, where that grows."""
        super().__init__(why)
        self.after_seconds = after_seconds
        self.grows = grows


class OtherOperator(ReconcileError):
    """Another operator wrote to the object a moment ago, and would write over what we write."""

    def __init__(self, why: str, manager: str, after_seconds: float) -> None:
        """Take who writes what and what to do about it, its name, and when to look again."""
        super().__init__(why)
        self.manager = manager
        self.after_seconds = after_seconds


class DependencyDown(ReconcileError):
    """A backend is in trouble; `is_out` where nothing of it answers."""

    def __init__(
        self,
        backend: str,
        why: str,
        *,
        after_seconds: float | None = None,
        is_out: bool = True,
        is_slow: bool = False,
    ) -> None:
        """Take the backend's name, its words, and when it asks to be tried again."""
        super().__init__(f"{backend}: {why}")
        self.backend = backend
        self.after_seconds = after_seconds
        self.is_out = is_out
        self.is_slow = is_slow
        """Fewer calls at once could help: it was too slow, asked for less, or went away."""


CONFLICT_RETRY_SECONDS = 0.1
ACCESS_RETRY_SECONDS = 5.0
_OUT = (0, 502, 503)
"""No answer, or one from something in front of a server that is not there."""
_ACCESS = (401, 403)
"""A token in rotation, a role that is missing or (after a start of the server) not loaded yet."""


def settled_as(exc: BaseException) -> BaseException:
    """
    Return the class of an error that left a reconcile.

    A 500 that speaks of one typed patch is about one object, and never "the backend is down".
    """
    match exc:
        case Conflict():
            return GiveBack(str(exc), CONFLICT_RETRY_SECONDS, grows=True)
        case Throttled() | Unavailable():
            return DependencyDown(
                KUBERNETES,
                str(exc),
                after_seconds=exc.retry_after_seconds,
                is_out=isinstance(exc, Unavailable) and exc.status in _OUT,
                is_slow=is_slow(exc),
            )
        case KubeError() if exc.status in _ACCESS:
            # Of our own rights: what a child is refused for never leaves apply.py.
            after = ACCESS_RETRY_SECONDS
            return DependencyDown(KUBERNETES, str(exc), after_seconds=after, is_out=False)
        case TimeoutError():
            # A reconcile does nothing that takes long but wait for the API server.
            return DependencyDown(KUBERNETES, str(exc), is_out=False, is_slow=True)
        case BusError():
            return DependencyDown(NATS, str(exc))
        case _:
            return exc


def is_slow(exc: Throttled | Unavailable) -> bool:
    """Return whether fewer calls at once could have helped; a 500 speaks of one object."""
    return exc.status != SERVER_ERROR


def is_of_one_object(exc: Unavailable) -> bool:
    """
    Return whether a server's failure speaks of the one object that was written.

    A 500 does (a webhook that cannot be called, a patch that cannot be typed), and a 504 (a webhook
    that is slow). An API server in trouble does not answer, or answers 502 or 503.
    """
    return exc.status in (SERVER_ERROR, GATEWAY_TIMEOUT)
