"""What may happen to resources of one namespace, their children, and the processes of Weir."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import fields

from crds.kubernetes import Manifest

HANDLERS = ("handlers-1", "handlers-2")
How = Literal["background", "foreground", "orphan"]
Optional = Literal["LeaderWorkerSet", "InferencePool", "HTTPRoute"]
OPTIONAL: tuple[Optional, ...] = ("LeaderWorkerSet", "InferencePool", "HTTPRoute")
Stream = Literal["WEIR_QUEUE", "WEIR_LOCK", "WEIR_STATE", "WEIR_HISTORY", "the consumer"]
_WIDTH = 96


class Calm(Struct, frozen=True):
    """Everything comes to rest, and is looked at closely."""


class Begun(Struct, frozen=True):
    """Handlers have begun to write what was applied just now, where everything was at rest."""


class Apply(Struct, frozen=True):
    """A user creates a resource, or replaces its spec."""

    name: str
    spec: Manifest


class Wrong(Struct, frozen=True):
    """A user asks for a spec that the API server refuses."""

    name: str
    spec: Manifest


class Delete(Struct, frozen=True):
    """A user deletes a resource."""

    name: str
    how: How = "background"


class Pause(Struct, frozen=True):
    """A user pauses a resource by its annotation."""

    name: str


class Resume(Struct, frozen=True):
    """A user takes a resource up again."""

    name: str


class Touch(Struct, frozen=True):
    """Somebody else changes a child (`Kind/name`); `touches.py` says how."""

    child: str
    what: str
    by: str = "kubectl-edit"


class Scale(Struct, frozen=True):
    """An autoscaler sets the replicas of a workload."""

    child: str
    replicas: int


class Squat(Struct, frozen=True):
    """Somebody makes an object that has the name of a child, where none has it yet."""

    child: str


class Unsquat(Struct, frozen=True):
    """They remove it again."""

    child: str


class Install(Struct, frozen=True):
    """An administrator installs the CRD of a kind that others bring."""

    kind: Optional


class Remove(Struct, frozen=True):
    """They remove it, and with it all objects of the kind."""

    kind: Optional


class Kill(Struct, frozen=True):
    """SIGKILL of a process (`handlers-1`, `bridge`, `nats`), which starts again."""

    what: str


class Stop(Struct, frozen=True):
    """SIGSTOP of a process of Weir until the next calm; of a handler, lasting, until `Continue`."""

    what: str
    lasting: bool = False


class Continue(Struct, frozen=True):
    """SIGCONT of all that are stopped."""


class Cut(Struct, frozen=True):
    """Weir's connections to `nats` or `api` break; lasting: for good until the next calm."""

    what: Literal["nats", "api"]
    lasting: bool = False


class Wipe(Struct, frozen=True):
    """NATS loses everything."""


class Lose(Struct, frozen=True):
    """A stream is deleted, or the consumer of the queue."""

    stream: Stream


Action: TypeAlias = (
    Calm
    | Begun
    | Apply
    | Wrong
    | Delete
    | Pause
    | Resume
    | Touch
    | Scale
    | Squat
    | Unsquat
    | Install
    | Remove
    | Kill
    | Stop
    | Continue
    | Cut
    | Wipe
    | Lose
)
Sequence: TypeAlias = tuple[Action, ...]


def as_python(sequence: Iterable[Action]) -> str:
    """Return a sequence as it stands in `written.py`."""
    return "(\n" + "".join(f"    {_call(action, '    ')},\n" for action in sequence) + ")"


def _call(action: Action, indent: str) -> str:
    given = ", ".join(
        f"{field.name}={_value(getattr(action, field.name), indent)}"
        for field in fields(action)
        if getattr(action, field.name) != field.default
    )
    return f"{type(action).__name__}({given})"


def _value(value: object, indent: str) -> str:
    """Return a literal: on one line where it is short, else an entry a line."""
    short = repr(value)
    if not isinstance(value, dict | list) or len(short) + len(indent) < _WIDTH:
        return short
    deeper = f"{indent}    "
    if isinstance(value, dict):
        lines = [f"{key!r}: {_value(item, deeper)}" for key, item in value.items()]
    else:
        lines = [_value(item, deeper) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n" + "".join(f"{deeper}{line},\n" for line in lines) + f"{indent}{end}"
