"""
The message that says "look at this object": its key, its subject and its id.

An event names an owner and carries a hint, never truth: whoever takes it reads the present state.
The envelope is CloudEvents 1.0 in the NATS binding, binary mode: attributes are `ce-*` headers.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec
from msgspec import Struct

from crds.kind import LABEL, SUBDOMAIN

CLUSTER_SCOPE = "_"
"""Namespace token of cluster-scoped objects; `_` is in no Kubernetes name."""

WORK_SUBJECT = "weir.w"
TIMER_SUBJECT = "weir.t"
LEASE_SUBJECT = "weir.l"
STATE_SUBJECT = "weir.s"
DEAD_SUBJECT = "weir.d"
HISTORY_SUBJECT = "weir.h"


_TOKEN = re.compile(rf"[a-z0-9]+\.(?:_|{LABEL})\.{SUBDOMAIN.replace('.', '_')}")
"""Kind, namespace and name as Kubernetes allows them; whoever may publish may write anything."""


class ObjectKey(Struct, frozen=True, order=True):
    """Which resource of ours an event is about; `kind` in lower case."""

    kind: str
    namespace: str
    """Empty for a cluster-scoped resource."""
    name: str

    @property
    def token(self) -> str:
        """`kind.namespace.name` as NATS subject tokens: a dot in a name is written `_`."""
        namespace = self.namespace or CLUSTER_SCOPE
        return f"{self.kind}.{namespace}.{self.name.replace('.', '_')}"

    @classmethod
    def from_token(cls, token: str) -> ObjectKey:
        """Return the key whose `token` this is; raise ValueError for anything else."""
        if not _TOKEN.fullmatch(token):
            raise ValueError(f"{token!r} is the token of no object")
        kind, namespace, name = token.split(".")
        return cls(kind, "" if namespace == CLUSTER_SCOPE else namespace, name.replace("_", "."))

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else self.token


class EventType(StrEnum):
    """CloudEvents `type` of what is published to the queue."""

    CHANGED = "dev.weir.changed"
    OBSERVED = "dev.weir.observed"
    """A child appeared, or a workload changed: a glance may do."""
    DELETED = "dev.weir.deleted"
    RESYNC = "dev.weir.resync"
    REFERRED = "dev.weir.referred"
    TIMER = "dev.weir.timer"
    RETRY = "dev.weir.retry"


class ChildHint(Struct, frozen=True, array_like=True, gc=False):
    """A child that the bridge has seen; `kind` as in manifests."""

    kind: str
    name: str
    uid: str


class ChangeEvent(Struct, frozen=True, kw_only=True):
    """One message to the queue. Two events of one `id` within the duplicate window are one."""

    key: ObjectKey
    type: EventType
    id: str
    """Begins with the key's token: deduplication is per stream, and a fan-out has many keys."""
    source: str = "weir/bridge"
    time: str = ""
    """RFC 3339; when the bridge saw the change."""
    traceparent: str = ""
    children: tuple[ChildHint, ...] = ()


_WEIGHT = {
    EventType.OBSERVED: 0,
    EventType.CHANGED: 1,
    EventType.DELETED: 1,
    EventType.REFERRED: 2,
    EventType.RESYNC: 3,
}
"""
Of two looks that these ask for, the weightier one does for both.

TIMER and RETRY have none: they are tries, which back-off does not hold.
"""


def joined(first: ChangeEvent, second: ChangeEvent) -> ChangeEvent | None:
    """Return the event whose look does for two of one key, None where it takes two looks."""
    if first.type not in _WEIGHT or second.type not in _WEIGHT:
        return None
    weightier = first if _WEIGHT[first.type] >= _WEIGHT[second.type] else second
    children = tuple(dict.fromkeys((*first.children, *second.children)))
    return msgspec.structs.replace(weightier, children=children)


def seen_id(key: ObjectKey, uid: str, resource_version: str) -> str:
    """Return the id of "this object state was seen": the same state gives the same id."""
    return f"{key.token}:{uid}:{resource_version}"


def observed_id(key: ObjectKey, uid: str, resource_version: str) -> str:
    """Return the id of a state told as `observed`: never that of a change, in another slot."""
    return f"{key.token}:{uid}:{resource_version}:observed"


def deleted_id(key: ObjectKey, uid: str, resource_version: str) -> str:
    """Return the id of a deletion, real or synthetic: never that of the last state seen."""
    return f"{key.token}:{uid}:{resource_version}:deleted"


def resync_id(key: ObjectKey, epoch: str) -> str:
    """Return the id of a periodic look: bridges that share the epoch publish it once."""
    return f"{key.token}:resync:{epoch}"


def epoch_of(event: ChangeEvent) -> str:
    """Return the epoch that a periodic look's id gives; empty where it has no id."""
    return event.id.rpartition(":")[2]


_CE = {
    "ce-specversion": "1.0",
    "ce-datacontenttype": "application/json",
}
_encoder = msgspec.json.Encoder()
_children = msgspec.json.Decoder(tuple[ChildHint, ...])


def encode(event: ChangeEvent) -> tuple[dict[str, str], bytes]:
    """Return the NATS headers and the payload of an event."""
    headers = {
        **_CE,
        "ce-id": event.id,
        "ce-type": event.type.value,
        "ce-source": event.source,
        "ce-subject": event.key.token,
        "Nats-Msg-Id": event.id,
    }
    if event.time:
        headers["ce-time"] = event.time
    if event.traceparent:
        headers["traceparent"] = event.traceparent
    return headers, _encoder.encode(event.children) if event.children else b""


def decode(subject: str, headers: dict[str, str] | None, payload: bytes) -> ChangeEvent:
    """
    Return the event of a queue message, whose subject alone decides the key.

    A payload or header that makes no sense costs the hint only: an event without them is a
    timer's, and the reconcile it causes reads everything it needs.
    """
    headers = headers or {}
    token = subject.removeprefix(WORK_SUBJECT + ".").rpartition(".")[0]
    try:
        children = _children.decode(payload) if payload else ()
    except (msgspec.MsgspecError, RecursionError):
        children = ()
    try:
        kind = EventType(headers.get("ce-type", EventType.TIMER))
    except ValueError:
        kind = EventType.CHANGED
    return ChangeEvent(
        key=ObjectKey.from_token(token),
        type=kind,
        id=headers.get("ce-id", ""),
        source=headers.get("ce-source", ""),
        time=headers.get("ce-time", ""),
        traceparent=headers.get("traceparent", ""),
        children=children,
    )
